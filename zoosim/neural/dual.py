"""The *dual* form: a history that is short against the number of parameters.

With K the inner products of the history's gradients and M = K + lambda diag(1 / weights) = L L', the variance at a row
of inner products k is k_ii - v'v with v = L^-1 k, and the mean v' L^-1 y. An observation adds a row to L. Nothing has
p entries: p = 9,601 needs the 394 factors of each observation.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from zoosim.core.arrays import resized
from zoosim.core.jit import jit
from zoosim.core.limits import NOT_NEGATIVE
from zoosim.core.state import Stateful, blank, saved_length
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.cholesky import extend, solve_lower
from zoosim.linear.dense import dot
from zoosim.neural.kernel import column, cross, noise_of, norm, weighted_gradients
from zoosim.neural.mlp import count_weights

ROUNDING = 1e-6
"""Largest distance of L L' from the kernel that rounding may cause, as a share of its largest entry."""

CHUNK = 64
"""Candidates that are solved for together."""


@jit
def _append(
    lower: FloatArray, target: FloatArray, n: int, products: FloatArray, corner: float, mean_reward: float
) -> None:
    """Write row n of L and of `target` = L^-1 y."""
    extend(lower, n, products, corner)
    # Forward substitution goes on where it stopped: a new row of L changes no earlier entry of L^-1 y.
    target[n] = (mean_reward - dot(lower[n, :n], target[:n])) / lower[n, n]


@jit
def _fit(
    lower: FloatArray, target: FloatArray, kernel: FloatArray, noise: float, weights: FloatArray, sums: FloatArray
) -> None:
    for i in range(weights.shape[0]):
        # The mean of w rewards has the noise of one divided by w.
        corner = kernel[i, i] + noise_of(noise / weights[i], kernel[i, i])
        _append(lower, target, i, kernel[i, :i], corner, sums[i] / weights[i])


@jit
def _theta(
    factors: FloatArray, lower: FloatArray, target: FloatArray, sizes: IntArray, first: int, out: FloatArray
) -> None:
    """Write G' M^-1 y `(p,)`: the step from today's weights to the posterior mean, as `target` = L^-1 y has it."""
    # Back substitution: L'^-1 (L^-1 y) = M^-1 y.
    weights = target.copy()
    for i in range(weights.shape[0] - 1, -1, -1):
        weights[i] /= lower[i, i]
        for j in range(i):
            weights[j] -= lower[i, j] * weights[i]
    weighted_gradients(factors, weights, sizes, first, out)


@jit
def _posterior(
    factors: FloatArray,
    lower: FloatArray,
    target: FloatArray,
    candidates: FloatArray,
    sizes: IntArray,
    first: int,
    means: FloatArray,
    variances: FloatArray,
) -> None:
    """Write mean and variance `(m,)` at `candidates (m, f)` given the history's `factors (n, f)`."""
    v = np.empty((factors.shape[0], candidates.shape[0]))
    cross(factors, candidates.T.copy(), sizes, first, v)
    solve_lower(lower, v)
    for j in range(means.shape[0]):
        means[j] = 0.0
        variances[j] = norm(candidates[j], sizes, first)
    for i in range(v.shape[0]):
        for j in range(means.shape[0]):
            means[j] += v[i, j] * target[i]
            variances[j] -= v[i, j] * v[i, j]
    for j in range(means.shape[0]):
        # k_ii - v'v cancels where much was seen nearby, and rounding may take it below 0.
        variances[j] = max(variances[j], 0.0)


class Dual(Stateful):
    """A history of n weighted observations, its kernel's Cholesky factor, and L^-1 y."""

    name: ClassVar[str] = "dual"
    learned = ("n", "factors", "lower", "target", "weights", "sums")
    weights: Annotated[FloatArray, NOT_NEGATIVE]

    def __init__(self, sizes: IntArray, first: int, noise: float) -> None:
        """`noise` is lambda; `first` the first layer whose gradient counts."""
        self.sizes = sizes
        self.first = first
        self.noise = noise
        self.n = 0
        width = int((sizes[1:] + sizes[:-1]).sum())
        self.factors = np.zeros((0, width))
        self.lower = np.zeros((0, 0))
        self.target, self.weights, self.sums = np.zeros((3, 0))
        self._theta: FloatArray | None = None

    @property
    def theta(self) -> FloatArray:
        """The posterior mean of the weights `(p,)`, counted from today's; computed when it is asked for."""
        if self._theta is None:
            self._theta = np.empty(count_weights(self.sizes[self.first :]))
            history = (self.factors[: self.n], self.lower[: self.n], self.target[: self.n])
            _theta(*history, self.sizes, self.first, self._theta)
        return self._theta

    def fit(self, factors: FloatArray, weights: FloatArray, sums: FloatArray) -> None:
        """Begin anew with observations of `factors (n, f)`, `weights (n,)` above 0 and weighted `sums (n,)`."""
        self.n = 0
        self._grow(len(factors))
        self.n = len(factors)
        self._theta = None
        self.factors[: self.n] = factors
        self.weights[: self.n] = weights
        self.sums[: self.n] = sums
        kernel = np.empty((self.n, self.n))
        cross(factors, np.ascontiguousarray(factors.T), self.sizes, self.first, kernel)
        _fit(self.lower, self.target, kernel, self.noise, weights, sums)

    def observe(self, factors: FloatArray, reward: float) -> None:
        """Add one observation: `factors (f,)` of its gradient."""
        self._grow(self.n + 1)
        products = np.empty(self.n)
        column(self.factors[: self.n], factors, self.sizes, self.first, products)
        length = norm(factors, self.sizes, self.first)
        _append(self.lower, self.target, self.n, products, length + noise_of(self.noise, length), reward)
        self.factors[self.n] = factors
        self.weights[self.n] = 1.0
        self.sums[self.n] = reward
        self.n += 1
        self._theta = None

    def posterior(self, candidates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance `(m,)` at `candidates (m, f)`."""
        means, variances = np.empty((2, len(candidates)))
        for i in range(0, len(candidates), CHUNK):
            part = slice(i, i + CHUNK)
            n = self.n
            history = (self.factors[:n], self.lower[:n], self.target[:n])
            _posterior(*history, candidates[part], self.sizes, self.first, means[part], variances[part])
        return means, variances

    def observations(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the history as `fit` takes it."""
        return self.factors[: self.n], self.weights[: self.n], self.sums[: self.n]

    def _sized_as(self, saved: Mapping[str, Any]) -> Mapping[str, Any]:
        room = saved_length(saved, "target")
        vectors = dict.fromkeys(("target", "weights", "sums"), blank(np.float64, room))
        factors = blank(np.float64, room, self.factors.shape[1])
        return {"factors": factors, "lower": blank(np.float64, room, room), **vectors}

    def _state_flaws(self, values: Mapping[str, Any]) -> Iterator[str]:
        """Yield what is wrong with a saved state: L L' must be the kernel of the factors and its noise."""
        n = values["n"]
        if n > len(values["weights"]):
            yield f"n is {n:,}, expected at most {len(values['weights']):,}"
            return
        factors = values["factors"][:n]
        weights = values["weights"][:n]
        if n and weights.min() <= 0.0:
            yield "weights holds 0, expected more"
            return
        kernel = np.empty((n, n))
        cross(factors, np.ascontiguousarray(factors.T), self.sizes, self.first, kernel)
        squares = np.diagonal(kernel).copy()
        noises = [noise_of(self.noise / weight, square) for weight, square in zip(weights, squares, strict=True)]
        kernel[np.diag_indices(n)] += noises
        lower = np.tril(values["lower"][:n, :n])
        off = np.abs(lower @ lower.T - kernel).max(initial=0.0)
        if not off <= ROUNDING * np.diagonal(kernel).max(initial=0.0) or (np.diagonal(lower) <= 0.0).any():
            yield "lower is no root of the kernel of factors"

    def _state_loaded(self) -> None:
        self._theta = None

    def _grow(self, needed: int) -> None:
        """Make room for `needed` observations, at least twice as many as before."""
        room = len(self.factors)
        if needed <= room:
            return
        # Doubled, so that copying costs a constant share of each observation.
        room = max(needed, 2 * room, 64)
        self.factors = resized(self.factors, room, self.factors.shape[1])
        self.lower = resized(self.lower, room, room)
        self.target = resized(self.target, room)
        self.weights = resized(self.weights, room)
        self.sums = resized(self.sums, room)
