"""What happened in a run, block by block."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from zoosim.arena.actions import ActionRules
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


class BlockRows:
    """The rows of a block of visits, as they come."""

    def __init__(self, space: ActionRules, spec: PolicySpec, start: int, n: int) -> None:
        self.start = start
        self.count = 0
        self.contexts: list[Context] = []
        self.actions = space.empty(n, spec)
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
        self.contexts.append(context)
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
                self.segments = np.zeros(len(self.rewards), np.int64)
            self.segments[row] = outcome.segment
        self.count += 1

    def block(self, logged: bool) -> Block:
        """Return the rows; with their contexts, if they are `logged`."""
        truths = (self.expected, self.best)
        contexts = tuple(self.contexts) if logged else ()
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
