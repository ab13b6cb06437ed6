"""The expected reward of a ranking at a visit, which only the simulator knows: for regret and tests, never a policy."""

import numpy as np

from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.search.reward import left_top, weight_array
from zoosim.worlds.search.shop import SearchShop, Visit
from zoosim.worlds.search.shop_arrays import value_replicates


def replicate_rewards(shop: SearchShop, visit: Visit, shown: IntArray, replicates: int) -> FloatArray:
    """Return what the products `shown (k,)` earn in each replicate of a visit, `(replicates,)`; see `replicate_value`.

    Visitor, query and base scores stay, all else is redrawn. Utilities are continuous and carry over from one position
    to the next, so there is no closed form of the expected reward; the mean estimates it. The replicates of a visit are
    the same for all rankings, so differences between rankings are paired.
    """
    weights = shop.world.config.reward
    arrays = shop.arrays(visit.market)
    rewards = np.empty(replicates)
    value_replicates(
        arrays, visit.step, visit.user, visit.query_type, visit.query, shown, weight_array(weights), rewards
    )
    return rewards - weights.rank_change * left_top(visit.baseline, shown, weights.rank_change_at)
