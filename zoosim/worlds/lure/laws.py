"""The laws of a visit as arrays over segments and products, and what a page brings by them, in expectation."""

from typing import NamedTuple

import numpy as np
from scipy import special

from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.lure.config import LureConfig

CLICK_WORTH = 0.01
"""EUR that a click is worth beside what is bought: as little as the reward of a boost policy may count it."""

FEATURES = ("discount", "quality", "private label")
"""What boosts go by."""


class Laws(NamedTuple):
    """What visitors do, by segment and product `(P, K)`, and when they return.

    `clicks` of what is looked at, `purchases` of what was clicked, `pleased` of what was bought. `looks_on` is the
    chance of looking at the next position, `returns (S,)` that of a return by the level at the end of a visit, levels
    counted from 0; `prices (K,)`, and `shares (P,)` of the segments.
    """

    clicks: FloatArray
    purchases: FloatArray
    pleased: FloatArray
    looks_on: float
    returns: FloatArray
    prices: FloatArray
    shares: FloatArray


class Pages(NamedTuple):
    """What each of R rankings brings at a visit, by segment.

    `rewards (P, R)` are EUR, and `moves (P, R, 2 k + 1)` chances of each move of satisfaction, from -k to k levels.
    """

    rewards: FloatArray
    moves: FloatArray


def laws_of(config: LureConfig) -> Laws:
    """Return the laws of a shop."""
    products = config.products.values()
    segments = config.segments.values()
    quality = np.array([product.quality for product in products])
    is_label = np.array([product.label for product in products], float)
    tastes = np.array([(segment.quality, segment.label) for segment in segments])
    utility = tastes @ np.stack([quality, is_label])
    lured = utility + config.lure * np.array([product.discount for product in products])
    first = np.log(config.comes_back / (1.0 - config.comes_back))
    return Laws(
        clicks=special.expit(config.click + lured),
        purchases=special.expit(config.purchase + lured),
        pleased=special.expit(config.pleases * (utility - config.expected)),
        looks_on=config.looks_on,
        returns=special.expit(first + config.return_by_level * np.arange(-config.levels, config.levels + 1)),
        prices=np.array([product.price for product in products]),
        shares=np.array([segment.share for segment in segments]),
    )


def features_of(config: LureConfig) -> FloatArray:
    """Return the boost features of the products, `(K, 3)`: see `FEATURES`."""
    rows = [(product.discount, product.quality, product.label) for product in config.products.values()]
    return np.array(rows, float)


def pages_of(laws: Laws, rankings: IntArray) -> Pages:
    """Return what pages bring.

    Args:
        laws: The laws of the shop.
        rankings: Products by position, `(R, k)`.
    """
    n_rankings, k = rankings.shape
    bought = laws.clicks * laws.purchases
    worth = CLICK_WORTH * laws.clicks + bought * laws.prices
    ups = (bought * laws.pleased)[:, rankings, np.newaxis]
    downs = (bought * (1.0 - laws.pleased))[:, rankings, np.newaxis]
    rewards = np.zeros((len(laws.shares), n_rankings))
    moves = np.zeros((len(laws.shares), n_rankings, 2 * k + 1))
    moves[..., k] = 1.0
    # From the last position up: what comes below counts with the chance that the visitor looks on.
    for position in reversed(range(k)):
        if position < k - 1:
            rewards *= laws.looks_on
            moves *= laws.looks_on
            moves[..., k] += 1.0 - laws.looks_on
        rewards += worth[:, rankings[:, position]]
        up = ups[:, :, position]
        down = downs[:, :, position]
        # No roll wraps around: below a position there are at most k - 1 purchases yet.
        moves = (1.0 - up - down) * moves + up * np.roll(moves, 1, axis=2) + down * np.roll(moves, -1, axis=2)
    return Pages(rewards, moves)
