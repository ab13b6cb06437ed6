"""A network that learns online, and the posterior over all its parameters: what NeuralUCB and Neural-Thompson share.

With g the gradient of the output at the current weights and A = lambda I + sum g g', the variance of a candidate is
lambda g' A^-1 g (Zhang, Zhou, Li & Gu 2021, algorithm 1; NeuralUCB, Zhou, Li & Gu 2020, has it without lambda), and
the linearised posterior mean g' A^-1 sum r g. Gradients are divided by `scale`, where the papers divide by the root of
the width.

*Fresh*: the weights hold between trainings, and each training computes the gradients of the whole history anew.
*Published*: a step after every decision, and A keeps each gradient as it was at its time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from zoosim.core.errors import PolicyError
from zoosim.core.limits import NOT_NEGATIVE
from zoosim.core.parameters import shown
from zoosim.core.state import Stateful
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import dot
from zoosim.neural.dual import Dual
from zoosim.neural.forms import MAX_ROWS, Form, cheapest, new_form, possible
from zoosim.neural.history import RowHistory
from zoosim.neural.kernel import trace
from zoosim.neural.network import Network
from zoosim.neural.rows import RowPosterior

MOST_ROWS = 4_096
"""Distinct rows, candidates included, that the rows form keeps at most when it is asked for by name."""

MEAN_ERROR = 1e-7
"""Largest distance of g'theta from a posterior mean by rounding, as a share of |g| |theta|; far above what is seen."""

CHUNK = 64
"""Candidates whose gradients are held at once."""


@dataclass(frozen=True)
class NeuralLearnerSettings:
    """Settings of a `NeuralLearner`.

    `hidden` layer sizes; `fresh` or as published; `form`; `noise` lambda; `normalise` gradients to a mean squared
    length of 1 or not; `discount` a decision; `memory` in distinct rows; and the training.
    """

    hidden: tuple[int, ...]
    fresh: bool
    form: str
    noise: float
    normalise: bool
    discount: float
    memory: int
    train_every: int
    steps: int
    batch_size: int
    learning_rate: float
    penalty: float


class CandidateRows:
    """One user with every distinct product: rows `xs (R, d)`, and what is remembered of them between decisions.

    At `version` of the network: `means (R,)`, its outputs or, with `errors (R,)`, the posterior's; `norms (R,)`, the
    squared lengths of gradients; `bounds (R,)`, no variance is above them. At `numbering` of the history: `numbers
    (R,)`.
    """

    def __init__(self, user: FloatArray, products: FloatArray) -> None:
        self.xs = np.hstack([np.broadcast_to(user, (len(products), len(user))), products])
        self.means, self.errors, self.norms, self.bounds = np.zeros((4, len(products)))
        self.version = -1
        self.numbers = np.zeros(0, np.int64)
        self.numbering = -1

    @property
    def size(self) -> int:
        """The number of values that it holds."""
        return self.xs.size + 5 * len(self.xs)


class NeuralLearner(Stateful):
    """A network, its history, and the posterior over its parameters in whichever form is cheapest."""

    learned: ClassVar = {
        "learner.since": "since",
        "learner.few": "few",
        "learner.trace": "trace",
        "network.": "network",
        "history.": "history",
        "form.": "form",
    }
    trace: Annotated[float, NOT_NEGATIVE]

    def __init__(self, settings: NeuralLearnerSettings, dim: int, rng: np.random.Generator) -> None:
        """`dim` is the length of a row [user, product]."""
        self.settings = settings
        first = len(settings.hidden) if settings.form == "last-layer" else 0
        training = settings.learning_rate, settings.penalty, settings.normalise
        self.network = Network((dim, *settings.hidden, 1), first, *training, rng)
        self.history = RowHistory(dim)
        self.since = 0
        self.trace = 0.0
        self.few = settings.fresh
        self.numbering = 0
        self.form = self._new_form(self._wanted())

    def look(self, candidates: CandidateRows, *, at_posterior: bool) -> None:
        """Bring the means, norms and bounds of candidates up to date; a posterior mean moves with every observation."""
        is_new = candidates.version != self.network.version
        if at_posterior:
            assert not isinstance(self.form, RowPosterior)
            theta = self.form.theta
            self.network.look_along(theta, candidates.xs, candidates.means, candidates.norms)
            # |g'theta| <= |g| |theta| (Cauchy & Schwarz), and rounding is a share of that: bounds are raised by it.
            candidates.errors[:] = MEAN_ERROR * np.sqrt(dot(theta, theta) * candidates.norms)
        elif is_new:
            self.network.look(candidates.xs, candidates.means, candidates.norms)
        if is_new:
            # With nothing seen, lambda g' (lambda I)^-1 g = g'g, and until
            # the network moves A only grows: this is a bound.
            candidates.bounds[:] = candidates.norms
            candidates.version = self.network.version

    @property
    def condition(self) -> float:
        """A bound on the condition number of A: 1 + (sum of weights times squared gradient lengths) / lambda."""
        return 1.0 + self.trace / self.settings.noise

    def knows(self, candidates: CandidateRows) -> bool:
        """Return whether a decision among these candidates would move nothing."""
        numbered = candidates.numbering == self.numbering
        return self.network.length > 0.0 and (numbered or not self.in_rows)

    @property
    def in_rows(self) -> bool:
        """True while the rows form runs, which holds every posterior ready."""
        return isinstance(self.form, RowPosterior)

    def posterior(self, candidates: CandidateRows, which: IntArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean and variance of the candidates `which (m,)`, or of all."""
        if self.in_rows and candidates.numbering != self.numbering:
            self._enter(candidates)
        if isinstance(self.form, RowPosterior):
            return self.form.posterior(candidates.numbers if which is None else candidates.numbers[which])
        xs = candidates.xs if which is None else candidates.xs[which]
        means, variances = np.empty((2, len(xs)))
        for i in range(0, len(xs), CHUNK):
            part = slice(i, i + CHUNK)
            means[part], variances[part] = self.form.posterior(self.network.factors(xs[part]))
        return means, variances

    def learn(self, x: FloatArray, reward: float) -> None:
        """Learn that row `x (d,)` earned `reward`."""
        if self.settings.fresh:
            self._learn_fresh(x, reward)
        else:
            self._learn_published(x, reward)

    def _learned_fields(self) -> dict[str, Any]:
        return {"made_for": self._made_for(), "form": self.form.name, **super()._learned_fields()}

    def _sized_as(self, saved: Mapping[str, Any]) -> Mapping[str, Any]:
        name = saved.get("form")
        if not isinstance(name, str) or name not in possible(self.settings.form, self.settings.fresh):
            raise ValueError(f"form is {shown(name)}, expected {self.settings.form}")
        return {"form": name, "form.": self._new_form(name), "history.": RowHistory(self.network.sizes[0])}

    def _state_flaws(self, values: Mapping[str, Any]) -> Iterator[str]:
        rows = len(values["history."].values["xs"])
        if values["form"] == RowPosterior.name and len(values["form."].values["mean"]) != rows:
            yield f"form.mean is of another number of rows than the {rows:,} of history.xs"

    def _state_loaded(self) -> None:
        self.numbering += 1

    def _made_for(self) -> str:
        """Describe the settings that a saved state must share to be loaded."""
        sizes = "-".join(map(str, self.network.sizes))
        settings = self.settings
        history = "fresh" if settings.fresh else "published"
        scale = "normalised" if settings.normalise else "plain"
        return f"layers {sizes}, history {history}, form {settings.form}, lambda {settings.noise}, {scale} gradients"

    def _learn_fresh(self, x: FloatArray, reward: float) -> None:
        # First, since it may give all rows new numbers.
        self._make_room(x.reshape(1, -1))
        number = self.history.number(x)
        self.history.add(number, reward)
        self.since += 1
        if self.since >= self.settings.train_every:
            self._train()
        elif isinstance(self.form, RowPosterior):
            self._learn_row(number, reward)
        elif self._outgrown():
            self._refit()
        else:
            self._observe(self.form, x, reward)

    def _learn_row(self, number: int, reward: float) -> None:
        assert isinstance(self.form, RowPosterior)
        if number < len(self.form.mean):
            self.trace += self.form.prior[number, number]
            self.form.observe(number, reward, self.history.counts, self.history.sums)
        else:
            self._refit()

    def _observe(self, form: Form, x: FloatArray, reward: float) -> None:
        factors = self.network.factors(x.reshape(1, -1))
        self.trace += trace(factors, np.ones(1), self.network.sizes, self.network.first)
        form.observe(factors[0], reward)

    def _outgrown(self) -> bool:
        """Return whether another form is cheaper now, or the dual one holds most rows twice."""
        # The dual form adds a row to L for each observation; fitted anew, equal rows are merged again.
        repeats = isinstance(self.form, Dual) and self.form.n >= max(64, 2 * len(self.history))
        return repeats or self._wanted() != self.form.name

    def _learn_published(self, x: FloatArray, reward: float) -> None:
        old = self.form
        assert not isinstance(old, RowPosterior)
        # Before the step: A keeps the gradient at the weights that the decision was made with.
        self._observe(old, x, reward)
        self.history.time += 1
        if isinstance(old, Dual) and self._wanted() != old.name:
            self.form = self._new_form(self._wanted())
            self.form.fit(*old.observations())
        self.network.step(x.reshape(1, -1), np.array([reward]), np.ones(1))

    def _train(self) -> None:
        """Fade, take the training steps, and compute the posterior anew at the new weights."""
        # First, so that training and posterior see the same weights of observations.
        self.history.fade(self.settings.discount**self.since, self.settings.memory)
        self.since = 0
        if self.settings.form == "rows" and len(self.history) > MAX_ROWS:
            self._drop_unobserved()
        self.network.train(self.history, self.settings.steps, self.settings.batch_size)
        self._refit()

    def _enter(self, candidates: CandidateRows) -> None:
        """Number the candidates' rows and condition the new ones, or leave the rows form if there are too many."""
        self._make_room(candidates.xs)
        known_rows = len(self.history)
        candidates.numbers = np.array([self.history.number(x) for x in candidates.xs])
        candidates.numbering = self.numbering
        if len(self.history) > known_rows:
            self._refit()

    def _make_room(self, xs: FloatArray) -> None:
        """Make room for the distinct rows `xs (m, d)` in the rows form where it may not be left."""
        weights = [self.history.weight(x) for x in xs] if self.settings.form == "rows" else []
        if len(self.history) + sum(weight < 0 for weight in weights) <= MOST_ROWS or not weights:
            return
        kept = self.history.n_observed + sum(weight <= 0 for weight in weights)
        if kept > MOST_ROWS:
            raise PolicyError(
                f"form: rows would keep {kept:,} distinct rows, candidates included, expected at most {MOST_ROWS:,}; "
                "set form to auto"
            )
        self._drop_unobserved()
        self._refit()

    def _drop_unobserved(self) -> None:
        """Forget the rows that were never observed; all others get new numbers."""
        self.history.keep_observed()
        self.numbering += 1

    def _refit(self) -> None:
        """Compute the posterior anew from the history, in the form that is wanted now."""
        name = self._wanted()
        if name != self.form.name:
            self.form = self._new_form(name)
        if not isinstance(self.form, RowPosterior):
            self.few = False
            self._drop_unobserved()
        factors = self.network.factors(self.history.xs)
        network = self.network
        self.trace = trace(factors, self.history.counts, network.sizes, network.first)
        self.form.fit(factors, self.history.counts, self.history.sums)

    def _wanted(self) -> str:
        observations = self.history.n_observed if self.settings.fresh else self.history.time
        return cheapest(self.settings.form, self.network.slopes, len(self.history), observations, self.few)

    def _new_form(self, name: str) -> Form | RowPosterior:
        return new_form(name, self.network.sizes, self.network.first, self.settings.noise)
