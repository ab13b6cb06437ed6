"""Bayesian logistic regression: a normal prior, the mode by Newton's method, Laplace's normal around it.

Sources: MacKay (1992), "The evidence framework applied to classification networks"; Bishop (2006), section 4.5.
Examples have weights, so that those which are only probably there count for as much. What is forgotten may leave its
curvature in the prior: the posterior of one stretch of data is the prior of the next.
"""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import Limits, covariance_flaws
from zoosim.core.types import FloatArray
from zoosim.linear.cholesky import extend, solve_lower, solve_upper
from zoosim.linear.dense import add_product, copy_matrix, copy_vector, dot

STEEP = 30.0
"""Log odds beyond this size count as this size."""

WEIGHTS, ROOTS = Limits(-1e12, 1e12), Limits(-1e15, 1e15)

NARROWEST = 1e-13
"""The least precision, as a share of the largest: below, a root of both is rounding."""

LEAST_ROOT = 1e-6
"""The least singular value of a root: a posterior is no wider than its inverse in any direction."""


class Logistic(NamedTuple):
    """A posterior over weights: `mean (d,)` and the lower triangular `root (d, d)`, whose L L' is the precision.

    The prior is normal with `prior_mean (d,)` and `prior_precision (d, d)`.
    """

    mean: Annotated[FloatArray, WEIGHTS]
    root: Annotated[FloatArray, ROOTS]
    prior_mean: Annotated[FloatArray, WEIGHTS]
    prior_precision: FloatArray

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        root = np.tril(self.root)
        if np.diagonal(root).min() <= 0.0 or np.linalg.svd(root, compute_uv=False).min() < LEAST_ROOT:
            yield "root is no root of a precision, expected a lower triangular matrix with a positive diagonal"
        yield from covariance_flaws("prior_precision", self.prior_precision)
        least, largest = np.linalg.eigvalsh(self.prior_precision)[[0, -1]]
        if least < max(LEAST_ROOT**2, NARROWEST * largest):
            yield f"prior_precision holds a precision of {least:g} beside {largest:g}, which leaves a weight unknown"


def new_logistic(means: FloatArray, deviations: FloatArray) -> Logistic:
    """Return a posterior that is its own prior, with independent weights of `means (d,)` and `deviations (d,)`."""
    return Logistic(means.copy(), np.diag(1.0 / deviations), means.copy(), np.diag(deviations**-2.0))


@jit
def chance(log_odds: float) -> float:
    """Return 1 / (1 + exp(-x))."""
    # At 30 the chance is 1 - 1e-13, which double precision still tells from 1: p (1 - p) and logarithms stay finite.
    return float(1.0 / (1.0 + np.exp(-min(max(log_odds, -STEEP), STEEP))))


@jit
def add_curvature(
    mean: FloatArray, rows: FloatArray, happened: FloatArray, weights: FloatArray, slope: FloatArray, matrix: FloatArray
) -> None:
    """Add the log likelihood's gradient to `slope (d,)`, its negated Hessian to the lower half of `matrix (d, d)`.

    Both at `mean (d,)`: examples `rows (n, d)`, `happened (n,)` as 0 or 1, `weights (n,)`.
    """
    d = mean.shape[0]
    # Four examples at a time, so that the Hessian is read and written once for all of them.
    block = np.empty((4, mean.shape[0]))
    for first in range(0, rows.shape[0], 4):
        part = rows[first : first + 4]
        block[:] = 0.0
        for n in range(part.shape[0]):
            p = chance(dot(part[n], mean))
            weight = weights[first + n]
            error = weight * (happened[first + n] - p)
            bend = weight * p * (1.0 - p)
            for i in range(d):
                slope[i] += error * part[n, i]
                block[n, i] = bend * part[n, i]
        for i in range(d):
            add_product(block[: part.shape[0], i], part, matrix[i, : i + 1])


@jit
def log_posterior(
    mean: FloatArray, model: Logistic, rows: FloatArray, happened: FloatArray, weights: FloatArray
) -> float:
    """Return the logarithm of prior and likelihood at `mean (d,)`, but for a constant."""
    total = 0.0
    off = mean - model.prior_mean
    for i in range(mean.shape[0]):
        total -= 0.5 * off[i] * dot(model.prior_precision[i], off)
    for n in range(rows.shape[0]):
        p = chance(dot(rows[n], mean))
        # `chance` stays inside (0, 1), so that no logarithm is infinite.
        total += weights[n] * np.log(p if happened[n] > 0.0 else 1.0 - p)
    return float(total)


@jit
def expand(
    model: Logistic,
    rows: FloatArray,
    happened: FloatArray,
    weights: FloatArray,
    slope: FloatArray,
    matrix: FloatArray,
    root: FloatArray,
) -> None:
    """Expand the log posterior at the mean: its gradient to `slope (d, 1)`, then replaced by the step to the top.

    Negated Hessian to the lower half of `matrix (d, d)`, and its Cholesky factor to that of `root (d, d)`.
    """
    copy_matrix(model.prior_precision, matrix)
    for i in range(slope.shape[0]):
        slope[i, 0] = dot(model.prior_precision[i], model.prior_mean - model.mean)
    add_curvature(model.mean, rows, happened, weights, slope[:, 0], matrix)
    for i in range(slope.shape[0]):
        extend(root, i, matrix[i], matrix[i, i])
    solve_lower(root, slope)
    solve_upper(root, slope)


@jit
def newton_step(model: Logistic, rows: FloatArray, happened: FloatArray, weights: FloatArray) -> None:
    """Move the mean by a step of Newton's method towards the mode, and the root to the curvature where it was.

    The step is halved until the posterior rises: far from the mode a whole one may lead away from it.
    """
    d = model.mean.shape[0]
    slope = np.zeros((d, 1))
    matrix = np.empty((d, d))
    expand(model, rows, happened, weights, slope, matrix, model.root)
    before = log_posterior(model.mean, model, rows, happened, weights)
    share = 1.0
    moved = model.mean + slope[:, 0]
    while share > 1e-3 and not log_posterior(moved, model, rows, happened, weights) >= before:  # NaN is no rise
        share *= 0.5
        moved = model.mean + share * slope[:, 0]
    # Else no step raises the posterior: all that is left to gain is rounding.
    if share > 1e-3:
        copy_vector(moved, model.mean)


@jit
def absorb(model: Logistic, rows: FloatArray, happened: FloatArray, weights: FloatArray) -> None:
    """Make the prior what it and these examples come to, by their quadratic expansion at the mean."""
    d = model.mean.shape[0]
    slope = np.zeros((d, 1))
    matrix = np.empty((d, d))
    root = np.zeros((d, d))
    expand(model, rows, happened, weights, slope, matrix, root)
    for i in range(d):
        # `expand` left the step to the top of the quadratic in `slope`: the top is the mean of the new prior.
        model.prior_mean[i] = model.mean[i] + slope[i, 0]
        for j in range(i + 1):
            model.prior_precision[i, j] = model.prior_precision[j, i] = matrix[i, j]


@jit
def draw_weights(model: Logistic, normals: FloatArray, width: float) -> FloatArray:
    """Return weights `(d,)` drawn from the posterior, `width` times as wide, by `normals (d,)` from N(0, 1)."""
    step = np.empty((normals.shape[0], 1))
    for i in range(normals.shape[0]):
        step[i, 0] = width * normals[i]
    # The precision is L L', so L'^-1 z has its inverse as covariance.
    solve_upper(model.root, step)
    return model.mean + step[:, 0]
