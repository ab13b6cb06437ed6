"""NeuralUCB and neural Thompson sampling, exact over all parameters of the network.

Score of x = [user, product]: mean + alpha sqrt(lambda g' A^-1 g), with A = lambda I + sum g g' over the history and g
the gradient of the network's output in all its weights; Thompson sampling multiplies the deviation by a draw from
N(0, 1). `zoosim.neural` keeps A in the form that is cheapest. By default the mean is that of the linearised network,
g' A^-1 sum r g, and the history is counted by distinct row, fades, and is seen through the gradients of today's
network. `history = "published"` with `mean = "network"` is what the papers' algorithms do.
"""

import copy
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from zoosim.core.checks import parse_widths
from zoosim.core.claims import claim
from zoosim.core.errors import ConfigError
from zoosim.core.jit import jit
from zoosim.core.limits import CONDITION
from zoosim.core.parameters import parameter, parameters_of, shown
from zoosim.core.rng import draw_key, normal
from zoosim.core.state import state_in_use
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PolicySpec
from zoosim.neural.forms import FORMS, matrix_bytes, possible
from zoosim.neural.lazy import SLACK, lazy_argmax
from zoosim.neural.learner import CandidateRows, NeuralLearner, NeuralLearnerSettings
from zoosim.neural.mlp import count_weights
from zoosim.policies.base import policy_name
from zoosim.policies.choice import (
    DRAWS,
    add_share,
    best_of,
    draw_number,
    first_of_each,
    pick,
    posterior_key,
)
from zoosim.policies.kernel import DrawingPolicy
from zoosim.policies.products.neural_products import DistinctProducts
from zoosim.policies.requests import (
    LARGEST,
    CheckedRequest,
    checked_action,
    checked_candidates,
    checked_request,
    checked_reward,
)

LAZY_ABOVE = 64
"""Distinct candidates above which only those are evaluated that may be the best."""

LEAST_KEPT = 0.01
"""The least weight that observations may keep from one training to the next."""

MOST_GIGABYTES = 8
"""The largest matrices of a form that is asked for by name."""


@jit
def _normals(key: np.uint64, number: int, hashes: IntArray, optimistic: bool, out: FloatArray) -> None:
    """Write posterior draw `number` of each row to `out (R,)`: from N(0, 1), no less than 0 if optimistic.

    A product's draw follows from its features: it is the same wherever the product stands among the candidates.
    """
    for r in range(out.shape[0]):
        z = normal(key, number, hashes[r])
        out[r] = max(z, 0.0) if optimistic else z


@jit
def _add_wins(
    means: FloatArray,
    deviations: FloatArray,
    hashes: IntArray,
    row_of: IntArray,
    available: BoolArray,
    optimistic: bool,
    key: np.uint64,
    out: FloatArray,
) -> None:
    """Add the share of the `DRAWS` posterior draws that choose each product to `out (K,)`."""
    scores = np.empty(means.shape[0])
    for number in range(DRAWS):
        _normals(key, number, hashes, optimistic, scores)
        for r in range(scores.shape[0]):
            scores[r] = means[r] + deviations[r] * scores[r]
        out[best_of(scores, row_of, available)] += 1.0 / DRAWS


class _Neural(DrawingPolicy):
    """Base of NeuralUCB and neural Thompson sampling: all but what multiplies the deviation."""

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
    learned: ClassVar = {"": "_learner", "draws": "draws"}
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
    penalty: float = parameter(0.0, low=0, high=1e6, help="times the squared length of the weights: added to the loss")

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        super().__init__(spec, rng, **params)
        self._learner = NeuralLearner(self._settings(), spec.user_dim + spec.product_dim, rng)
        self.reseed(rng)

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        """Learn from a reward; what is wrong is refused before it touches anything."""
        request = checked_request(context, self.spec)
        chosen = checked_action(action, len(request.available))
        earned = checked_reward(reward, -LARGEST, LARGEST)
        place = self._find_attached(context)
        products = checked_candidates(context, self.spec)[1] if place is None else self._attached[place].features
        if not self._learner.network.length:  # the first request of all is the measure of gradients
            self._learner.network.meet(self.attach(context).seen_by(request.user).xs)
        self._learner.learn(np.concatenate((request.user, products[chosen])), earned)
        self._heed()

    def prepare(self) -> None:
        """Compile all that a decision or a reward may ever call, by a short made-up stream; moves no state."""
        params = {name: getattr(self, name) for name in parameters_of(type(self))}
        params |= {"hidden": "4", "train_every": 3, "batch_size": 2, "steps": 1, "regularization": 1.0}
        params["floor"] = 0.5 if self.floor else 0.0
        for form in dict.fromkeys((self.form, *possible(self.form, self.history == "fresh"))):
            _play_made_up(type(self), {**params, "form": form})

    def held_bytes(self) -> int:
        """Return the bytes of all arrays that are kept: what was learned, the products, and remembered candidates."""
        arrays = [value for value in state_in_use(self._learner).values() if isinstance(value, np.ndarray)]
        numbers = 0
        for attached in self._attached:
            products = attached.candidates
            arrays += [attached.ids, attached.features, products.rows, products.row_of]
            numbers += sum(candidates.size for candidates in products.visitors.values())
        return sum(array.nbytes for array in arrays) + 8 * numbers

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
    def _multipliers(self, products: DistinctProducts, draw: float) -> FloatArray:
        """Return what each distinct row's deviation `(R,)` counts in the decision that a `draw` settles."""

    @abstractmethod
    def _add_chances(self, request: CheckedRequest, products: DistinctProducts, out: FloatArray) -> None:
        """Add the probabilities of choices above the floor to `out (K,)`, which holds zeros."""

    def _candidates(self, ids: IntArray, products: FloatArray) -> DistinctProducts:
        return DistinctProducts(products)

    def _reader(self, context: Context) -> "_Neural":
        """Return the policy itself, or a copy where gradients have yet to be measured or rows to be numbered."""
        user = np.ascontiguousarray(context.user, np.float64)
        if self._learner.knows(self.attach(context).seen_by(user)):
            return self
        # By this memo the copy begins with an empty list, rather than with copies of all remembered candidates.
        return copy.deepcopy(self, {id(self._attached): []})

    def _draw_action(self, request: CheckedRequest, candidates: DistinctProducts, draw: float) -> int:
        if draw < self.floor:
            return int(pick(request.available, draw / self.floor))
        # One uniform serves for both: given on which side of the floor it fell, it is even there.
        above = (draw - self.floor) / (1.0 - self.floor)
        return self._best(request, candidates, self._multipliers(candidates, above))

    def _distribution(self, request: CheckedRequest, candidates: DistinctProducts) -> FloatArray:
        out = np.zeros(len(request.available))
        self._add_chances(request, candidates, out)
        if self.floor > 0.0:
            out *= 1.0 - self.floor
            add_share(request.available, self.floor, out)
        return out

    def _exploit(self, request: CheckedRequest, candidates: DistinctProducts) -> int:
        return self._best(request, candidates, np.zeros(len(candidates.rows)))

    def _best(self, request: CheckedRequest, products: DistinctProducts, z: FloatArray) -> int:
        """Return the available product of the highest mean plus z deviations, the lowest index on ties."""
        candidates = self._meet(request, products)
        if len(z) > LAZY_ABOVE and not self._learner.in_rows:
            return self._lazy(products, candidates, z, request.available)
        return int(best_of(self._scores(candidates, z), products.row_of, request.available))

    def _meet(self, request: CheckedRequest, products: DistinctProducts) -> CandidateRows:
        candidates = products.seen_by(request.user)
        self._learner.network.meet(candidates.xs)
        return candidates

    def _scores(self, candidates: CandidateRows, z: FloatArray, which: IntArray | None = None) -> FloatArray:
        means, deviations = self._posterior(candidates, which)
        return means + deviations * (z if which is None else z[which])

    def _posterior(self, candidates: CandidateRows, which: IntArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Return the mean that decides and alpha times the deviation, of the candidates `which` or of all."""
        means, variances = self._learner.posterior(candidates, which)
        if which is not None:
            # Until the network moves A only grows, so what was a variance once is a bound from now on.
            candidates.bounds[which] = variances
        if self.mean == "network":
            self._learner.look(candidates, at_posterior=False)
            means = candidates.means if which is None else candidates.means[which]
        return means, self.alpha * np.sqrt(variances)

    def _lazy(self, products: DistinctProducts, candidates: CandidateRows, z: FloatArray, available: BoolArray) -> int:
        """Choose as a scan of all candidates does, by bounds: cheap means, and variances of earlier decisions."""
        self._learner.look(candidates, at_posterior=self.mean == "posterior")
        firsts = first_of_each(products.row_of, available, len(z))
        # Where z is below 0 the score is highest for no variance at all, so 0 is the bound.
        widths = self.alpha * np.sqrt(candidates.bounds) * np.maximum(z, 0.0)
        bounds = candidates.means + widths
        bounds += candidates.errors + SLACK * (np.abs(candidates.means) + widths)
        bounds[firsts < 0] = -np.inf
        best = lazy_argmax(bounds, firsts, lambda which: self._scores(candidates, z, which))
        return int(firsts[best])

    def _settings(self) -> NeuralLearnerSettings:
        self._check_together()
        return NeuralLearnerSettings(
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
            penalty=self.penalty,
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
        label = policy_name(type(self))
        sizes = parse_widths(f"{label}.hidden", self.hidden)
        gigabytes = 1e-9 * matrix_bytes(self.form, (self.spec.user_dim + self.spec.product_dim, *sizes, 1))
        if gigabytes > MOST_GIGABYTES:
            raise ConfigError(
                f"{label}.hidden: got {shown(self.hidden)}, whose form {self.form} takes {gigabytes:,.0f} GB, expected "
                f"at most {MOST_GIGABYTES}; set form to auto, or take a smaller network"
            )
        claim(count_weights(np.array([self.spec.user_dim + self.spec.product_dim, *sizes, 1])))
        return sizes


class NeuralUCB(_Neural):
    """NeuralUCB (Zhou, Li & Gu 2020): an upper confidence bound over all parameters of a network, exact."""

    name = "neural-ucb"
    alpha: float = parameter(0.8, low=0, high=100, help="width of the bonus, in standard deviations")

    def _multipliers(self, products: DistinctProducts, draw: float) -> FloatArray:
        return products.ones

    def _add_chances(self, request: CheckedRequest, products: DistinctProducts, out: FloatArray) -> None:
        out[self._best(request, products, self._multipliers(products, 0.0))] = 1.0


class NeuralTS(_Neural):
    """Neural Thompson sampling (Zhang, Zhou, Li & Gu 2021): a draw for each distinct row, exact over all parameters.

    A decision takes one of 256 tabulated draws from the posterior, which change with every reward.
    """

    name = "neural-ts"
    alpha: float = parameter(0.3, low=0, high=100, help="width of the draws, in standard deviations")
    learned: ClassVar = {**_Neural.learned, "key": "_key"}
    optimistic: bool = parameter(False, help="whether draws below the mean are raised to it")

    def reseed(self, rng: np.random.Generator) -> None:
        """Draw from `rng` from now on, from the posterior, too; what was learned stays."""
        self._key = np.array([draw_key(rng)])
        super().reseed(rng)

    @property
    def _posterior_key(self) -> np.uint64:
        return np.uint64(posterior_key(self._key, np.array([self._learner.history.time])))

    def _multipliers(self, products: DistinctProducts, draw: float) -> FloatArray:
        z = np.empty(len(products.rows))
        _normals(self._posterior_key, draw_number(draw), products.hashes, self.optimistic, z)
        return z

    def _add_chances(self, request: CheckedRequest, products: DistinctProducts, out: FloatArray) -> None:
        means, deviations = self._posterior(self._meet(request, products))
        draws = (products.hashes, products.row_of, request.available, self.optimistic, self._posterior_key)
        _add_wins(means, deviations, *draws, out)


def _play_made_up(cls: type[_Neural], params: Mapping[str, Any]) -> None:
    """Run a small policy, which decides and learns among few and among many candidates, past trainings."""
    rng = np.random.default_rng(0)
    policy = cls(PolicySpec(user_dim=2, product_dim=2), rng, **params)
    for step in range(24):  # 72 rewards: A is made anew after 64 in the primal form
        count = 3 if step % 2 else LAZY_ABOVE + 1
        products = rng.normal(size=(count, 2))
        products.flags.writeable = step < 12  # code is compiled for each of the two
        context = Context(
            user_id=0,
            user=rng.normal(size=2),
            product_ids=np.arange(count),
            products=products,
            available=np.ones(count, bool),
        )
        policy.recommend(context)
        policy.propensities(context)
        for draw in (None, 0.0, 0.9):
            policy.update(context, policy.decide(context, draw).action, float(step % 3 > 0))
