"""Cholesky factors L L' = M of symmetric positive definite matrices, grown by rows or made whole, in a fixed order."""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray
from zoosim.linear.dense import add_matrix, add_product, dot

BLOCK = 32
"""Rows or columns of a large matrix that are worked on together."""


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
    """Replace `b (n, m)` by L^-1 b, all columns at once and four rows at a time."""
    part = np.empty((4, b.shape[1]))  # not b itself: a compiler that knows of no overlap takes several columns at once
    for i in range(0, b.shape[0], 4):
        end = min(i + 4, b.shape[0])
        block = part[: end - i]
        block[:] = b[i:end]
        add_matrix(-lower[i:end, :i], b[:i], block)
        b[i:end] = block
        for j in range(i, end):
            for k in range(i, j):
                b[j] -= lower[j, k] * b[k]
            b[j] /= lower[j, j]


@jit
def solve_upper(lower: FloatArray, b: FloatArray) -> None:
    """Replace `b (n, m)` by L'^-1 b, all columns at once."""
    n = b.shape[0]
    for i in range(n - 1, -1, -1):
        add_product(-lower[i + 1 : n, i], b[i + 1 :], b[i])
        b[i] /= lower[i, i]


@jit
def invert_lower_half(a: FloatArray, least: float, out: FloatArray) -> None:
    """Write M^-1 to `out (n, n)`; of `a (n, n)` = M only the lower half is read.

    What stands in `a` is destroyed. No eigenvalue of M is below `least`, so no pivot is: where rounding has it so, it
    is raised. Works by blocks, for n in the hundreds.
    """
    _factorise(a, least)
    n = a.shape[0]
    roots = np.zeros((n, n))
    for i in range(0, n, BLOCK):
        columns = np.eye(n - i, min(BLOCK, n - i))
        solve_lower(a[i:, i:], columns)
        roots[i:, i : i + BLOCK] = columns
    for i in range(0, n, BLOCK):
        end = min(i + BLOCK, n)
        rows = np.zeros((end - i, end))
        add_matrix(roots[i:, i:end].T.copy(), roots[i:, :end].copy(), rows)
        out[i:end, :end] = rows
        out[:end, i:end] = rows.T


@jit
def _factorise(a: FloatArray, least: float) -> None:
    """Replace the lower half of `a (n, n)` by L."""
    for i in range(0, a.shape[0], BLOCK):
        end = min(i + BLOCK, a.shape[0])
        left = a[i:end, :i].T.copy()
        solve_lower(a[:i, :i], left)
        a[i:end, :i] = left.T
        corner = a[i:end, i:end].copy()
        add_matrix(-a[i:end, :i], left, corner)
        for j in range(end - i):
            for k in range(j):
                corner[j, k] = (corner[j, k] - dot(corner[j, :k], corner[k, :k])) / corner[k, k]
            corner[j, j] = np.sqrt(max(corner[j, j] - dot(corner[j, :j], corner[j, :j]), least))
        a[i:end, i:end] = corner
