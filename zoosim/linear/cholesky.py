"""Cholesky factors L L' = M of symmetric positive definite matrices, grown a row at a time; sums in a fixed order."""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray
from zoosim.linear.dense import add_product, dot


@jit
def extend(lower: FloatArray, n: int, column: FloatArray, corner: float) -> None:
    """Write row n of L: M grows by `column (n,)` and its `corner`, above what rounding leaves of a corner of 0."""
    row = lower[n]
    for i in range(n):
        row[i] = (column[i] - dot(lower[i, :i], row[:i])) / lower[i, i]
    rest = corner - dot(row[:n], row[:n])
    row[n] = np.sqrt(max(rest, 1e-15 * corner))


@jit
def solve_lower(lower: FloatArray, b: FloatArray) -> None:
    """Replace `b (n, m)` by L^-1 b, all columns at once."""
    for i in range(b.shape[0]):
        add_product(-lower[i, :i], b[:i], b[i])
        b[i] /= lower[i, i]


@jit
def solve_upper(lower: FloatArray, b: FloatArray) -> None:
    """Replace `b (n, m)` by L'^-1 b, all columns at once."""
    n = b.shape[0]
    for i in range(n - 1, -1, -1):
        add_product(-lower[i + 1 : n, i], b[i + 1 :], b[i])
        b[i] /= lower[i, i]
