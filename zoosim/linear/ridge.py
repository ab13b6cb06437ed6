"""Ridge posteriors: one truth for every linear policy.

For each of n models, A = gram + lambda I with gram = sum w x x', b = sum w r x, theta = A^-1 b (Li, Chu, Langford &
Schapire 2010, algorithm 1). The inverse follows each observation by Sherman & Morrison (1950) in O(d^2) and is rebuilt
from the sums by Cholesky every `period = max(64, d)` observations of its model, so rounding cannot build up and an
update stays O(d^2) amortised. Forgetting (D-LinUCB, Russac, Vernade & Cappe 2019) happens at the rebuild: there the
sums are multiplied by discount^period while lambda is not, so the weights are a staircase, exact at every step.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import add_product, dot

MIN_PERIOD = 64


class Ridge(NamedTuple):
    """The sums and the posterior of n ridge models of d features.

    `gram (n, d, d)`, `inverse (n, d, d)` of A, `b (n, d)`, `theta (n, d)`, `age (n,)` observations since the last
    rebuild, `regularization` lambda > 0, `discount` in (0, 1] per observation.
    """

    gram: FloatArray
    inverse: FloatArray
    b: FloatArray
    theta: FloatArray
    age: IntArray
    regularization: float
    discount: float


def new_ridge(n: int, dim: int, regularization: float = 1.0, discount: float = 1.0) -> Ridge:
    """Return `n` models of `dim` features that have seen nothing."""
    inverse = np.zeros((n, dim, dim))
    inverse[:, np.arange(dim), np.arange(dim)] = 1.0 / regularization
    zeros = np.zeros((n, dim))
    return Ridge(np.zeros((n, dim, dim)), inverse, zeros, zeros.copy(), np.zeros(n, np.int64), regularization, discount)


@jit
def observe(ridge: Ridge, model: int, x: FloatArray, nonzero: IntArray, reward: float) -> None:
    """Add the observation (x, reward) to `model`: x `(d,)`, `nonzero` the indices where it is not 0."""
    add_sums(ridge, model, x, nonzero, 1.0, reward)
    ridge.age[model] += 1
    if ridge.age[model] >= max(MIN_PERIOD, x.shape[0]):
        rebuild(ridge, model)
    else:
        _rank_one(ridge.inverse[model], ridge.theta[model], x, reward)


@jit
def add_sums(ridge: Ridge, model: int, x: FloatArray, nonzero: IntArray, weight: float, reward: float) -> None:
    """Add observations of x `(d,)` to the sums alone: their total `weight` and the weighted sum of their rewards."""
    gram, b, dim = ridge.gram[model], ridge.b[model], x.shape[0]
    dense = 4 * nonzero.shape[0] > dim
    for i in nonzero:
        xi = weight * x[i]
        b[i] += reward * x[i]
        if dense:
            for j in range(dim):
                gram[i, j] += xi * x[j]
        else:
            for j in nonzero:
                gram[i, j] += xi * x[j]


@jit
def _rank_one(inverse: FloatArray, theta: FloatArray, x: FloatArray, reward: float) -> None:
    """Follow A <- A + x x' and b <- b + reward x in the inverse `(d, d)` and in theta `(d,)`."""
    dim = x.shape[0]
    v = np.zeros(dim)
    add_product(x, inverse, v)
    spread, error = 1.0 + dot(x, v), reward - dot(x, theta)
    for i in range(dim):
        if v[i] != 0.0:
            scale = v[i] / spread
            theta[i] += scale * error
            for j in range(dim):
                inverse[i, j] -= scale * v[j]


@jit
def rebuild(ridge: Ridge, model: int) -> None:
    """Forget by discount^age, then compute inverse and theta of `model` from its sums."""
    gram, inverse, b, theta = ridge.gram[model], ridge.inverse[model], ridge.b[model], ridge.theta[model]
    dim = b.shape[0]
    if ridge.discount < 1.0:
        keep = ridge.discount ** ridge.age[model]
        gram *= keep
        b *= keep
    a = gram.copy()
    for i in range(dim):
        a[i, i] += ridge.regularization
    invert(a, inverse)
    for i in range(dim):
        theta[i] = 0.0
        for j in range(dim):
            theta[i] += inverse[i, j] * b[j]
    ridge.age[model] = 0


@jit
def invert(a: FloatArray, out: FloatArray) -> None:
    """Write the inverse of the symmetric positive definite `a (d, d)` to `out`, by Cholesky of its upper triangle.

    What stands in `a` is destroyed.

    Loops run along rows and add in a fixed order, so the bits do not depend on threads or on a library.
    """
    dim = a.shape[0]
    for k in range(dim):
        a[k, k] = np.sqrt(a[k, k])
        for j in range(k + 1, dim):
            a[k, j] /= a[k, k]
        for i in range(k + 1, dim):
            if a[k, i] != 0.0:
                for j in range(i, dim):
                    a[i, j] -= a[k, i] * a[k, j]
    _solve_identity(a, out)


@jit
def _solve_identity(upper: FloatArray, out: FloatArray) -> None:
    """Solve U'U X = I row by row, all right-hand sides at once."""
    dim = upper.shape[0]
    out[:] = 0.0
    for i in range(dim):
        out[i, i] = 1.0
    for k in range(dim):
        for j in range(k + 1):
            out[k, j] /= upper[k, k]
        for i in range(k + 1, dim):
            if upper[k, i] != 0.0:
                for j in range(k + 1):
                    out[i, j] -= upper[k, i] * out[k, j]
    for k in range(dim - 1, -1, -1):
        for i in range(k + 1, dim):
            if upper[k, i] != 0.0:
                for j in range(dim):
                    out[k, j] -= upper[k, i] * out[i, j]
        for j in range(dim):
            out[k, j] /= upper[k, k]


@jit
def quadratic(matrix: FloatArray, x: FloatArray, nonzero: IntArray) -> float:
    """Return x' M x of the symmetric `matrix (d, d)`, over the non-zero entries of x."""
    total = 0.0
    for n in range(nonzero.shape[0]):
        i = nonzero[n]
        row = 0.0
        for m in range(n):
            row += x[nonzero[m]] * matrix[i, nonzero[m]]
        total += x[i] * (x[i] * matrix[i, i] + 2.0 * row)
    return max(total, 0.0)
