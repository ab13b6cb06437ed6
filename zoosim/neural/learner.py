"""A network that learns online, and the posterior over all its parameters: what NeuralUCB and Neural-Thompson share.

With g the gradient of the output at the current weights and A = lambda I + sum g g', the variance of a candidate is
lambda g' A^-1 g (Zhang, Zhou, Li & Gu 2021, algorithm 1; NeuralUCB, Zhou, Li & Gu 2020, has it without lambda), and
the linearised posterior mean g' A^-1 sum r g. Gradients are divided by `scale`, where the papers divide by the root of
the width.

*Fresh*: the weights hold between trainings, and each training computes the gradients of the whole history anew.
*Published*: a step after every decision, and A keeps each gradient as it was at its time.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from zoosim.core.errors import ConfigError
from zoosim.core.types import FloatArray, IntArray
from zoosim.neural.dual import Dual
from zoosim.neural.forms import Form, cheapest, new_form
from zoosim.neural.history import History
from zoosim.neural.network import Network
from zoosim.neural.rows import Rows

MAX_CACHED = 200_000
"""Candidate rows kept between decisions, over all remembered users; those of one user always fit."""

CHUNK = 64
"""Candidates whose gradients are held at once."""


@dataclass(frozen=True)
class Settings:
    """How a `Learner` learns.

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


class Candidates:
    """One user with every distinct product: rows `xs (R, d)`, and what holds until the network moves.

    `outputs (R,)` of the network; `bounds (R,)`, no variance is above them; `numbers (R,)` in the rows form.
    """

    def __init__(self, user: FloatArray, products: FloatArray) -> None:
        self.xs = np.hstack([np.broadcast_to(user, (len(products), len(user))), products])
        self.outputs, self.bounds = np.zeros((2, len(products)))
        self.numbers: IntArray | None = None
        self.version = -1


class Learner:
    """The network, what was observed, and the posterior in whichever form is cheapest."""

    def __init__(self, settings: Settings, dim: int, rng: np.random.Generator) -> None:
        """`dim` is the length of a row [user, product]."""
        self.settings = settings
        first = len(settings.hidden) if settings.form == "last-layer" else 0
        self.network = Network((dim, *settings.hidden, 1), first, settings.learning_rate, settings.normalise, rng)
        self.history = History(dim)
        self.since = 0
        self.few = settings.fresh
        self._cache = dict[bytes, Candidates]()
        self.form = self._new_form(self._wanted())

    def candidates(self, user: FloatArray, products: FloatArray) -> Candidates:
        """Return `user (d_u,)` with the distinct `products (R, d_p)`, as the network now sees them."""
        found = self._cache.get(user.tobytes())
        if found is None:
            found = Candidates(user, products)
            if (len(self._cache) + 1) * len(products) > MAX_CACHED:
                self._cache.clear()
            self._cache[user.tobytes()] = found
        if found.version != self.network.version:
            self.network.look(found.xs, found.outputs, found.bounds)
            found.version = self.network.version
        return found

    def without_trace(self, user: FloatArray) -> "Learner":
        """Return whom to ask about `user` so that nothing learned moves: itself, or a copy where it has to look."""
        found = self._cache.get(user.tobytes())
        settled = found is not None and (found.numbers is not None or not self.in_rows)
        return self if settled or (self.network.length > 0.0 and not self.in_rows) else copy.deepcopy(self)

    def clear_candidates(self) -> None:
        """Forget all candidates: the products are others."""
        self._cache.clear()

    @property
    def in_rows(self) -> bool:
        """Tell whether the rows form runs, where every posterior is at hand."""
        return isinstance(self.form, Rows)

    def posterior(self, candidates: Candidates, which: IntArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean and variance of the candidates `which (m,)`, or of all."""
        if isinstance(self.form, Rows) and candidates.numbers is None:
            self._enter(candidates)
        if isinstance(self.form, Rows):
            assert candidates.numbers is not None
            return self.form.posterior(candidates.numbers if which is None else candidates.numbers[which])
        means, variances = np.empty((2, len(candidates.xs) if which is None else len(which)))
        for i in range(0, len(means), CHUNK):
            part = slice(i, i + CHUNK)
            xs = candidates.xs[part] if which is None else candidates.xs[which[part]]
            means[part], variances[part] = self.form.posterior(self.network.factors(xs))
        return means, variances

    def learn(self, candidates: Candidates, row: int, reward: float) -> None:
        """Learn that candidate `row` earned `reward`."""
        if self.settings.fresh:
            self._learn_fresh(candidates.xs[row], reward)
        else:
            self._learn_published(candidates.xs[row], reward)

    def state(self) -> dict[str, Any]:
        """Return copies of all that was learned."""
        parts = {"network": self.network.state(), "history": self.history.state(), "form": _saved(self.form)}
        flat = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
        return {"since": self.since, "few": self.few, "form": self.form.name, **flat}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned; raises `ConfigError` when it is another network's, and changes nothing."""
        parts = {part: _part(state, part) for part in ("network", "history", "form")}
        needed = {name for name in self.state() if not name.startswith("form.")}
        if needed - set(state) or np.shape(parts["network"]["trained"]) != self.network.trained.shape:
            raise ConfigError("neural policy: the saved state is of another policy, task or parameters")
        self.network.load(parts["network"])
        self.history.load(parts["history"])
        self.since, self.few = int(state["since"]), bool(state["few"])
        self.form = self._new_form(str(state["form"]))
        for name, value in parts["form"].items():
            setattr(self.form, name, value.copy() if isinstance(value, np.ndarray) else value)
        self._cache.clear()

    def _learn_fresh(self, x: FloatArray, reward: float) -> None:
        number = self.history.number(x)
        self.history.add(number, reward)
        self.since += 1
        if self.since >= self.settings.train_every:
            self._train()
        elif isinstance(self.form, Rows):
            self._learn_row(number, reward)
        elif self._outgrown():
            self._refit()
        else:
            self.form.observe(self.network.factors(x.reshape(1, -1))[0], reward)

    def _learn_row(self, number: int, reward: float) -> None:
        assert isinstance(self.form, Rows)
        if number < len(self.form.mean):
            self.form.observe(number, reward, self.history.counts, self.history.sums)
        else:
            self._refit()

    def _outgrown(self) -> bool:
        """Tell whether another form is cheaper now, or the dual one holds most rows twice."""
        repeats = isinstance(self.form, Dual) and self.form.n >= max(64, 2 * len(self.history))
        return repeats or self._wanted() != self.form.name

    def _learn_published(self, x: FloatArray, reward: float) -> None:
        rows, old = x.reshape(1, -1), self.form
        assert not isinstance(old, Rows)
        old.observe(self.network.factors(rows)[0], reward)
        self.history.time += 1
        if isinstance(old, Dual) and self._wanted() != old.name:
            self.form = self._new_form(self._wanted())
            self.form.fit(*old.observations())
        self.network.step(rows, np.array([reward]), np.ones(1))

    def _train(self) -> None:
        """Fade, take the training steps, and compute the posterior anew at the new weights."""
        self.history.fade(self.settings.discount**self.since, self.settings.memory)
        self.since = 0
        self.network.train(self.history, self.settings.steps, self.settings.batch_size)
        self._refit()

    def _enter(self, candidates: Candidates) -> None:
        """Number the candidates' rows, and see what is known of the new ones; or leave the rows form: too many."""
        known = len(self.history)
        candidates.numbers = np.array([self.history.number(x) for x in candidates.xs])
        if len(self.history) > known:
            self._refit()

    def _refit(self) -> None:
        """Compute the posterior anew from the history, in the form that is wanted now."""
        name = self._wanted()
        if name != self.form.name:
            self.form = self._new_form(name)
        if not isinstance(self.form, Rows):
            self.few = False
            self.history.keep_observed()
        self.form.fit(self.network.factors(self.history.xs), self.history.counts, self.history.sums)

    def _wanted(self) -> str:
        observations = len(self.history.observed()) if self.settings.fresh else self.history.time
        return cheapest(self.settings.form, self.network.slopes, len(self.history), observations, self.few)

    def _new_form(self, name: str) -> Form | Rows:
        return new_form(name, self.network.sizes, self.network.first, self.settings.noise)


def _saved(form: Form | Rows) -> dict[str, Any]:
    values = {name: getattr(form, name) for name in form.saved}
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in values.items()}


def _part(state: Mapping[str, Any], part: str) -> dict[str, Any]:
    """Return the entries of `state` called `part.NAME`, by NAME."""
    return {name[len(part) + 1 :]: value for name, value in state.items() if name.startswith(f"{part}.")}
