"""The *primal* form: A^-1 `(p, p)` itself, for a history that is long against the number of parameters.

An observation is a Sherman-Morrison step in place, O(p^2); a candidate costs g' A^-1 g. Both use the upper half alone
and skip rows where g is 0: with ReLU half of them, which leaves a quarter of the work. The sums A stand in the half
below, and the inverse is made anew from them every max(64, p) observations, so that rounding cannot add up.
"""

from typing import ClassVar

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import add_product, dot
from zoosim.linear.ridge import invert
from zoosim.models.mlp import expand

MIN_PERIOD = 64


@jit
def _accumulate(square: FloatArray, b: FloatArray, g: FloatArray, weight: float, total: float) -> None:
    """Add weight g g' to the sums below the diagonal of `square (p + 1, p)`, and total g to `b (p,)`."""
    for i in range(g.shape[0]):
        scale = weight * g[i]
        if scale != 0.0:
            b[i] += total * g[i]
            for j in range(i + 1):
                square[i + 1, j] += scale * g[j]


@jit
def _rebuild(square: FloatArray, b: FloatArray, theta: FloatArray, noise: float) -> None:
    """Write the inverse of A, upper half, and theta = A^-1 b, from the sums in the lower half of `square`."""
    size = b.shape[0]
    a, inverse = np.zeros((size, size)), np.empty((size, size))
    for i in range(size):
        for j in range(i, size):
            a[i, j] = square[j + 1, i]
        a[i, i] += noise
    invert(a, inverse)
    for i in range(size):
        theta[i] = dot(inverse[i], b)
        for j in range(i, size):
            square[i, j] = inverse[i, j]


@jit
def _rank_one(square: FloatArray, theta: FloatArray, g: FloatArray, reward: float) -> None:
    """Follow A <- A + g g' and b <- b + reward g in the inverse and in theta."""
    size = g.shape[0]
    v = np.zeros(size)
    for i in range(size):
        v[i] += square[i, i] * g[i] + dot(square[i, i + 1 :], g[i + 1 :])
        if g[i] != 0.0:
            add_product(g[i : i + 1], square[i : i + 1, i + 1 :], v[i + 1 :])
    total = 1.0 + max(dot(v, g), 0.0)
    error = (reward - dot(theta, g)) / total
    for i in range(size):
        theta[i] += v[i] * error
        scale = v[i] / total
        for j in range(i, size):
            square[i, j] -= scale * v[j]


@jit
def quadratic(square: FloatArray, g: FloatArray) -> float:
    """Return g' A^-1 g from the upper half, the non-zero entries of `g (p,)` four rows at a time."""
    size, count, total, n = g.shape[0], 0, 0.0, 0
    where, half = np.empty(size, np.int64), np.zeros(size)
    for i in range(size):
        if g[i] != 0.0:
            where[count] = i
            count += 1
    while n < count:
        end = min(n + 4, count)
        for x in range(n, end):
            i = where[x]
            total += g[i] * g[i] * square[i, i]
            for y in range(x + 1, end):
                total += 2.0 * g[i] * g[where[y]] * square[i, where[y]]
        if end == n + 4:
            i, j, k, m = where[n], where[n + 1], where[n + 2], where[n + 3]
            a, b, c, d = g[i], g[j], g[k], g[m]
            for column in range(m + 1, size):
                upper = a * square[i, column] + b * square[j, column]
                half[column] += upper + (c * square[k, column] + d * square[m, column])
        n += 4
    return max(total + 2.0 * dot(half, g), 0.0)


@jit
def _posterior(
    square: FloatArray,
    theta: FloatArray,
    candidates: FloatArray,
    sizes: IntArray,
    first: int,
    noise: float,
    means: FloatArray,
    variances: FloatArray,
) -> None:
    g = np.empty(theta.shape[0])
    for n in range(candidates.shape[0]):
        expand(candidates[n], sizes, first, g)
        means[n] = dot(g, theta)
        variances[n] = noise * quadratic(square, g)


class Primal:
    """A^-1 and the sums behind it in one `square (p + 1, p)`: A^-1 on and above the diagonal, sums a row below it."""

    name: ClassVar[str] = "primal"
    saved: ClassVar[tuple[str, ...]] = ("square", "b", "theta", "age")

    def __init__(self, sizes: IntArray, first: int, noise: float) -> None:
        """`noise` is lambda; `first` the first layer whose gradient counts."""
        self.sizes, self.first, self.noise = sizes, first, noise
        size = int((sizes[first + 1 :] * (sizes[first:-1] + 1)).sum())
        self.square, self.age = np.zeros((size + 1, size)), 0
        self.b, self.theta = np.zeros((2, size))
        self.square[np.arange(size), np.arange(size)] = 1.0 / noise

    def fit(self, factors: FloatArray, weights: FloatArray, sums: FloatArray) -> None:
        """Begin anew with observations of `factors (n, f)`, `weights (n,)` above 0 and weighted `sums (n,)`."""
        self.square[:], self.b[:] = 0.0, 0.0
        g = np.empty(len(self.b))
        for row, weight, total in zip(factors, weights, sums, strict=True):
            expand(row, self.sizes, self.first, g)
            _accumulate(self.square, self.b, g, weight, total)
        self._rebuild()

    def observe(self, factors: FloatArray, reward: float) -> None:
        """Add one observation: `factors (f,)` of its gradient."""
        g = np.empty(len(self.b))
        expand(factors, self.sizes, self.first, g)
        _accumulate(self.square, self.b, g, 1.0, reward)
        self.age += 1
        if self.age >= max(MIN_PERIOD, len(g)):
            self._rebuild()
        else:
            _rank_one(self.square, self.theta, g, reward)

    def posterior(self, candidates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance `(m,)` at `candidates (m, f)`."""
        means, variances = np.empty((2, len(candidates)))
        layers = (self.sizes, self.first, self.noise)
        _posterior(self.square, self.theta, candidates, *layers, means, variances)
        return means, variances

    def _rebuild(self) -> None:
        _rebuild(self.square, self.b, self.theta, self.noise)
        self.age = 0
