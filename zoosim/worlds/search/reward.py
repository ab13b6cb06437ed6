"""The reward of a visit to a search shop: GMV, margin, strategic purchases and clicks, weighed, less rank changes."""

from typing import Any, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.search_config import RewardWeights
from zoosim.core.types import FloatArray, IntArray


class RewardParts(NamedTuple):
    """GMV and CM2 of what was bought in EUR, strategic purchases, clicks, products that left the top."""

    gmv: float
    cm2: float
    strategic: int
    clicks: int
    rank_change: int


def reward(weights: RewardWeights, parts: Any) -> Any:
    """Return the weighed sum of the parts of rewards.

    Args:
        weights: The weights; `rank_change` is a price.
        parts: `RewardParts` of a visit, or of many visits, in arrays.
    """
    gmv, cm2, strategic, clicks, rank_change = parts
    earned = weights.gmv * gmv + weights.cm2 * cm2 + weights.strategic * strategic
    return earned + weights.clicks * clicks - weights.rank_change * rank_change


def weight_array(weights: RewardWeights) -> FloatArray:
    """Return the weights of GMV, CM2, a strategic purchase and a click as an array, `(4,)`."""
    return np.array([weights.gmv, weights.cm2, weights.strategic, weights.clicks])


@jit
def left_top(baseline: IntArray, shown: IntArray, k: int) -> int:
    """Count the products of the baseline's top k that the top k shown lacks; half the symmetric difference.

    Args:
        baseline, shown: Indices of products from the top.
        k: Length of the tops.
    """
    left = 0
    for p in baseline[:k]:
        left += not np.any(shown[:k] == p)
    return left
