"""NeuralUCB and neural Thompson sampling, exact over all parameters of the network.

Score of x = [user, product]: mean + alpha sqrt(lambda g' A^-1 g), with A = lambda I + sum g g' over the history and g
the gradient of the network's output in all its weights; Thompson sampling multiplies the deviation by a draw from
N(0, 1). `zoosim.neural` keeps A in the form that is cheapest. By default the mean is that of the linearised network,
g' A^-1 sum r g, and the history is counted by distinct row, fades, and is seen through the gradients of today's
network. `history = "published"` with `mean = "network"` is what the papers' algorithms do.
"""

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from zoosim.core.errors import ConfigError
from zoosim.core.jit import jit
from zoosim.core.parameters import parameter, shown
from zoosim.core.rng import draw_key, normal
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PolicySpec
from zoosim.neural.forms import FORMS, matrix_bytes
from zoosim.neural.lazy import SLACK, lazy_argmax
from zoosim.neural.learner import Candidates, Learner, Settings
from zoosim.neural.state import OTHER
from zoosim.policies.base import Policy, policy_name
from zoosim.policies.kernel import (
    DRAWS,
    LARGEST,
    best_of,
    check_finite,
    check_shape,
    checked_action,
    checked_mask,
    checked_reward,
    checked_user,
    distinct_rows,
)

LAZY_ABOVE = 64
"""Distinct candidates above which only those are evaluated that may be the best."""

LEAST_KEPT = 0.01
"""The least weight that observations may keep from one training to the next."""

CONDITION = 1e7
"""The largest condition number of A to which bonuses are promised to be right to 8 digits, in every exact form."""

MOST_GIGABYTES = 8
"""The largest matrices of a form that is asked for by name."""


@jit
def _normals(key: np.uint64, i: int, out: FloatArray) -> None:
    """Fill `out (R,)` with draws from N(0, 1) that belong to (key, i)."""
    for r in range(out.shape[0]):
        out[r] = normal(key, i, r)


@jit
def _wins(
    means: FloatArray,
    deviations: FloatArray,
    row_of: IntArray,
    available: BoolArray,
    action: int,
    optimistic: bool,
    key: np.uint64,
) -> int:
    """Count how many of `DRAWS` posterior draws choose `action`."""
    wins, z = 0, np.empty(means.shape[0])
    for i in range(DRAWS):
        _normals(key, i, z)
        for r in range(z.shape[0]):
            z[r] = means[r] + deviations[r] * (max(z[r], 0.0) if optimistic else z[r])
        wins += best_of(z, row_of, available) == action
    return wins


class _Neural(Policy):
    """What NeuralUCB and neural Thompson sampling have in common: all but what multiplies the deviation."""

    hidden: str = parameter("64", help="sizes of the hidden layers, such as 64 or 128-64")
    history: str = parameter(
        "fresh",
        choices=("fresh", "published"),
        help="fresh: gradients recomputed at trainings; published: kept, a step a visit",
    )
    form: str = parameter("auto", choices=FORMS, help="how A is kept; auto: in the cheapest exact form")
    mean: str = parameter(
        "posterior",
        choices=("posterior", "network"),
        help="posterior: of the linearised network; network: its output",
    )
    alpha: float
    drawn: ClassVar[tuple[str, ...]] = ()
    """What a state holds besides what was learned: the key and the number of draws."""

    regularization: float = parameter(0.3, low=1e-6, high=1e6, help="lambda, the variance of a reward's noise")
    normalise: bool = parameter(True, help="whether gradients are scaled to a mean squared length of 1")
    discount: float = parameter(
        0.999, low=0.9, high=1, help="weight that an observation keeps, a visit; all fade together, at trainings"
    )
    memory: int = parameter(
        2_000, low=1, high=1_000_000, help="distinct rows observed that a training keeps, the last ones"
    )
    train_every: int = parameter(50, low=1, high=1_000_000_000, help="visits between trainings, if fresh")
    steps: int = parameter(8, low=0, high=10_000, help="Adam steps a training, if fresh")
    batch_size: int = parameter(64, low=1, high=100_000, help="distinct rows from which on a step draws a batch")
    learning_rate: float = parameter(0.01, low=0, high=10, help="step size of the training")

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        super().__init__(spec, rng, **params)
        self._learner = Learner(self._settings(), spec.user_dim + spec.product_dim, rng)
        self._products: FloatArray | None = None
        self._warned = False
        self._rows, self._row_of = np.zeros((0, 0)), np.zeros(0, np.int64)

    def select_action(self, context: Context) -> int:
        """Choose the available product of the highest score, the lowest index on ties."""
        user, available = self._take_in(context)
        return self._best(self._learner, user, self._multipliers(), available)

    def update(self, context: Context, action: int, reward: float, feedback: Mapping[str, Any] | None = None) -> None:
        """Learn from a reward; what is wrong is refused before it touches anything."""
        chosen, earned = checked_action(action, self.spec), checked_reward(reward, -LARGEST, LARGEST)
        user, _ = self._take_in(context)
        self._learner.learn(self._learner.candidates(user, self._rows), int(self._row_of[chosen]), earned)
        self._heed()

    def state_dict(self) -> dict[str, Any]:
        """Return copies of all that was learned."""
        return self._learner.state()

    def held_bytes(self) -> int:
        """Return the bytes of all arrays that are kept: what was learned, the products, and remembered candidates."""
        learned = [value for value in self._learner.state().values() if isinstance(value, np.ndarray)]
        candidates = 8 * sum(candidates.size for candidates in self._learner.cached)
        return sum(array.nbytes for array in (*learned, self._rows, self._row_of)) + candidates

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a saved state; refuses one of another policy, task or parameters and then changes nothing."""
        if not all(isinstance(state.get(name), int) for name in self.drawn):
            raise ConfigError(f"{policy_name(type(self))}: {OTHER}")
        self._learner.load({name: value for name, value in state.items() if name not in self.drawn})

    def _heed(self) -> None:
        """Warn, once, when the features are so scaled that A is ill-conditioned."""
        condition = self._learner.condition
        if condition > CONDITION and not self._warned:
            self._warned = True
            scaled = "" if self.normalise else ", set normalise"
            warnings.warn(
                f"{policy_name(type(self))}: the matrix of the gradients has condition number up to {condition:.0e}, "
                f"where bonuses are right to 8 digits up to {CONDITION:.0e}; scale the features to about 1{scaled}, or "
                "raise the regularization",
                RuntimeWarning,
                stacklevel=3,
            )

    @abstractmethod
    def _multipliers(self) -> FloatArray:
        """Return what each distinct row's deviation `(R,)` counts."""

    def _best(self, learner: Learner, user: FloatArray, z: FloatArray, available: BoolArray) -> int:
        candidates = learner.candidates(user, self._rows)
        if self.mean == "network" and len(z) > LAZY_ABOVE and not learner.in_rows:
            return self._lazy(learner, candidates, z, available)
        return int(best_of(self._scores(learner, candidates, z), self._row_of, available))

    def _scores(
        self, learner: Learner, candidates: Candidates, z: FloatArray, which: IntArray | None = None
    ) -> FloatArray:
        means, deviations = self._posterior(learner, candidates, which)
        return means + deviations * (z if which is None else z[which])

    def _posterior(
        self, learner: Learner, candidates: Candidates, which: IntArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the mean that decides and alpha times the deviation, of the candidates `which` or of all."""
        means, variances = learner.posterior(candidates, which)
        if which is not None:
            candidates.bounds[which] = variances
        if self.mean == "network":
            means = candidates.outputs if which is None else candidates.outputs[which]
        return means, self.alpha * np.sqrt(variances)

    def _lazy(self, learner: Learner, candidates: Candidates, z: FloatArray, available: BoolArray) -> int:
        """Choose as a scan of all candidates does, by bounds: the variances of earlier decisions."""
        products = np.flatnonzero(available)[::-1]
        firsts = np.full(len(z), -1)
        firsts[self._row_of[products]] = products
        widths = self.alpha * np.sqrt(candidates.bounds) * np.maximum(z, 0.0)
        bounds = candidates.outputs + widths
        bounds += SLACK * (np.abs(candidates.outputs) + widths)
        bounds[firsts < 0] = -np.inf
        best = lazy_argmax(bounds, firsts, lambda which: self._scores(learner, candidates, z, which))
        return int(firsts[best])

    def _take_in(self, context: Context) -> tuple[FloatArray, BoolArray]:
        """Check a context and take in its products; return its user `(d_u,)` and what may be shown `(K,)`."""
        user, available = checked_user(context, self.spec), checked_mask(context, self.spec)
        self._attach(context.products)
        return user, available

    def _attach(self, products: FloatArray) -> None:
        """Take in the candidates' features; free when they are the same read-only array as before."""
        if products is self._products:
            return
        check_shape("products", products, (self.spec.n_products, self.spec.product_dim))
        if self._products is None or not np.array_equal(products, self._products):
            check_finite("products", products)
            self._rows, self._row_of = distinct_rows(np.ascontiguousarray(products, np.float64))
            self._learner.clear_candidates()
        self._products = products if not products.flags.writeable else products.copy()

    def _settings(self) -> Settings:
        self._check_together()
        return Settings(
            hidden=self._hidden_sizes(),
            fresh=self.history == "fresh",
            form=self.form,
            noise=self.regularization,
            normalise=self.normalise,
            discount=self.discount,
            memory=self.memory,
            train_every=self.train_every,
            steps=self.steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
        )

    def _check_together(self) -> None:
        """Refuse parameters that are each right and do not go together."""
        label = policy_name(type(self))
        if self.history == "published" and self.form == "rows":
            raise ConfigError(f"{label}.form: rows are for fresh gradients; set form to auto, or history to fresh")
        if self.history == "published" and self.discount < 1:
            raise ConfigError(f"{label}.discount: got {self.discount:g}, expected 1 when history is published")
        self._check_fade(label)

    def _check_fade(self, label: str) -> None:
        if self.discount < 1 and self.discount**self.train_every < LEAST_KEPT:
            most = int(np.log(LEAST_KEPT) / np.log(self.discount))
            raise ConfigError(
                f"{label}.train_every: got {self.train_every:,}, expected at most {most:,} with a discount of "
                f"{self.discount:g}: all would be forgotten between two trainings"
            )

    def _hidden_sizes(self) -> tuple[int, ...]:
        parts, label = self.hidden.split("-"), policy_name(type(self))
        if not all(part.isascii() and part.isdigit() and 1 <= int(part) <= 4096 for part in parts) or len(parts) > 8:
            expected = "1 to 8 layer sizes from 1 to 4,096, such as 64 or 128-64"
            raise ConfigError(f"{label}.hidden: got {shown(self.hidden)}, expected {expected}")
        sizes = tuple(map(int, parts))
        gigabytes = 1e-9 * matrix_bytes(self.form, (self.spec.user_dim + self.spec.product_dim, *sizes, 1))
        if gigabytes > MOST_GIGABYTES:
            raise ConfigError(
                f"{label}.hidden: got {shown(self.hidden)}, whose form {self.form} takes {gigabytes:,.0f} GB, expected "
                f"at most {MOST_GIGABYTES}; set form to auto, or take a smaller network"
            )
        return sizes


class NeuralUCB(_Neural):
    """NeuralUCB (Zhou, Li & Gu 2020): an upper confidence bound over all parameters of a network, exact."""

    name = "neural-ucb"
    alpha: float = parameter(0.8, low=0, high=100, help="width of the bonus, in standard deviations")

    def propensity(self, context: Context, action: int) -> float:
        """Return 1 for the product that it would choose, else 0."""
        chosen = checked_action(action, self.spec)
        user, available = self._take_in(context)
        return float(chosen == self._best(self._learner.without_trace(user), user, self._multipliers(), available))

    def _multipliers(self) -> FloatArray:
        return np.ones(len(self._rows))


class NeuralTS(_Neural):
    """Neural Thompson sampling (Zhang, Zhou, Li & Gu 2021): a draw for each distinct row, exact over all parameters.

    Propensities come from 255 posterior draws.
    """

    name = "neural-ts"
    alpha: float = parameter(0.3, low=0, high=100, help="width of the draws, in standard deviations")
    drawn = ("key", "draws")
    optimistic: bool = parameter(False, help="whether draws below the mean are raised to it")

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        super().__init__(spec, rng, **params)
        self._key, self._draws = draw_key(rng), 0

    def propensity(self, context: Context, action: int) -> float:
        """Return the share of posterior draws that choose `action`, with one draw spread over what is available."""
        chosen = checked_action(action, self.spec)
        user, available = self._take_in(context)
        learner = self._learner.without_trace(user)
        posterior = self._posterior(learner, learner.candidates(user, self._rows))
        groups, firsts = np.unique(self._row_of[available], return_index=True)
        if chosen not in np.flatnonzero(available)[firsts]:
            return 0.0
        key = np.uint64(self._key ^ np.uint64(self._draws + 1))
        wins = _wins(*posterior, self._row_of, available, chosen, self.optimistic, key)
        return float((wins + 1.0 / len(groups)) / (DRAWS + 1))

    def state_dict(self) -> dict[str, Any]:
        """Return copies of all that was learned, and where the draws are."""
        return {**super().state_dict(), "key": int(self._key), "draws": self._draws}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a saved state; refuses one of another policy, task or parameters and then changes nothing."""
        super().load_state_dict(state)
        self._key, self._draws = np.uint64(state["key"]), int(state["draws"])

    def _multipliers(self) -> FloatArray:
        self._draws += 1
        z = np.empty(len(self._rows))
        _normals(self._key, self._draws, z)
        return np.maximum(z, 0.0) if self.optimistic else z
