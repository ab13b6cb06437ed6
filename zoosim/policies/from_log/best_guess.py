"""The best of many products for each of many visitors, by products of matrices that fit into the processor's cache."""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import BoolArray, FloatArray, IntArray

VISITORS_AT_ONCE, PRODUCTS_AT_ONCE = 64, 2_048
"""Visitors and products whose scores are in memory at once: 1 MB of them."""

CLOSE = 1e-9
"""Difference of two scores, as a share of their size or absolutely, that rounding may have made."""

LEAST_SCORE, MOST_LOG_SIZE = -600.0, 700.0
"""Logarithms of a guess below which it may round to 0, and of a size beyond which all are alike."""


class Weights(NamedTuple):
    """Weights of products for a visitor's representation, each `(K, D)`.

    Guesses rise with `linear`, or where there are `log_sizes` with the probability whose logit is `linear` times a size
    whose logarithm they give; else those are `(0, D)`.
    """

    linear: FloatArray
    log_sizes: FloatArray


def best_guesses(
    weights: Weights, represented: FloatArray, masks: BoolArray, mask_of: IntArray
) -> tuple[IntArray, BoolArray]:
    """Return the product with the highest guess for each of n visitors `(n,)`, and where rounding may decide `(n,)`.

    Args:
        weights: Those of the K products.
        represented: What guesses follow from `(n, D)`.
        masks: Sets of products that may be chosen `(m, K)`.
        mask_of: The set of each visitor `(n,)`.
    """
    n = len(represented)
    places = np.zeros(n, np.int64)
    is_close = np.zeros(n, np.bool_)
    nothing = np.zeros((0, 0))
    for start in range(0, n, VISITORS_AT_ONCE):
        rows = slice(start, min(start + VISITORS_AT_ONCE, n))
        best = np.full(rows.stop - start, -np.inf)
        for first in range(0, len(weights.linear), PRODUCTS_AT_ONCE):
            products = slice(first, first + PRODUCTS_AT_ONCE)
            linear = represented[rows] @ weights.linear[products].T
            log_sizes = represented[rows] @ weights.log_sizes[products].T if len(weights.log_sizes) else nothing
            _take_best(linear, log_sizes, masks, mask_of[rows], first, best, places[rows], is_close[rows])
        is_close[rows] |= ~(best > LEAST_SCORE) if len(weights.log_sizes) else ~np.isfinite(best)
    return places, is_close


@jit
def _take_best(
    linear: FloatArray,
    log_sizes: FloatArray,
    masks: BoolArray,
    mask_of: IntArray,
    first: int,
    best: FloatArray,
    places: IntArray,
    is_close: BoolArray,
) -> None:
    """Go on to look for the best product of each visitor, among those from number `first` on."""
    with_sizes = log_sizes.shape[0] > 0
    for i in range(linear.shape[0]):
        available = masks[mask_of[i]]
        top = best[i]
        # Nothing below this can be the best one, or as good.
        least = top - CLOSE * (1.0 + abs(top))
        for k in range(linear.shape[1]):
            score = linear[i, k]
            if with_sizes:
                size = min(log_sizes[i, k], MOST_LOG_SIZE)
                # log s(x) is below both 0 and x: few products need an exponential.
                if size + min(score, 0.0) < least:
                    continue
                score = size - _softplus(-score)
            if score >= least and available[first + k]:
                if score > top:
                    is_close[i] = score - CLOSE * (1.0 + abs(score)) <= top
                    top = score
                    least = top - CLOSE * (1.0 + abs(top))
                    places[i] = first + k
                else:
                    is_close[i] = True
        best[i] = top


@jit
def _softplus(x: float) -> float:
    return float(max(x, 0.0) + np.log1p(np.exp(-abs(x))))
