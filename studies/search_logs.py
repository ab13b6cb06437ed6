"""Simulated logs of the search shop of known truth: actions are its eight templates, rewards what a visit earned."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from studies.known_logs import ChoiceLogs, chosen, direction, log_of, softmax
from studies.shops import ShopChanges, read_shop
from zoosim.core.errors import ConfigError
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray
from zoosim.logs.log import Log
from zoosim.worlds.search.shifts import SAVING
from zoosim.worlds.search.tables import digest
from zoosim.worlds.search.template_arms import template_world
from zoosim.worlds.table import TableWorld

CONFIG = SearchConfig(n_products=1_000, context="simple", shifts=[SAVING])
"""The shop, whose market shifts once: logs are drawn from the visits before that, and from as many after it."""


def read_shifting_shop(changes: ShopChanges) -> SearchConfig:
    """Return the shop of search logs, changed by a file; raises `ConfigError` unless its market shifts just once."""
    shop = read_shop(changes, CONFIG.model_dump(exclude_defaults=True))
    if len(shop.shifts) != 1:
        raise ConfigError(f"config: env.shifts: got {len(shop.shifts)}, expected one: logs are of before and after it")
    return shop


def shop_key(shop: SearchConfig) -> tuple[str, str]:
    """Return what tells logs of a shop from those of another."""
    return shop.model_dump_json(), digest(shop)


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


class SearchLogs(ChoiceLogs):
    """Logs of visits drawn, with replacement, from a pool where each template's reward at each visit is known.

    So the truth is a mean over the pool, and exact. Policies go by the visit's segment and query type; `logging` and
    `target` are `(cells, 8)`, drawn from `rng`. `shop` is that of `read_shifting_shop`, `CONFIG` if None.
    """

    settings: SearchSettings
    misrecorded = faulty = False
    """Propensities are right, and every template is shown."""

    def __init__(self, settings: SearchSettings, rng: np.random.Generator, shop: SearchConfig | None = None) -> None:
        self.settings = s = settings
        self.world = world = pool(shop)
        self.rewards = world.rewards  # of each template at each visit of the pool (visits, 8)
        self.before = len(world.segments) // 2  # visits of the pool before the market shifts
        shape = (int(world.segments.max()) + 1, world.products.shape[0])
        scores = rng.normal(size=shape)
        self.logging = self.recorded = (1.0 - s.floor) * softmax(scores) + s.floor / shape[1]
        cells, rewards = world.segments[: self.before], self.rewards[: self.before]
        visits = np.bincount(cells, minlength=shape[0])
        self.shares = visits / self.before
        worth = np.array([np.bincount(cells, earned, shape[0]) / np.maximum(visits, 1) for earned in rewards.T]).T
        self.target = softmax(scores + s.distance * direction(worth, s.skill, rng))

    @cached_property
    def reward_range(self) -> tuple[float, float]:
        """The least and the most that any template earns at any visit of the pool."""
        return float(self.rewards.min()), float(self.rewards.max())

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
        earned = (self.target[self.world.segments] * self.rewards).sum(axis=1)
        late = self.settings.drift * moment
        return float((1.0 - late) * earned[: self.before].mean() + late * earned[self.before :].mean())

    def draw(self, rng: np.random.Generator) -> tuple[Log, FloatArray]:
        """Draw a log, and the target's probabilities for its rows `(n, 8)`."""
        s, world = self.settings, self.world
        late = rng.random(s.n) < s.drift * np.arange(s.n) / s.n
        visits = rng.integers(self.before, size=s.n) + self.before * late
        cells = world.segments[visits]
        actions = chosen(rng, self.logging, cells)
        rewards = self.rewards[visits, actions]
        log = log_of(actions, self.logging[cells, actions], rewards, world.users[visits], world.products.shape[0])
        return log, self.target[cells]


def pool(shop: SearchConfig | None = None) -> TableWorld:
    """Return the visits that logs are drawn from, with what each template earns; a minute, then from disk."""
    chosen = CONFIG if shop is None else shop
    return template_world(chosen, seed=0, steps=2 * chosen.shifts[0].step)
