"""The expected reward of a ranking at a visit, which only the simulator knows: for regret and tests, never a policy."""

from typing import NamedTuple

import numpy as np

from zoosim.core.errors import ConfigError
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.search.reward import left_top, weight_array
from zoosim.worlds.search.shop import SearchShop, SearchVisit
from zoosim.worlds.search.shop_arrays import value_replicates


class Expected(NamedTuple):
    """A mean reward and its standard error."""

    mean: float
    error: float


class SearchTruth:
    """Expected rewards in a shop, from replicates of a visit: visitor, query and base scores stay, all else is redrawn.

    Utilities are continuous and carry over from one position to the next, so there is no closed form. The replicates of
    a visit are the same for all rankings, so differences between rankings are paired.
    """

    def __init__(self, shop: SearchShop) -> None:
        self._shop = shop

    def expected_reward(self, visit: SearchVisit, shown: IntArray, replicates: int = 1_000) -> Expected:
        """Estimate the expected reward of showing some products.

        Args:
            visit: The visit.
            shown: The ranking, indices of products from the top, `(k,)`.
            replicates: How often the visit is drawn again, at least 2.

        Returns:
            The mean in EUR and its standard error.

        Raises:
            ConfigError: `replicates` is no whole number of at least 2.
        """
        if isinstance(replicates, bool) or not isinstance(replicates, int) or replicates < 2:
            raise ConfigError(f"replicates: got {replicates!r}, expected a whole number of at least 2")
        rewards = self.rewards(visit, shown, replicates)
        return Expected(float(rewards.mean()), float(rewards.std(ddof=1) / np.sqrt(replicates)))

    def rewards(
        self, visit: SearchVisit, shown: IntArray, replicates: int, counted: FloatArray | None = None
    ) -> FloatArray:
        """Return what the products `shown (k,)` earn in each replicate, `(replicates,)`; see `replicate_value`.

        Args:
            visit: The visit.
            shown: The ranking, indices of products from the top, `(k,)`.
            replicates: How often the visit is drawn again.
            counted: What a EUR of GMV, a EUR of CM2, a strategic purchase and a click count, `(4,)`; None for the
                shop's weights.
        """
        weights = self._shop.world.config.reward
        arrays = self._shop.arrays(visit.market)
        rewards = np.empty(replicates)
        value_replicates(
            arrays,
            visit.step,
            visit.user,
            visit.query_type,
            visit.query,
            visit.base,
            shown,
            weight_array(weights) if counted is None else np.array(counted, float),
            rewards,
        )
        return rewards - weights.rank_change * left_top(visit.baseline, shown, weights.rank_change_at)
