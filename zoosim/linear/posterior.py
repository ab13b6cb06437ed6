"""Posteriors as one visitor sees them: a small mean and root of the covariance for each model."""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.rng import normal
from zoosim.core.types import FloatArray
from zoosim.linear.dense import dot, nonzeros, quadratic_forms
from zoosim.linear.ridge import SLACK, quadratic


@jit
def root(matrix: FloatArray) -> None:
    """Replace a symmetric `matrix (w, w)` by the lower triangular L with L L' = matrix; a singular one is no trouble.

    Cholesky without pivoting: where nothing of a variance is left but rounding, a column of L is 0, and so is an entry
    whose square exceeds its row's variance, which only rounding errors can do.
    """
    width = matrix.shape[0]
    for j in range(width):
        full = matrix[j, j]
        left = matrix[j, j]
        for k in range(j):
            left -= matrix[j, k] * matrix[j, k]
        # Where exact numbers leave 0, rounding leaves about 1e-16 of the variance: 1e-12 is well above that.
        matrix[j, j] = np.sqrt(left) if left > 1e-12 * full else 0.0
        for i in range(j + 1, width):
            below = matrix[i, j]
            for k in range(j):
                below -= matrix[i, k] * matrix[j, k]
            entry = below / matrix[j, j] if matrix[j, j] > 0.0 else 0.0
            # Row i comes later, so that its diagonal still holds the variance, not yet a root.
            matrix[i, j] = entry if entry * entry <= SLACK * matrix[i, i] else 0.0
            matrix[j, i] = 0.0


@jit
def variances(spread: FloatArray, rows: FloatArray, dense: bool, out: FloatArray) -> None:
    """Write x' S x of each row x of `rows (R, w)` to `out (R,)`: `spread (w, w)`; zeros are skipped unless `dense`."""
    if dense:
        quadratic_forms(rows, spread, out)
    for r in range(rows.shape[0]):
        out[r] = max(out[r], 0.0) if dense else quadratic(spread, rows[r], nonzeros(rows[r]))


@jit
def bounds(mean: FloatArray, spread: FloatArray, rows: FloatArray, dense: bool, alpha: float, out: FloatArray) -> None:
    """Write the upper confidence bound of each row to `out (R,)`: its mean and `alpha` standard deviations.

    `mean (w,)` and `spread (w, w)`; `rows (R, w)`, and whether they are `dense`.
    """
    variances(spread, rows, dense, out)
    for r in range(rows.shape[0]):
        out[r] = dot(mean, rows[r]) + alpha * np.sqrt(out[r])


@jit
def draws(
    mean: FloatArray,
    root_of_spread: FloatArray,
    rows: FloatArray,
    alpha: float,
    key: np.uint64,
    i: int,
    j: int,
    out: FloatArray,
) -> int:
    """Write one joint draw of each row's expected reward to `out (R,)`, `alpha` times as wide as the posterior.

    Draws are numbered (key, i, j), ...; returns the next free j.
    """
    # `normal` number n is made of the uniforms 2 n and 2 n + 1: begin behind those used up.
    theta = mean.copy()
    j = j // 2 + 1
    # mean + alpha L z, column by column of L, so that each z is drawn once.
    for column in range(theta.shape[0]):
        z = alpha * normal(key, i, j + column)
        for row in range(column, theta.shape[0]):
            theta[row] += z * root_of_spread[row, column]
    for r in range(rows.shape[0]):
        out[r] = dot(theta, rows[r])
    return int(2 * (j + theta.shape[0]))
