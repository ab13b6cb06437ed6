"""Ground truth of a search shop: what a ranking would earn in expectation. For regret and tests; no policy holds it."""

from typing import NamedTuple

import numpy as np

from zoosim.core.errors import ConfigError
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.search.reward import left_top, worth
from zoosim.worlds.search.shop import SearchShop, Visit
from zoosim.worlds.search.simulate import expect


class Expected(NamedTuple):
    """A mean reward and its standard error."""

    mean: float
    error: float


class SearchTruth:
    """What the visitors of a shop would do in other moods: visitor, query and base scores stay, all else is redrawn."""

    def __init__(self, shop: SearchShop) -> None:
        self._shop = shop

    def expected_reward(self, visit: Visit, shown: IntArray, moods: int = 1_000) -> Expected:
        """Return the expected reward of showing the products `shown (k,)`, in EUR, estimated over `moods` draws.

        Utilities are continuous and carry over from one position to the next, so there is no closed form. The moods of
        a visit are the same for all rankings, so differences between rankings are paired.
        """
        if isinstance(moods, bool) or not isinstance(moods, int) or moods < 2:
            raise ConfigError(f"moods: got {moods!r}, expected a whole number of at least 2")
        rewards = self.rewards(visit, shown, moods)
        return Expected(float(rewards.mean()), float(rewards.std(ddof=1) / np.sqrt(moods)))

    def rewards(self, visit: Visit, shown: IntArray, moods: int) -> FloatArray:
        """Return what the products `shown (k,)` come to in each of `moods`, `(moods,)`; see `expectation`."""
        weights, out, stage = self._shop.world.config.reward, np.empty(moods), self._shop.stage(visit.market)
        expect(stage, visit.step, visit.user, visit.kind, visit.query, shown, worth(weights), 1, out)
        return out - weights.rank_change * left_top(visit.baseline, shown, weights.rank_change_at)
