"""The visits of a run, block by block."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from zoosim.action_spaces import find_action_space
from zoosim.core.feedback import FeedbackTiming
from zoosim.core.parameters import shown
from zoosim.core.types import Context, FloatArray, IntArray, PolicySpec
from zoosim.logs.lives import Lives
from zoosim.logs.schema import LIFE, OWN_MARGINAL, SOURCE, SOURCE_PRODUCTS
from zoosim.worlds.base import Outcome, Truth, World

BLOCK = 1_000
"""Visits that are reported together, at most."""

MOST_SEGMENTS = 2**31


class Block(NamedTuple):
    """Visitors `start` and those after, in n decisions: each array `(n,)`, boosts `(n, d)`.

    Propensities are NaN unless asked for; `parts` is what rewards are made of, by name; `segments` are the numbers of
    the visitors' segments, where the world tells; `contexts` are there where they were asked for and arrays do not say.
    Without `lives` each visitor came for one decision.
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
    lives: Lives | None = None

    @property
    def n_visitors(self) -> int:
        """Number of visitors."""
        return len(self.rewards) if self.lives is None else int(self.lives.visitor[-1]) + 1 - self.start


RESERVED = {
    *("seed", "step", "policy", "action", "boosts", "reward", "true_probability", "best_probability", "segment"),
    *("decision_id", "time", "user_id", "user", "a_max", "catalogue", "candidates", "unavailable", "product_id"),
    *("position", "propensity", "policy_version", *SOURCE, SOURCE_PRODUCTS, OWN_MARGINAL, *LIFE),
}
"""Columns of rows and of logs, after which no part of a reward may be called."""


class BlockRows:
    """The rows of a block of visitors, as they come."""

    def __init__(self, world: World, spec: PolicySpec, start: int, *, judged: bool) -> None:
        self._world = world
        self._spec = spec
        self._space = find_action_space(world.action_space)
        self._judged = judged
        self.start = start
        self._rows: list[tuple[Any, ...]] = []
        self._parts: list[Mapping[str, float]] = []
        self._contexts: list[Context] = []
        self._lives: list[tuple[Any, ...]] = []

    def add(
        self,
        context: Context,
        action: Any,
        propensity: float,
        outcome: Outcome,
        truth: Truth,
        place: tuple[int, ...],
        kept: Context | None,
    ) -> None:
        """Take in what came of a decision; its `place` is visitor, visit and step, `kept` what a log is to keep."""
        self._check(outcome)
        if self._judged and not np.isfinite(truth.best_reward):
            raise ValueError(f"best_reward is {truth.best_reward!r}, expected a finite number")
        if kept is not None:
            self._contexts.append(kept)
        if self._world.episodic:
            self._lives.append((*place, outcome.ended, outcome.censored))
        segment = -1 if outcome.segment is None else outcome.segment
        worth = (truth.expected_reward(action), truth.best_reward)
        self._rows.append((context["user_id"], action, outcome.reward, propensity, *worth, segment))
        self._parts.append(outcome.parts)

    def _check(self, outcome: Outcome) -> None:
        """Refuse outcomes that break the contract of worlds with `ValueError`."""
        if outcome.segment is not None and not _is_between(0, outcome.segment, MOST_SEGMENTS):
            raise ValueError(f"the segment is {shown(outcome.segment)}, expected the number of one, from 0")
        low, high = self._world.reward_range
        if not _is_between(low, outcome.reward, high):  # NaN lies nowhere
            if not isinstance(outcome.reward, Real):
                raise ValueError(f"the reward is {shown(outcome.reward)}, expected a number")
            raise ValueError(f"reward {outcome.reward!r} lies outside reward_range, {low:g} to {high:g}")
        odd = [name for name in outcome.parts if not isinstance(name, str)]
        if odd:
            raise ValueError(f"a part of the reward is called {odd[0]!r}, expected a name")
        taken = RESERVED & outcome.parts.keys()
        if taken:
            raise ValueError(f"a part of the reward is called {min(taken)!r}, which is a column of its own")

    def block(self) -> Block:
        """Return the rows, with their contexts where they are logged."""
        user_ids, actions, rewards, propensities, expected, best, segments = zip(*self._rows, strict=True)
        # An array of the action space, so that its type and width are the same in all blocks, whatever was chosen.
        chosen = self._space.empty(len(actions), self._spec)
        chosen[:] = actions
        names = dict.fromkeys(name for parts in self._parts for name in parts)
        return Block(
            self.start,
            np.array(user_ids, np.int64),
            chosen,
            np.array(rewards, np.float64),
            np.array(propensities, np.float64),
            np.array(expected, np.float64),
            np.array(best, np.float64),
            {name: np.array([parts.get(name, 0.0) for parts in self._parts], np.float64) for name in names},
            None if max(segments) < 0 else np.array(segments, np.int64),
            tuple(self._contexts),
            Lives(*map(np.array, zip(*self._lives, strict=True))) if self._lives else None,
        )


def _is_between(low: float, value: Any, high: float) -> bool:
    """Return whether a value, a number or a truth value of whatever type, lies in a range."""
    try:
        return bool(low <= value <= high)
    except (TypeError, ValueError):  # a text, say, or an array
        return False


def sections(world: World, steps: int, feedback: FeedbackTiming) -> Iterator[tuple[int, int]]:
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
