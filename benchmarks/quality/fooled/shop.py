"""A small shop whose truth is known, and logs of it in the making."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.action_space import PRODUCTS, RANKINGS
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.log import Log

ROWS = 4_000
VISITORS = 20_000
"""Fresh visitors by whom a policy's true value is computed."""

DAY = 86_400_000_000
"""Microseconds."""

DAYS = 28
LENGTH = 3
"""Products of a ranking."""

FADING = 0.7
"""By what a position's clicks are rarer than those of the position above."""

START = 1_700_000_000_000_000


class Case(NamedTuple):
    """A log, what a policy would do on its rows, and what that policy truly earns per visit.

    `policy` gives all probabilities `(n, K)`, or is None where only those of the logged actions are known. The latter
    are the log's column `p_new`.
    """

    log: Log
    policy: FloatArray | None
    value: float

    @property
    def policies(self) -> dict[str, Any]:
        """The policy as `evaluate` takes it: by the column and, where they are known, by all probabilities."""
        by_column: dict[str, Any] = {"column": "column:p_new"}
        return by_column if self.policy is None else by_column | {"policy": self.policy}


Way = Callable[[np.random.Generator], Case]
"""A way to make a log that may fool the verdict."""


class Shop:
    """Visitors of 3 segments with 2 numbers each; a logging policy, a better one to judge, and click rates.

    Args:
        rng: Draws the shop.
        n_actions: How many products it shows, `K`.
        base: The logit of a click rate in the middle.
        lean: How far the logging policy leans to some products.
    """

    def __init__(self, rng: np.random.Generator, n_actions: int = 8, base: float = -1.5, lean: float = 0.5) -> None:
        self.rng = rng
        self.n_actions = n_actions
        self.base = base
        self.taste = 0.5 * rng.normal(size=(6, n_actions))
        self.habit = lean * rng.normal(size=(6, n_actions))

    def visitors(self, n: int) -> FloatArray:
        """Draw features `(n, 5)`."""
        segment = np.eye(3)[self.rng.integers(3, size=n)]
        return np.hstack([segment, self.rng.normal(size=(n, 2))])

    def click_rates(self, features: FloatArray, shift: Any = 0.0) -> FloatArray:
        """Return how likely each visitor clicks each product `(n, K)`; `shift` is added to logits."""
        return logistic(self.base + _with_ones(features) @ self.taste + shift)

    def logging(self, features: FloatArray) -> FloatArray:
        """Return the probabilities of the policy that writes the log `(n, K)`."""
        return 0.8 * softmax(_with_ones(features) @ self.habit) + 0.2 / self.n_actions

    def target(self, features: FloatArray) -> FloatArray:
        """Return the probabilities of the policy to judge `(n, K)`, which knows something of tastes."""
        return 0.7 * softmax(_with_ones(features) @ (1.2 * self.taste)) + 0.3 / self.n_actions

    def value(self, shift: Any = 0.0) -> float:
        """Return what the policy to judge truly earns per visit."""
        features = self.visitors(VISITORS)
        return float((self.target(features) * self.click_rates(features, shift)).sum(axis=1).mean())

    def ranked_value(self, shift: Any = 0.0, length: int = LENGTH) -> float:
        """Return what the policy to judge truly earns per visit that shows a ranking, of all its positions."""
        features = self.visitors(VISITORS)
        return ranked_clicks(self.rng, self.target(features), self.click_rates(features, shift), length)


@dataclass
class Rows:
    """A log in the making: what its rows will hold, of `n` visits.

    `actions`, `propensities` and `rewards` are `(n,)`, or `(n, L)` where visits show rankings.
    """

    shop: Shop
    features: FloatArray
    logging: FloatArray
    target: FloatArray
    click_rates: FloatArray
    actions: IntArray
    propensities: FloatArray
    rewards: FloatArray
    times: IntArray
    users: IntArray | None = None
    has_times: bool = True
    available: BoolArray | None = None

    def __len__(self) -> int:
        return len(self.actions)

    def take(self, chosen: IntArray | BoolArray) -> "Rows":
        """Return some of the rows."""
        names = ("features", "logging", "target", "click_rates", "actions", "propensities", "rewards", "times")
        taken = {name: getattr(self, name)[chosen] for name in names}
        users = None if self.users is None else self.users[chosen]
        available = None if self.available is None else self.available[chosen]
        return replace(self, **taken, users=users, available=available)

    def case(self, value: float, *, policy: bool = True, column: FloatArray | None = None) -> Case:
        """Return the log with what is to be judged by it."""
        chances = chances_of(self.target, self.actions) if column is None else column
        return Case(self._log(chances), self.target if policy else None, value)

    def _log(self, chances: FloatArray) -> Log:
        """Return the log, with the policy's `chances (n,)` of the logged actions."""
        n, k = self.target.shape
        candidates, candidate_set = CandidateSets.everything(k), np.zeros(n, np.int64)
        if self.available is not None:
            masks, candidate_set = np.unique(self.available, axis=0, return_inverse=True)
            candidates, candidate_set = CandidateSets.from_masks(masks), candidate_set.reshape(-1)
        zeros = np.zeros(n, np.int64)
        known = (candidates, candidate_set, self.features, zeros, np.zeros((k, 0)))
        times = self.times if self.has_times else None
        return Log(
            self.actions,
            self.propensities,
            self.rewards,
            *known,
            user_ids=self.users,
            times=times,
            columns={"p_new": chances},
            action_space=RANKINGS if self.actions.ndim > 1 else PRODUCTS,
        )


def draw_rows(
    shop: Shop,
    n: int = ROWS,
    features: FloatArray | None = None,
    shift: Any = 0.0,
    times: IntArray | None = None,
    logging: FloatArray | None = None,
) -> Rows:
    """Draw visits of a shop, in order of time; `shift`, as `(n, 1)` or `(n, K)`, is added to the logits of clicks."""
    rng = shop.rng
    features = shop.visitors(n) if features is None else features
    n = len(features)
    times = START + np.sort(rng.integers(DAYS * DAY, size=n)) if times is None else times
    logging = shop.logging(features) if logging is None else logging
    click_rates = shop.click_rates(features, shift)
    actions = draw(rng, logging)
    clicks = (rng.random(n) < at(click_rates, actions)).astype(float)
    target = shop.target(features)
    return Rows(shop, features, logging, target, click_rates, actions, at(logging, actions), clicks, times)


def draw_rankings(
    shop: Shop,
    n: int = ROWS,
    features: FloatArray | None = None,
    shift: Any = 0.0,
    times: IntArray | None = None,
    logging: FloatArray | None = None,
    length: int = LENGTH,
) -> Rows:
    """Draw visits of a shop that shows rankings: draws without replacement by the probabilities of `draw_rows`.

    A product is clicked whatever else the visit shows, rarer by `FADING` with each position.
    """
    rng = shop.rng
    rows = draw_rows(shop, n, features, shift, times, logging)
    actions = ranked(rng, rows.logging, length)
    rates = np.take_along_axis(rows.click_rates, actions, axis=1) * FADING ** np.arange(length)
    clicks = (rng.random(actions.shape) < rates).astype(float)
    return replace(rows, actions=actions, propensities=chances_of(rows.logging, actions), rewards=clicks)


def ranked(rng: np.random.Generator, chances: FloatArray, length: int = LENGTH) -> IntArray:
    """Draw a ranking `(n, L)` per row of `chances (n, K)`, without replacement (Plackett 1975)."""
    keys = np.log(np.maximum(chances, 1e-300)) + rng.gumbel(size=chances.shape)
    return np.asarray(np.argsort(-keys, axis=1)[:, :length])


def ranked_clicks(
    rng: np.random.Generator, chances: FloatArray, click_rates: FloatArray, length: int = LENGTH
) -> float:
    """Return the mean clicks of visits whose rankings are drawn by `chances (n, K)`, by five draws of each."""
    fading = FADING ** np.arange(length)
    draws = [np.take_along_axis(click_rates, ranked(rng, chances, length), axis=1) @ fading for _ in range(5)]
    return float(np.mean(draws))


def chances_of(table: FloatArray, actions: IntArray) -> FloatArray:
    """Return how likely `table (n, K)` makes each action: of rankings `(n, L)` each product given those above it."""
    if actions.ndim == 1:
        return at(table, actions)
    shares = np.take_along_axis(table, actions, axis=1)
    above = np.cumsum(shares, axis=1) - shares
    return np.asarray(shares / np.maximum(table.sum(axis=1, keepdims=True) - above, 1e-12))


def draw(rng: np.random.Generator, chances: FloatArray) -> IntArray:
    """Draw an action per row of `chances (n, K)`."""
    thresholds = rng.random(len(chances))[:, None] * chances.sum(axis=1, keepdims=True)
    drawn: IntArray = (thresholds > chances.cumsum(axis=1)).sum(axis=1)
    last = chances.shape[1] - 1
    return np.asarray(np.minimum(drawn, last))


def at(table: FloatArray, actions: IntArray) -> FloatArray:
    """Return the entry of each row of `table (n, K)` for its action."""
    return np.asarray(table[np.arange(len(actions)), actions])


def softmax(scores: FloatArray) -> FloatArray:
    """Return probabilities `(n, K)` of scores."""
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def logistic(logits: FloatArray) -> FloatArray:
    """Return probabilities of logits."""
    return np.asarray(1.0 / (1.0 + np.exp(-logits)))


def age(rows: Rows) -> FloatArray:
    """Return when in the log each row came, from 0 to 1 `(n,)`."""
    return np.asarray((rows.times - START) / (DAYS * DAY))


def _with_ones(features: FloatArray) -> FloatArray:
    return np.hstack([np.ones((len(features), 1)), features])
