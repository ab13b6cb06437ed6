"""Cholesky factors L L' = M of symmetric positive definite matrices, grown by rows or made whole, in a fixed order."""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray
from zoosim.linear.dense import add_matrix, add_product, copy_matrix, dot

BLOCK = 32
"""Rows or columns of a large matrix that are worked on together."""


@jit
def extend(lower: FloatArray, n: int, column: FloatArray, corner: float) -> None:
    """Write row n of L: M grows by `column (n,)` and its `corner`, above what rounding leaves of a corner of 0."""
    row = lower[n]
    for i in range(n):
        row[i] = (column[i] - dot(lower[i, :i], row[:i])) / lower[i, i]
    # Where the new row depends on the former ones this is 0 up to rounding, of either sign.
    rest = corner - dot(row[:n], row[:n])
    row[n] = np.sqrt(max(rest, 1e-15 * corner))


@jit
def solve_lower(lower: FloatArray, b: FloatArray) -> None:
    """Replace `b (n, m)` by L^-1 b, all columns at once and four rows at a time."""
    n, columns = b.shape
    part = np.empty((4, columns))  # not b itself: a compiler that knows of no overlap takes several columns at once
    scratch = np.empty(4 * n)
    for i in range(0, n, 4):
        end = min(i + 4, n)
        if i > 0:
            # One buffer for all blocks, cut to size before it is shaped: a
            # part of a wider matrix would not be contiguous.
            left = scratch[: (end - i) * i].reshape((end - i, i))
            for j in range(i, end):
                for k in range(i):
                    # With its sign turned, since `add_matrix` only adds.
                    left[j - i, k] = -lower[j, k]
            block = part[: end - i]
            copy_matrix(b[i:end], block)
            add_matrix(left, b[:i], block)
            copy_matrix(block, b[i:end])
        for j in range(i, end):
            for k in range(i, j):
                for column in range(columns):
                    b[j, column] -= lower[j, k] * b[k, column]
            for column in range(columns):
                b[j, column] /= lower[j, j]


@jit
def solve_upper(lower: FloatArray, b: FloatArray) -> None:
    """Replace `b (n, m)` by L'^-1 b, all columns at once."""
    n = b.shape[0]
    for i in range(n - 1, -1, -1):
        # Rows below are solved: b_i = (b_i - sum of L_ki b_k over k > i) / L_ii.
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
    # M^-1 = L'^-1 L^-1, from the columns of L^-1, which begin at the diagonal.
    roots = np.zeros((n, n))
    for i in range(0, n, BLOCK):
        columns = np.zeros((n - i, min(BLOCK, n - i)))
        for j in range(columns.shape[1]):
            columns[j, j] = 1.0
        solve_lower(a[i:, i:], columns)
        copy_matrix(columns, roots[i:, i : i + BLOCK])
    for i in range(0, n, BLOCK):
        end = min(i + BLOCK, n)
        # Row k of L^-1 ends at column k, so only rows from i on reach the columns of this block.
        rows = np.zeros((end - i, end))
        left_of_end = np.empty((n - i, end))
        copy_matrix(roots[i:, :end], left_of_end)
        add_matrix(_transposed(roots[i:, i:end]), left_of_end, rows)
        copy_matrix(rows, out[i:end, :end])
        for j in range(i, end):
            for k in range(end):
                # Both halves from one result: an inverse that is symmetric to the bit.
                out[k, j] = rows[j - i, k]


@jit
def _transposed(matrix: FloatArray) -> FloatArray:
    """Return a copy of M', contiguous."""
    out = np.empty((matrix.shape[1], matrix.shape[0]))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = matrix[j, i]
    return out


@jit
def _factorise(a: FloatArray, least: float) -> None:
    """Replace the lower half of `a (n, n)` by L."""
    for i in range(0, a.shape[0], BLOCK):
        end = min(i + BLOCK, a.shape[0])
        # Left of the block first: the corner is what its products leave.
        left = _transposed(a[i:end, :i])
        solve_lower(a[:i, :i], left)
        minus = np.empty((end - i, i))
        for j in range(i, end):
            for k in range(i):
                a[j, k] = left[k, j - i]
                minus[j - i, k] = -left[k, j - i]
        corner = np.empty((end - i, end - i))
        copy_matrix(a[i:end, i:end], corner)
        add_matrix(minus, left, corner)
        for j in range(end - i):
            for k in range(j):
                corner[j, k] = (corner[j, k] - dot(corner[j, :k], corner[k, :k])) / corner[k, k]
            corner[j, j] = np.sqrt(max(corner[j, j] - dot(corner[j, :j], corner[j, :j]), least))
        copy_matrix(corner, a[i:end, i:end])
