"""Stability of a ranking under boosts: products that leave the top k, and the largest boosts that keep a limit.

Scores are lines in the size of the boosts. Along a ray from no boosts at all, an outsider q passes a product p of the
base ranker's top k once, where s = (gap of their base scores) / (gain of q on p), and stays above it. So products that
leave do not come back, and the largest s at which at most `limit` have left is a matter of counting: p is sure to stay
as long as fewer than `limit` + 1 outsiders have passed it, and a top k has lost more than `limit` products just when
more than `limit` of them have been passed by more than `limit` outsiders.

The same holds along a ray from any other boosts: the scores under these take the place of the base ranker's, and the
difference from them that of the boosts.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from zoosim.core.checks import check_array, check_number, check_whole
from zoosim.core.errors import DataError
from zoosim.core.jit import jit
from zoosim.core.parameters import shown as written
from zoosim.core.types import FloatArray, IntArray
from zoosim.ranking.top_k import top_of

TIE = 1e-9
"""Scores closer than this count as equal: another order of summation may turn them round."""


def rank_change(old: Sequence[int | str] | IntArray, new: Sequence[int | str] | IntArray, k: int = 10) -> int:
    """Return the rank change at k: how many products are in the top k of one of two rankings, and not of both.

    It is the size of the symmetric difference of both tops, as a set. Where both have k products it is even: twice the
    number of those that have left, which `products_leaving` and limits on rankings count.

    Args:
        old, new: Rankings, the best first: ids of products, each once; their lengths may differ.
        k: Length of the top, 1 to 1,000.

    Raises:
        DataError: A ranking is no list of whole numbers or texts, or has a product twice.
        ConfigError: `k` is out of range.
    """
    check_whole("k", k, 1, 1_000)
    return len(_ids("old", old, k) ^ _ids("new", new, k))


def _ids(name: str, ranking: Any, k: int) -> set[Any]:
    """Return the products of a ranking's top k."""
    first = list(ranking[:k]) if isinstance(ranking, Sequence | np.ndarray) else [None]
    if isinstance(ranking, str) or not all(isinstance(product, int | str | np.integer) for product in first):
        raise DataError(f"{name}: got {written(ranking)}, expected a list of the ids of products, the best first")
    ids = set(first)
    if len(ids) < len(first):
        twice = next(product for product in first if first.count(product) > 1)
        raise DataError(f"{name}: got product {written(twice)} twice, expected each product once")
    return ids


def products_leaving(base_scores: FloatArray, boost_features: FloatArray, boosts: FloatArray, k: int = 10) -> int:
    """Count the products of the base ranker's top k that leave it under boosts: half of `rank_change`.

    Where scores tie within rounding, products of the base ranker's top count as gone; without boosts none is.

    Args:
        base_scores: Scores `(K,)` of the base ranker, for the products of one request.
        boost_features: Features `(K, d)` that boosts multiply.
        boosts: The action `(d,)`; the score is base + features @ boosts.
        k: Length of the top, 1 to 1,000; K where that is less.

    Raises:
        DataError: An array has the wrong shape, or a number is not finite.
        ConfigError: `k` is out of range.
    """
    base, features, vector = _checked(base_scores, boost_features, boosts)
    shown = _top_of(base, k)
    return int(_count_leaving(base, shown, _gains(features, vector), 1.0)) if vector.any() else 0


def largest_scale(
    base_scores: FloatArray, boost_features: FloatArray, boosts: FloatArray, limit: int, k: int = 10
) -> float:
    """Return the largest s in [0, 1] for which s * boosts take at most `limit` (0 to k) products out of the top k.

    Every smaller s keeps the limit as well. Other arguments and errors are those of `products_leaving`.
    """
    base, features, vector = _checked(base_scores, boost_features, boosts)
    shown = _top_of(base, k)
    return float(_largest_scale(base, shown, _gains(features, vector), check_whole("limit", limit, 0, len(shown))))


def scaled_back(
    base_scores: FloatArray,
    boost_features: FloatArray,
    boosts: FloatArray,
    limit: int,
    k: int = 10,
    *,
    start: FloatArray | None = None,
) -> FloatArray:
    """Bring each of `boosts (n, d)` back to the limit along the ray from `start (d,)`, by its `largest_scale`.

    At most `limit` products then leave the top k of the ranking under `start`; None stands for no boosts, whose ranking
    is the base ranker's.
    """
    base = check_array("base_scores", base_scores, (None,))
    features = check_array("boost_features", boost_features, (len(base), None))
    vectors = check_array("boosts", boosts, (None, features.shape[1]))
    origin = np.zeros(features.shape[1]) if start is None else check_array("start", start, (features.shape[1],))
    steps = vectors - origin
    old = base + features @ origin
    old_top = _top_of(old, k)
    _scale_all(old, old_top, features, check_whole("limit", limit, 0, len(old_top)), steps)
    out: FloatArray = origin + steps
    return out


def adaptive_radius(std: FloatArray | float, full: float, narrow: float, wide: float) -> FloatArray:
    """Return trust-region radii from `narrow` to `wide`, in proportion to a critic's `std`; `wide` from `full` on.

    Where little is known there is much to learn; where it is known what boosts do, small steps are enough. Raises
    `ConfigError`.
    """
    check_number("full", full, 0.0, 1e9, above=True)
    check_number("wide", wide, check_number("narrow", narrow, 0.0, 1e9, above=True), 1e9)
    radius: FloatArray = np.clip(wide * np.asarray(std, float) / full, narrow, wide)
    return radius


def _checked(base: FloatArray, features: FloatArray, boosts: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    scores = check_array("base_scores", base, (None,))
    checked_features = check_array("boost_features", features, (len(scores), None))
    return scores, checked_features, check_array("boosts", boosts, (checked_features.shape[1],))


def _top_of(base: FloatArray, k: int) -> IntArray:
    return top_of(base, min(check_whole("k", k, 1, 1_000), len(base)))


@jit
def _gains(features: FloatArray, boosts: FloatArray) -> FloatArray:
    """Return by how much boosts raise the score of each product `(K,)`."""
    gains = np.zeros(features.shape[0])
    for p in range(features.shape[0]):
        for i in range(boosts.shape[0]):
            gains[p] += features[p, i] * boosts[i]
    return gains


@jit
def _count_leaving(base: FloatArray, shown: IntArray, gains: FloatArray, scale: float) -> int:
    """Count the products `shown (k,)` that have k others above them, or as high, where scores grow by scale * gains."""
    scores = base + scale * gains
    n_left = 0
    for p in shown:
        lowest = scores[p] - TIE
        above = -1  # the product is counted among those as high as itself
        for score in scores:
            above += score > lowest
        n_left += above >= shown.shape[0]
    return n_left


@jit
def _largest_scale(base: FloatArray, shown: IntArray, gains: FloatArray, limit: int) -> float:
    scale = min(1.0, _holds_until(base, shown, gains, limit))
    while scale > 0.0 and _count_leaving(base, shown, gains, scale) > limit:  # ties, at the very end
        scale = scale * (1.0 - 1e-6) if scale > 1e-6 else 0.0
    return scale


@jit
def _scale_all(base: FloatArray, shown: IntArray, features: FloatArray, limit: int, boosts: FloatArray) -> None:
    for n in range(boosts.shape[0]):
        scale = _largest_scale(base, shown, _gains(features, boosts[n]), limit)
        for i in range(boosts.shape[1]):
            boosts[n, i] *= scale


@jit
def _holds_until(base: FloatArray, shown: IntArray, gains: FloatArray, limit: int) -> float:
    """Return at which distance more than `limit` of `shown (k,)` have been passed by more than `limit` outsiders.

    `gains (K,)`: by how much the score of each product grows, a unit of distance.
    """
    inside = np.zeros(base.shape[0], np.bool_)
    inside[shown] = True
    passed = np.full(limit + 1, np.inf)
    for p in shown:
        distances = np.full(limit + 1, np.inf)
        for q in range(base.shape[0]):
            gap = base[p] - base[q]
            slope = gains[q] - gains[p]
            # Products of the top push none of it out, what gains nothing on a product never passes it, and few of the
            # others are near enough to be worth a division.
            if slope > 0.0 and gap < slope * distances[limit] and not inside[q]:
                _insert(distances, gap / slope)
        _insert(passed, distances[limit])
    return float(passed[limit])


@jit
def _insert(smallest: FloatArray, value: float) -> None:
    """Put a value into its place among the `smallest (n,)`, sorted, whose last one it drives out.

    Limits are small, so that sorting all values would cost more.
    """
    n = smallest.shape[0] - 1
    if value >= smallest[n]:
        return
    while n > 0 and smallest[n - 1] > value:
        smallest[n] = smallest[n - 1]
        n -= 1
    smallest[n] = value
