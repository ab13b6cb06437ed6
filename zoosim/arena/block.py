"""What happened in a run, block by block."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from zoosim.action_spaces import find_action_space
from zoosim.core.feedback import Feedback
from zoosim.core.types import Context, FloatArray, IntArray, PolicySpec
from zoosim.worlds.base import Outcome, Truth, World

BLOCK = 1_000
"""Visits that are reported together, at most."""


class Block(NamedTuple):
    """What happened in visits `start` to `start + n - 1`, each array `(n,)`, boosts `(n, d)`.

    Propensities are NaN unless asked for; `parts` is what rewards are made of, by name; `segments` are the numbers of
    the visitors' segments, where the world tells; `contexts` are there where they were asked for and arrays do not say.
    """

    start: int
    user_ids: IntArray
    actions: Any
    rewards: FloatArray
    propensities: FloatArray
    expected_rewards: FloatArray
    best_rewards: FloatArray
    parts: Mapping[str, FloatArray] = {}
    segments: IntArray | None = None
    contexts: tuple[Context, ...] = ()


RESERVED = {
    *("seed", "step", "policy", "action", "boosts", "reward", "true_probability", "best_probability", "segment"),
    *("decision_id", "time", "user_id", "user", "a_max", "catalogue", "unavailable", "product_id", "position"),
    *("propensity", "policy_version"),
}
"""Columns of rows and of logs, after which no part of a reward may be called."""


class BlockRows:
    """The rows of a block of visits, as they come."""

    def __init__(self, world: World, spec: PolicySpec, start: int, n: int, *, logged: bool, judged: bool) -> None:
        self._space = find_action_space(world.action_space)
        self._reward_range = world.reward_range
        self._logged = logged
        self._judged = judged
        self.start = start
        self.count = 0
        self.contexts: list[Context] = []
        self.actions = self._space.empty(n, spec)
        self.user_ids = np.zeros(n, np.int64)
        self.rewards = np.zeros(n)
        self.propensities = np.full(n, np.nan)
        self.expected = np.zeros(n)
        self.best = np.zeros(n)
        self.parts: dict[str, FloatArray] = {}
        self.segments: IntArray | None = None

    def add(self, context: Context, action: Any, propensity: float, outcome: Outcome, truth: Truth) -> None:
        """Take in what came of a visit."""
        row = self.count
        self._check(outcome)
        if self._judged and not np.isfinite(truth.best_reward):
            raise ValueError(f"best_reward is {truth.best_reward!r}, expected a finite number")
        if self._logged:
            self.contexts.append(self._space.logged(context))
        self.actions[row] = action
        self.user_ids[row] = context["user_id"]
        self.rewards[row] = outcome.reward
        self.propensities[row] = propensity
        self.expected[row] = truth.expected_reward(action)
        self.best[row] = truth.best_reward
        for name, value in outcome.parts.items():
            if name not in self.parts:
                self.parts[name] = np.zeros(len(self.rewards))
            self.parts[name][row] = value
        if outcome.segment is not None:
            if self.segments is None:
                self.segments = np.full(len(self.rewards), -1)
            self.segments[row] = outcome.segment
        self.count += 1

    def _check(self, outcome: Outcome) -> None:
        """Refuse outcomes that break the contract of worlds with `ValueError`."""
        low, high = self._reward_range
        if not low <= outcome.reward <= high:  # NaN lies nowhere
            raise ValueError(f"reward {outcome.reward!r} lies outside reward_range, {low:g} to {high:g}")
        odd = [name for name in outcome.parts if not isinstance(name, str)]
        if odd:
            raise ValueError(f"a part of the reward is called {odd[0]!r}, expected a name")
        taken = RESERVED & outcome.parts.keys()
        if taken:
            raise ValueError(f"a part of the reward is called {min(taken)!r}, which is a column of its own")

    def block(self) -> Block:
        """Return the rows, with their contexts where they are logged."""
        truths = (self.expected, self.best)
        contexts = tuple(self.contexts)
        rows = (self.start, self.user_ids, self.actions, self.rewards, self.propensities, *truths)
        return Block(*rows, self.parts, self.segments, contexts)


def sections(world: World, steps: int, feedback: Feedback) -> Iterator[tuple[int, int]]:
    """Cut a run into sections (start, stop) of at most `BLOCK` visits.

    In each of them what a table says stays the same, and so it did when the visits came that are learned from.
    """
    table = world.as_table()
    changes = [] if table is None else [period.start for period in table.periods]
    marks = {0, steps, *changes, *(change + feedback.delay for change in changes)}
    if feedback.batch > 1:
        marks |= set(range(0, steps, feedback.batch))
    marks |= set(range(0, steps, BLOCK))
    ordered = sorted(mark for mark in marks if mark <= steps)
    yield from pairwise(ordered)
