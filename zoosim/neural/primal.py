"""The *primal* form: A^-1 `(p, p)` itself, for a history that is long against the number of parameters.

An observation is a Sherman-Morrison step in place, O(p^2); a candidate costs g' A^-1 g. Both use the upper half alone.
The sums A stand in the half below, and the inverse is made anew from them every max(64, p) observations, so that
rounding cannot add up.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import covariance_flaws
from zoosim.core.state import Stateful
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.cholesky import invert_lower_half
from zoosim.linear.dense import add_matrix, add_product, copy_vector, dot
from zoosim.neural.kernel import noise_of
from zoosim.neural.mlp import expand

MIN_PERIOD = 64
CHUNK = 64
"""Gradients that are held at once."""


@jit
def kept(g: FloatArray, weights: FloatArray, noise: float) -> FloatArray:
    """Return what of the `weights (n,)` of observations with gradients `g (n, p)` counts: 1 unless noise is raised."""
    keep = np.ones(g.shape[0])
    for n in range(g.shape[0]):
        if weights[n] > 0.0:
            own_noise = noise / weights[n]
            # An observation with its noise raised counts as one with its weight lowered by the same factor.
            keep[n] = own_noise / noise_of(own_noise, dot(g[n], g[n]))
    return keep


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
def _accumulate_rows(square: FloatArray, b: FloatArray, g: FloatArray, weights: FloatArray, sums: FloatArray) -> None:
    """Do `_accumulate` for all rows of `g (n, p)`, four rows of the sums at a time."""
    size = b.shape[0]
    part = np.empty(4 * b.shape[0])
    # Features as rows: four rows of the sums are then one call of `add_matrix` over all gradients.
    left = np.empty((size, g.shape[0]))
    for n in range(g.shape[0]):
        for i in range(size):
            left[i, n] = weights[n] * g[n, i]
            b[i] += sums[n] * g[n, i]
    for i in range(0, size, 4):
        end = min(i + 4, size)
        block = part[: (end - i) * end].reshape(end - i, end)
        block[:] = 0.0
        add_matrix(left[i:end], g, block)
        for j in range(i, end):
            square[j + 1, : j + 1] += block[j - i, : j + 1]


@jit
def _rebuild(square: FloatArray, b: FloatArray, theta: FloatArray, noise: float) -> None:
    """Write the inverse of A, upper half, and theta = A^-1 b, from the sums in the lower half of `square`."""
    size = b.shape[0]
    a = np.empty((size, size))
    inverse = np.empty((size, size))
    for i in range(size):
        copy_vector(square[i + 1, : i + 1], a[i, : i + 1])
        a[i, i] += noise
    invert_lower_half(a, noise, inverse)
    theta[:] = 0.0
    for i in range(size):
        copy_vector(inverse[i, i:], square[i, i:])
        # Row i serves as row and as column, as in `_rank_one`.
        theta[i] += dot(inverse[i, i:], b[i:])
        theta[i + 1 :] += inverse[i, i + 1 :] * b[i]


@jit
def _rank_one(square: FloatArray, theta: FloatArray, g: FloatArray, reward: float) -> None:
    """Follow A <- A + g g' and b <- b + reward g in the inverse and in theta."""
    size = g.shape[0]
    v = np.zeros(size)
    for i in range(size):
        # A^-1 g from the upper half: row i gives entry i its right part, and entries behind it their left part.
        v[i] += square[i, i] * g[i] + dot(square[i, i + 1 :], g[i + 1 :])
        if g[i] != 0.0:
            add_product(g[i : i + 1], square[i : i + 1, i + 1 :], v[i + 1 :])
    # Sherman & Morrison, as in `zoosim.linear.ridge.follow`; g' A^-1 g is not negative but for rounding.
    total = 1.0 + max(dot(v, g), 0.0)
    error = (reward - dot(theta, g)) / total
    for i in range(size):
        theta[i] += v[i] * error
        scale = v[i] / total
        for j in range(i, size):
            square[i, j] -= scale * v[j]


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
    size = theta.shape[0]
    gradients = np.empty((candidates.shape[0], size))
    half = np.empty((4, candidates.shape[0]))
    for n in range(candidates.shape[0]):
        expand(candidates[n], sizes, first, gradients[n])
        means[n] = dot(gradients[n], theta)
        variances[n] = 0.0
    columns = gradients.T.copy()
    for i in range(0, size, 4):
        end = min(i + 4, size)
        half[:] = 0.0
        add_matrix(square[i:end, end:], columns[end:], half[: end - i])
        for j in range(i, end):
            for k in range(j + 1, end):
                half[j - i] += square[j, k] * columns[k]
            # Of the symmetric matrix the upper half is read, and counts twice.
            variances += columns[j] * (square[j, j] * columns[j] + 2.0 * half[j - i])
    for n in range(candidates.shape[0]):
        variances[n] = noise * max(variances[n], 0.0)


class Primal(Stateful):
    """A^-1 and the sums behind it in one `square (p + 1, p)`: A^-1 on and above the diagonal, sums a row below it."""

    name: ClassVar[str] = "primal"
    learned = ("square", "b", "theta", "age")

    def __init__(self, sizes: IntArray, first: int, noise: float) -> None:
        """`noise` is lambda; `first` the first layer whose gradient counts."""
        self.sizes = sizes
        self.first = first
        self.noise = noise
        size = int((sizes[first + 1 :] * (sizes[first:-1] + 1)).sum())
        self.square = np.zeros((size + 1, size))
        self.age = 0
        self.b, self.theta = np.zeros((2, size))
        self.square[np.arange(size), np.arange(size)] = 1.0 / noise

    def fit(self, factors: FloatArray, weights: FloatArray, sums: FloatArray) -> None:
        """Begin anew with observations of `factors (n, f)`, `weights (n,)` above 0 and weighted `sums (n,)`."""
        self.square[:] = 0.0
        self.b[:] = 0.0
        for i in range(0, len(factors), CHUNK):
            part = slice(i, i + CHUNK)
            g = np.empty((len(factors[part]), len(self.b)))
            for row, out in zip(factors[part], g, strict=True):
                expand(row, self.sizes, self.first, out)
            keep = kept(g, weights[part], self.noise)
            _accumulate_rows(self.square, self.b, g, keep * weights[part], keep * sums[part])
        self._rebuild()

    def observe(self, factors: FloatArray, reward: float) -> None:
        """Add one observation: `factors (f,)` of its gradient."""
        g = np.empty(len(self.b))
        expand(factors, self.sizes, self.first, g)
        [keep] = kept(g.reshape(1, -1), np.ones(1), self.noise)
        _accumulate(self.square, self.b, g, keep, keep * reward)
        # After the sums, from which a rebuild takes this observation, too.
        self.age += 1
        if self.age >= max(MIN_PERIOD, len(g)):
            self._rebuild()
        else:
            # With the root of a weight on both, A and b move by the weight.
            _rank_one(self.square, self.theta, np.sqrt(keep) * g, np.sqrt(keep) * reward)

    def posterior(self, candidates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance `(m,)` at `candidates (m, f)`."""
        means, variances = np.empty((2, len(candidates)))
        layers = (self.sizes, self.first, self.noise)
        for i in range(0, len(candidates), CHUNK):
            part = slice(i, i + CHUNK)
            _posterior(self.square, self.theta, candidates[part], *layers, means[part], variances[part])
        return means, variances

    def _state_flaws(self, values: Mapping[str, Any]) -> Iterator[str]:
        inverse = np.triu(values["square"][:-1])
        sums = np.tril(values["square"][1:])
        yield from covariance_flaws("square", inverse + np.triu(inverse, 1).T, 1.0 / self.noise)
        yield from covariance_flaws("square", sums + np.tril(sums, -1).T)

    def _rebuild(self) -> None:
        _rebuild(self.square, self.b, self.theta, self.noise)
        self.age = 0
