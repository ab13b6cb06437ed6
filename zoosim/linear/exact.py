"""Ridge models in twice the precision, for features so scaled or so alike that double precision loses digits.

A number is a pair of doubles, high + low, of which the low is below the rounding of the high: about 32 digits. Sums
and products of doubles are split into such pairs without error (Dekker 1971; Knuth 1969). A model that is `hard` keeps
its sums and its inverse as pairs; it costs some twenty times what an easy one does.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray

SPLITTER = 134217729.0  # 2^27 + 1


class Pairs(NamedTuple):
    """One model in pairs: gram and inverse `(d, d)`, b `(d,)`, each high and low; theta `(d,)` and lambda."""

    gram: FloatArray
    gram_low: FloatArray
    inverse: FloatArray
    inverse_low: FloatArray
    b: FloatArray
    b_low: FloatArray
    theta: FloatArray
    regularization: float


@jit
def two_sum(a: float, b: float) -> tuple[float, float]:
    """Return a + b as a pair."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@jit
def two_product(a: float, b: float) -> tuple[float, float]:
    """Return a b as a pair."""
    product = a * b
    t = SPLITTER * a
    a_high = t - (t - a)
    t = SPLITTER * b
    b_high = t - (t - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@jit
def plus(a: float, a_low: float, b: float, b_low: float) -> tuple[float, float]:
    """Return the sum of two pairs."""
    high, low = two_sum(a, b)
    low += a_low + b_low
    total = high + low
    return total, low - (total - high)


@jit
def times(a: float, a_low: float, b: float, b_low: float) -> tuple[float, float]:
    """Return the product of two pairs."""
    high, low = two_product(a, b)
    low += a * b_low + a_low * b
    total = high + low
    return total, low - (total - high)


@jit
def add(pairs: Pairs, x: FloatArray, nonzero: IntArray, reward: float, sign: float) -> None:
    """Add an observation to the sums, or with a `sign` of -1 subtract it."""
    for i in nonzero:
        high, low = two_product(sign * x[i], reward)
        pairs.b[i], pairs.b_low[i] = plus(pairs.b[i], pairs.b_low[i], high, low)
        for j in nonzero:
            high, low = two_product(sign * x[i], x[j])
            pairs.gram[i, j], pairs.gram_low[i, j] = plus(pairs.gram[i, j], pairs.gram_low[i, j], high, low)


@jit
def row_product(
    matrix: FloatArray, matrix_low: FloatArray, i: int, x: FloatArray, nonzero: IntArray
) -> tuple[float, float]:
    """Return row i of a matrix of pairs times x."""
    total = total_low = 0.0
    for j in nonzero:
        high, low = times(matrix[i, j], matrix_low[i, j], x[j], 0.0)
        total, total_low = plus(total, total_low, high, low)
    return total, total_low


@jit
def quadratic(matrix: FloatArray, matrix_low: FloatArray, x: FloatArray, nonzero: IntArray) -> float:
    """Return x' M x of a matrix of pairs `(d, d)`, 0 at least."""
    total = total_low = 0.0
    for i in nonzero:
        high, low = row_product(matrix, matrix_low, i, x, nonzero)
        high, low = times(high, low, x[i], 0.0)
        total, total_low = plus(total, total_low, high, low)
    return max(total + total_low, 0.0)


@jit
def contract(pairs: Pairs, left: FloatArray, nonzero: IntArray, spread: FloatArray, spread_low: FloatArray) -> None:
    """Write A^-1 as one `left` sees it to the pairs `spread (w, w)`, as `zoosim.linear.joint.contract` does."""
    width = spread.shape[0]
    for a in nonzero:
        for b in nonzero:
            scale, scale_low = two_product(left[a], left[b])
            for i in range(width):
                for j in range(width):
                    if a + b + i + j > 0:  # the constant is left out
                        row, column = a * width + i, b * width + j
                        high, low = pairs.inverse[row, column], pairs.inverse_low[row, column]
                        high, low = times(high, low, scale, scale_low)
                        spread[i, j], spread_low[i, j] = plus(spread[i, j], spread_low[i, j], high, low)


@jit
def follow(pairs: Pairs, x: FloatArray, nonzero: IntArray, sign: float) -> bool:
    """Follow A <- A + sign x x' in the inverse and theta = A^-1 b; False, with nothing done, where that cannot be."""
    dim = x.shape[0]
    v, v_low = np.zeros(dim), np.zeros(dim)
    spread, spread_low = 1.0, 0.0
    for i in range(dim):
        v[i], v_low[i] = row_product(pairs.inverse, pairs.inverse_low, i, x, nonzero)
        high, low = times(v[i], v_low[i], sign * x[i], 0.0)
        spread, spread_low = plus(spread, spread_low, high, low)
    if not 1e-12 < spread < np.inf:
        return False
    part, part_low = _reciprocal(spread, spread_low)
    for i in range(dim):
        scaled, scaled_low = times(v[i], v_low[i], -sign * part, -sign * part_low)
        if scaled != 0.0:
            for j in range(dim):
                high, low = times(scaled, scaled_low, v[j], v_low[j])
                inverse = plus(pairs.inverse[i, j], pairs.inverse_low[i, j], high, low)
                pairs.inverse[i, j], pairs.inverse_low[i, j] = inverse
    solve_theta(pairs)
    return True


@jit
def solve_theta(pairs: Pairs) -> None:
    """Compute theta = A^-1 b."""
    for i in range(pairs.b.shape[0]):
        total = total_low = 0.0
        for j in range(pairs.b.shape[0]):
            high, low = times(pairs.inverse[i, j], pairs.inverse_low[i, j], pairs.b[j], pairs.b_low[j])
            total, total_low = plus(total, total_low, high, low)
        pairs.theta[i] = total + total_low


@jit
def fade(pairs: Pairs, keep: float) -> None:
    """Multiply the sums by `keep`."""
    dim = pairs.b.shape[0]
    for i in range(dim):
        pairs.b[i], pairs.b_low[i] = times(pairs.b[i], pairs.b_low[i], keep, 0.0)
        for j in range(dim):
            pairs.gram[i, j], pairs.gram_low[i, j] = times(pairs.gram[i, j], pairs.gram_low[i, j], keep, 0.0)


@jit
def solve(pairs: Pairs) -> None:
    """Compute the inverse of A = gram + lambda I and theta from the sums.

    Sums from which larger ones were subtracted may hold nothing but rounding. Where that shows, lambda is raised by
    what it takes, at last above all that stands beside the diagonal.
    """
    _invert(pairs, pairs.regularization)
    largest, level = 0.0, 1e-24
    for row in pairs.gram:
        largest = max(largest, np.max(np.abs(row)))
    while level < 10.0 and not plausible(pairs):
        _invert(pairs, pairs.regularization + 2.0 * level * pairs.b.shape[0] * largest)
        level *= 1e12
    solve_theta(pairs)


@jit
def plausible(pairs: Pairs) -> bool:
    """Tell whether no entry of the inverse is larger than 1 / lambda, and none of the diagonal negative."""
    inverse, most = pairs.inverse, 1.001 / pairs.regularization
    for i in range(inverse.shape[0]):
        if inverse[i, i] < 0.0:
            return False
        for j in range(inverse.shape[0]):
            if not -most < inverse[i, j] < most:
                return False
    return True


@jit
def _invert(pairs: Pairs, regularization: float) -> None:
    """Write the inverse of gram + `regularization` I, by sweeps (Beaton 1964).

    After that of k, the rows and columns up to k hold minus the inverse of their block of A, the rest what is left of
    A. No pivot is below lambda; where rounding has it so, it is raised.
    """
    inverse, low, dim = pairs.inverse, pairs.inverse_low, pairs.b.shape[0]
    inverse[:], low[:] = pairs.gram, pairs.gram_low
    for i in range(dim):
        inverse[i, i], low[i, i] = plus(inverse[i, i], low[i, i], regularization, 0.0)
    for k in range(dim):
        _sweep(inverse, low, k, regularization)
    for i in range(dim):
        for j in range(dim):
            inverse[i, j], low[i, j] = -inverse[i, j], -low[i, j]


@jit
def _sweep(a: FloatArray, low: FloatArray, k: int, least: float) -> None:
    dim, pivot, pivot_low = a.shape[0], a[k, k], low[k, k]
    if pivot < least:
        pivot, pivot_low = least, 0.0
    part, part_low = _reciprocal(pivot, pivot_low)
    for i in range(dim):
        if i != k and a[i, k] != 0.0:
            scaled, scaled_low = times(a[i, k], low[i, k], -part, -part_low)
            for j in range(dim):
                if j != k:
                    high, below = times(scaled, scaled_low, a[k, j], low[k, j])
                    a[i, j], low[i, j] = plus(a[i, j], low[i, j], high, below)
    for i in range(dim):
        if i != k:
            a[i, k], low[i, k] = times(a[i, k], low[i, k], part, part_low)
            a[k, i], low[k, i] = a[i, k], low[i, k]
    a[k, k], low[k, k] = -part, -part_low


@jit
def _reciprocal(a: float, a_low: float) -> tuple[float, float]:
    """Return 1 / a of a pair."""
    part = 1.0 / a
    high, low = times(part, 0.0, a, a_low)
    return part, part * ((1.0 - high) - low)
