"""Forms of NeuralUCB's matrix to compare with: an explicit Jacobian, and the diagonal of A that was published as code.

Source: Zhou, Li & Gu (2020), whose code keeps the diagonal alone.
"""

from typing import ClassVar

import numpy as np

from zoosim.core.types import FloatArray, IntArray
from zoosim.neural.mlp import expand
from zoosim.neural.primal import kept


def jacobian(factors: FloatArray, sizes: IntArray) -> FloatArray:
    """Return the gradients `(n, p)` that the rows of `factors (n, f)` stand for."""
    out = np.empty((len(factors), int((sizes[1:] * (sizes[:-1] + 1)).sum())))
    for row, target in zip(factors, out, strict=True):
        expand(row, sizes, 0, target)
    return out


class Jacobian:
    """A `(p, p)` from explicit gradients, and its inverse by LAPACK whenever a decision finds that it has changed.

    Exact, and what a batched Jacobian alone gains over a loop. Its last bits depend on the library.
    """

    name: ClassVar[str] = "jacobian"
    saved: ClassVar[dict[str, str]] = {"a": "pp", "b": "p"}

    def __init__(self, sizes: IntArray, noise: float) -> None:
        """`noise` is lambda."""
        self.sizes, self.noise = sizes, noise
        size = int((sizes[1:] * (sizes[:-1] + 1)).sum())
        self.a, self.b = noise * np.eye(size), np.zeros(size)
        self._inverse: FloatArray | None = None

    def fit(self, factors: FloatArray, weights: FloatArray, sums: FloatArray) -> None:
        """Begin anew with observations of `factors (n, f)`, `weights (n,)` and weighted `sums (n,)`."""
        gradients = jacobian(factors, self.sizes)
        keep = kept(gradients, weights, self.noise)
        weights, sums = keep * weights, keep * sums
        self.a = self.noise * np.eye(len(self.b)) + (gradients.T * weights) @ gradients
        self.b, self._inverse = gradients.T @ sums, None

    def observe(self, factors: FloatArray, reward: float) -> None:
        """Add one observation: `factors (f,)` of its gradient."""
        gradients = jacobian(factors.reshape(1, -1), self.sizes)
        [keep], [gradient] = kept(gradients, np.ones(1), self.noise), gradients
        self.a += keep * np.outer(gradient, gradient)
        self.b += keep * reward * gradient
        self._inverse = None

    def posterior(self, candidates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance `(m,)` at `candidates (m, f)`."""
        if self._inverse is None:
            self._inverse = np.linalg.inv(self.a).astype(np.float64, copy=False)
        gradients = jacobian(candidates, self.sizes)
        solved = gradients @ self._inverse
        return solved @ self.b, self.noise * np.maximum((solved * gradients).sum(axis=1), 0.0)


class Diagonal:
    """The diagonal of A alone: sums over parameters, no matrix. What it leaves out makes its bonus another one.

    The published code of both papers does so. Its means are those of no posterior: use the network's.
    """

    name: ClassVar[str] = "diagonal"
    saved: ClassVar[dict[str, str]] = {"diagonal": "p"}

    def __init__(self, sizes: IntArray, noise: float) -> None:
        """`noise` is lambda."""
        self.sizes, self.noise = sizes, noise
        self.diagonal = np.full(int((sizes[1:] * (sizes[:-1] + 1)).sum()), noise)

    def fit(self, factors: FloatArray, weights: FloatArray, sums: FloatArray) -> None:
        """Begin anew with observations of `factors (n, f)` and `weights (n,)`."""
        self.diagonal = self.noise + (jacobian(factors, self.sizes) ** 2 * weights[:, None]).sum(axis=0)

    def observe(self, factors: FloatArray, reward: float) -> None:
        """Add one observation: `factors (f,)` of its gradient."""
        self.diagonal += jacobian(factors.reshape(1, -1), self.sizes)[0] ** 2

    def posterior(self, candidates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means of 0 and variances `(m,)` at `candidates (m, f)`."""
        variances = self.noise * (jacobian(candidates, self.sizes) ** 2 / self.diagonal).sum(axis=1)
        return np.zeros(len(candidates)), variances
