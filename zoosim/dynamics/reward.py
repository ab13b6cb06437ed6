"""What a visit is worth to the shop."""

from typing import NamedTuple

import numpy as np

from zoosim.core.search_config import RewardWeights
from zoosim.core.types import BoolArray, IntArray
from zoosim.world.catalogue import Catalogue


class RewardParts(NamedTuple):
    """GMV and CM2 of what was bought in EUR, strategic purchases, clicks, and the rank change that is paid for."""

    gmv: float
    cm2: float
    strategic: int
    clicks: int
    rank_change: int


def reward_parts(
    catalogue: Catalogue, shown: IntArray, clicks: BoolArray, purchases: BoolArray, rank_change: int
) -> RewardParts:
    """Sum up a visit: products `shown (k,)`, `clicks (k,)` and `purchases (k,)` by position."""
    bought = shown[purchases]
    return RewardParts(
        gmv=float(catalogue.price[bought].sum()),
        cm2=float(catalogue.cm2[bought].sum()),
        strategic=int(catalogue.strategic[bought].sum()),
        clicks=int(clicks.sum()),
        rank_change=rank_change,
    )


def reward(weights: RewardWeights, parts: RewardParts) -> float:
    """Weigh the parts of a visit."""
    earned = weights.gmv * parts.gmv + weights.cm2 * parts.cm2 + weights.strategic * parts.strategic
    return earned + weights.clicks * parts.clicks - weights.rank_change * parts.rank_change


def left_top(baseline: IntArray, shown: IntArray, k: int) -> int:
    """Count the products of the baseline's top k that the top k shown lacks; half the symmetric difference."""
    return int(np.isin(baseline[:k], shown[:k], invert=True).sum())
