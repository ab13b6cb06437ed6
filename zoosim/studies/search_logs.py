"""Simulated logs of the search shop of known truth: actions are its eight templates, rewards what a visit earned."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray
from zoosim.envs.template_world import template_world
from zoosim.evaluation.off_policy.log import Log
from zoosim.studies.known_logs import chosen, direction, effective_rows, log_of, softmax, weights_of
from zoosim.world.shifts import SAVING
from zoosim.world.world import World

CONFIG = SearchConfig(n_products=1_000, context="simple", shifts=[SAVING])
POOL = SAVING.step
"""Visits before the market shifts, and as many after it, that logs are drawn from."""


class SearchSettings(NamedTuple):
    """What a log is made of: `n` visits, `distance` of the target from a logging policy with `floor` at random.

    At moment t of the log, 0 to 1, a visit is one after the market's shift with probability `drift` x t. `skill` is how
    much the target's choices, where they differ, go by what templates earn, 0 to 1.
    """

    distance: float
    floor: float
    n: int
    drift: float = 0.0
    skill: float = 0.0


class SearchLogs:
    """Logs of visits drawn, with replacement, from a pool where each template's reward at each visit is known.

    So the truth is a mean over the pool, and exact. Policies go by the visit's segment and query type; `logging` and
    `target` are `(cells, 8)`, drawn from `rng`.
    """

    family = ""
    misrecorded = faulty = False
    """Propensities are right, and every template is shown."""

    def __init__(self, settings: SearchSettings, rng: np.random.Generator) -> None:
        self.settings = s = settings
        world = pool()
        shape = (int(world.segments.max()) + 1, world.products.shape[0])
        scores = rng.normal(size=shape)
        self.logging = (1.0 - s.floor) * softmax(scores) + s.floor / shape[1]
        cells, rewards = world.segments[:POOL], world.rewards[:POOL]
        visits = np.maximum(np.bincount(cells, minlength=shape[0]), 1)
        worth = np.array([np.bincount(cells, earned, shape[0]) / visits for earned in rewards.T]).T
        self.target = softmax(scores + s.distance * direction(worth, s.skill, rng))

    @cached_property
    def reward_range(self) -> tuple[float, float]:
        """The least and the most that any template earns at any visit of the pool."""
        rewards = pool().rewards
        return float(rewards.min()), float(rewards.max())

    @cached_property
    def effective(self) -> float:
        """How many rows of the target's own a log counts for in expectation, before the market shifts."""
        shares = np.bincount(pool().segments[:POOL], minlength=len(self.logging)) / POOL
        return effective_rows(self.settings.n, shares[:, None] * self.logging, self.target, self.logging)

    @property
    def largest(self) -> float:
        """The largest weight that a row can have."""
        return float((self.target / self.logging).max())

    @property
    def alike(self) -> bool:
        """Tell whether each row is a fresh draw of the same visitors."""
        return self.settings.drift == 0.0

    @property
    def truth(self) -> float:
        """What the target earns a visit, in EUR, on average over the log's time."""
        return self._at(0.5)

    @property
    def ending(self) -> float:
        """What it earns a visit at the log's end."""
        return self._at(1.0)

    def _at(self, moment: float) -> float:
        earned = (self.target[pool().segments] * pool().rewards).sum(axis=1)
        late = self.settings.drift * moment
        return float((1.0 - late) * earned[:POOL].mean() + late * earned[POOL:].mean())

    def draw(self, rng: np.random.Generator) -> tuple[Log, FloatArray]:
        """Draw a log, and the target's probabilities for its rows `(n, 8)`."""
        s, world = self.settings, pool()
        late = rng.random(s.n) < s.drift * np.arange(s.n) / s.n
        visits = rng.integers(POOL, size=s.n) + POOL * late
        cells = world.segments[visits]
        actions = chosen(rng, self.logging, cells)
        rewards = pool().rewards[visits, actions]
        log = log_of(actions, self.logging[cells, actions], rewards, world.users[visits], world.products.shape[0])
        return log, self.target[cells]

    @staticmethod
    def bounded(log: Log, target: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return weights and rewards, each `(n,)`."""
        return weights_of(log, target), log.rewards


def pool() -> World:
    """Return the visits that logs are drawn from, with what each template earns; a minute, then from disk."""
    return template_world(CONFIG, seed=0, steps=2 * POOL)
