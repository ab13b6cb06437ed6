"""Stability of a ranking under boosts: products that leave the top k, and the largest boosts that keep a limit.

Scores are lines in the size of the boosts. Along a ray from no boosts at all, an outsider q passes a product p of the
base ranker's top k once, where s = (gap of their base scores) / (gain of q on p), and stays above it. So products that
leave do not come back, and the largest s at which at most `limit` have left is a matter of counting: p is sure to stay
as long as fewer than `limit` + 1 outsiders have passed it, and a top k has lost more than `limit` products just when
more than `limit` of them have been passed by more than `limit` outsiders.
"""

import numpy as np

from zoosim.core.checks import check_array, check_number, check_whole
from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.ranking.top_k import top_of

TIE = 1e-9
"""Scores closer than this count as equal: another order of summation may turn them round."""


def rank_change(base_scores: FloatArray, boost_features: FloatArray, boosts: FloatArray, k: int = 10) -> int:
    """Count the products of the base ranker's top k that leave it under boosts: half the symmetric difference.

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
    return int(_count_leaving(base, shown, features, vector)) if vector.any() else 0


def largest_scale(
    base_scores: FloatArray, boost_features: FloatArray, boosts: FloatArray, limit: int, k: int = 10
) -> float:
    """Return the largest s in [0, 1] for which s * boosts take at most `limit` (0 to k) products out of the top k.

    Every smaller s keeps the limit as well. Other arguments and errors are those of `rank_change`.
    """
    base, features, vector = _checked(base_scores, boost_features, boosts)
    shown = _top_of(base, k)
    return float(_largest_scale(base, shown, features, vector, check_whole("limit", limit, 0, len(shown))))


def scaled_back(
    base_scores: FloatArray, boost_features: FloatArray, boosts: FloatArray, limit: int, k: int = 10
) -> FloatArray:
    """Return each of `boosts (n, d)` times its `largest_scale`, so that all of them keep the limit."""
    base = check_array("base_scores", base_scores, (None,))
    features = check_array("boost_features", boost_features, (len(base), None))
    out: FloatArray = check_array("boosts", boosts, (None, features.shape[1])).copy()
    shown = _top_of(base, k)
    _scale_all(base, shown, features, check_whole("limit", limit, 0, len(shown)), out)
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
def _count_leaving(base: FloatArray, shown: IntArray, features: FloatArray, boosts: FloatArray) -> int:
    """Count the products `shown (k,)` that have k others above them, or as high."""
    scores = base.copy()
    n_left = 0
    for p in range(scores.shape[0]):
        for i in range(boosts.shape[0]):
            scores[p] += features[p, i] * boosts[i]
    for p in shown:
        # Less 1, as the product is counted among those as high as itself.
        n_left += np.sum(scores > scores[p] - TIE) - 1 >= shown.shape[0]
    return n_left


@jit
def _largest_scale(base: FloatArray, shown: IntArray, features: FloatArray, boosts: FloatArray, limit: int) -> float:
    gains = np.zeros(base.shape[0])
    slopes = np.empty((shown.shape[0], base.shape[0]))
    for p in range(base.shape[0]):
        for i in range(boosts.shape[0]):
            gains[p] += features[p, i] * boosts[i]
    for n, p in enumerate(shown):
        for q in range(base.shape[0]):
            slopes[n, q] = gains[q] - gains[p]
    scale = min(1.0, _holds_until(base, shown, slopes, limit))
    while scale > 0.0 and _count_leaving(base, shown, features, scale * boosts) > limit:  # ties, at the very end
        scale = scale * (1.0 - 1e-6) if scale > 1e-6 else 0.0
    return scale


@jit
def _scale_all(base: FloatArray, shown: IntArray, features: FloatArray, limit: int, boosts: FloatArray) -> None:
    for n in range(boosts.shape[0]):
        scale = _largest_scale(base, shown, features, boosts[n], limit)
        for i in range(boosts.shape[1]):
            boosts[n, i] *= scale


@jit
def _holds_until(base: FloatArray, shown: IntArray, slopes: FloatArray, limit: int) -> float:
    """Return at which distance more than `limit` of `shown (k,)` have been passed by more than `limit` outsiders.

    `slopes (k, K)`: by how much each product gains on each of those shown, a unit of distance.
    """
    passed = np.empty(shown.shape[0])
    for n, p in enumerate(shown):
        distances = np.full(base.shape[0], np.inf)
        for q in range(base.shape[0]):
            # What gains nothing on a product of the top never passes it.
            if slopes[n, q] > 0.0:
                distances[q] = (base[p] - base[q]) / slopes[n, q]
        distances[shown] = np.inf  # products of the top push none of it out
        passed[n] = _smallest(distances, limit)
    return _smallest(passed, limit)


@jit
def _smallest(values: FloatArray, rank: int) -> float:
    """Return the smallest of `values (n,)` at `rank` 0, 1, ...; infinity where there are not so many."""
    # By insertion: limits are small, so that sorting all values would cost more.
    smallest = np.full(rank + 1, np.inf)
    for value in values:
        if value < smallest[rank]:
            n = rank
            while n > 0 and smallest[n - 1] > value:
                smallest[n] = smallest[n - 1]
                n -= 1
            smallest[n] = value
    return float(smallest[rank])
