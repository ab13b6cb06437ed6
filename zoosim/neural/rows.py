"""The *rows* form: the posterior over few distinct rows, whatever the number of observations.

All that decisions ask of A^-1 is Sigma = lambda G A^-1 G' over the U rows that ever come up, and an observation of row
j is Sigma -= Sigma_j Sigma_j' / (lambda + Sigma_jj): O(U^2), with no parameter in it.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import covariance_flaws
from zoosim.core.state import Stateful, blank, saved_length
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.cholesky import extend, solve_lower, solve_upper
from zoosim.linear.dense import copy_vector, dot
from zoosim.neural.kernel import cross, noise_of

MIN_PERIOD = 64


@jit
def condition(
    prior: FloatArray, counts: FloatArray, sums: FloatArray, noise: float, mean: FloatArray, spread: FloatArray
) -> None:
    """Write the posterior `mean (U,)` and covariance `spread (U, U)` given `counts (U,)` observations of each row.

    With h the rows of a positive count, M = K_hh + noise diag(1 / counts) and y = sums / counts, the mean is
    K_h' M^-1 y and the covariance K - K_h' M^-1 K_h. For rows in h that difference is noise diag(1 / counts) M^-1 K_h,
    where nothing cancels.
    """
    seen = np.flatnonzero(counts > 0.0)
    n = seen.shape[0]
    size = prior.shape[0]
    lower = np.empty((n, n))
    right = np.empty((n, size + 1))
    noises = np.empty(n)
    for i in range(n):
        # `counts` equal observations are one, of their mean reward, with the noise divided by their number.
        noises[i] = noise_of(noise / counts[seen[i]], prior[seen[i], seen[i]])
        copy_vector(prior[seen[i]], right[i, :size])
        # One column more for y, so that L is run through once for both.
        right[i, size] = sums[seen[i]] / counts[seen[i]]
        extend(lower, i, prior[seen[i]][seen[:i]], prior[seen[i], seen[i]] + noises[i])
    solve_lower(lower, right)
    _subtract(prior, right, mean, spread)
    solve_upper(lower, right)
    for i in range(n):
        row = seen[i]
        for j in range(size):
            # Each pair once: of two observed rows, from the one with the higher number.
            if counts[j] == 0.0 or j <= row:
                spread[row, j] = noises[i] * right[i, j]
                spread[j, row] = spread[row, j]


@jit
def _subtract(prior: FloatArray, right: FloatArray, mean: FloatArray, spread: FloatArray) -> None:
    """Write V'w to `mean` and K - V'V to `spread`, where `right (n, U + 1)` holds V = L^-1 K_h and w = L^-1 y."""
    columns = right.T.copy()
    size = mean.shape[0]
    for i in range(size):
        mean[i] = dot(columns[i], columns[size])
        for j in range(i + 1):
            spread[i, j] = prior[i, j] - dot(columns[i], columns[j])
            spread[j, i] = spread[i, j]


@jit
def observe_row(mean: FloatArray, spread: FloatArray, row: int, reward: float, noise: float) -> None:
    """Follow one observation of `row` in `mean (U,)` and `spread (U, U)`."""
    column = spread[row].copy()
    # A Gaussian posterior given one more observation of variance lambda: gain = column / (lambda + Sigma_jj).
    total = noise + max(spread[row, row], 0.0)
    error = (reward - mean[row]) / total
    for i in range(column.shape[0]):
        mean[i] += column[i] * error
        scale = column[i] / total
        for j in range(column.shape[0]):
            spread[i, j] -= scale * column[j]


class RowPosterior(Stateful):
    """The posterior mean and covariance over U distinct rows, made anew from their counts every max(64, U) pulls."""

    name: ClassVar[str] = "rows"
    learned = ("prior", "mean", "spread", "age")
    prior: Annotated[FloatArray, covariance_flaws]

    def __init__(self, sizes: IntArray, first: int, noise: float) -> None:
        """`noise` is lambda; `first` the first layer whose gradient counts."""
        self.sizes = sizes
        self.first = first
        self.noise = noise
        self.prior = np.zeros((0, 0))
        self.mean = np.zeros(0)
        self.spread = np.zeros((0, 0))
        self.age = 0

    def fit(self, factors: FloatArray, counts: FloatArray, sums: FloatArray) -> None:
        """Begin anew with rows whose gradients have `factors (U, f)`, observed `counts (U,)` times with `sums (U,)`."""
        self.prior = np.empty((len(factors), len(factors)))
        cross(factors, np.ascontiguousarray(factors.T), self.sizes, self.first, self.prior)
        self.mean = np.zeros(len(factors))
        self.spread = np.zeros_like(self.prior)
        self.rebuild(counts, sums)

    def rebuild(self, counts: FloatArray, sums: FloatArray) -> None:
        """Compute the posterior from `counts (U,)` and `sums (U,)`, which takes off what rounding has added up."""
        condition(self.prior, counts, sums, self.noise, self.mean, self.spread)
        self.age = 0

    def observe(self, row: int, reward: float, counts: FloatArray, sums: FloatArray) -> None:
        """Learn from one observation of `row`, which `counts` and `sums` hold already."""
        self.age += 1
        if self.age >= max(MIN_PERIOD, len(self.mean)):
            self.rebuild(counts, sums)
        else:
            observe_row(self.mean, self.spread, row, reward, self.noise)

    def _sized_as(self, saved: Mapping[str, Any]) -> Mapping[str, Any]:
        n = saved_length(saved, "mean")
        square = blank(np.float64, n, n)
        return {"prior": square, "mean": blank(np.float64, n), "spread": square}

    def _state_flaws(self, values: Mapping[str, Any]) -> Iterator[str]:
        yield from covariance_flaws("spread", values["spread"], float(np.diagonal(values["prior"]).max(initial=0.0)))

    def posterior(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance `(m,)` of `rows (m,)`."""
        return self.mean[rows], np.maximum(self.spread[rows, rows], 0.0)
