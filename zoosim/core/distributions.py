"""Distributions of policies over the products of many rows, compressed: each row holds its own products alone."""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray


class Distributions(NamedTuple):
    """Probabilities of m rows, each over some of a catalogue's products; rows that are alike may share theirs.

    In row i, product `products[first[i] + j]` has the probability `probabilities[starts[i] + j]`, for each j below
    `lengths[i]`; products that the row does not hold have none. Without `products` each row is dense: over all
    products of the catalogue, in order.
    """

    probabilities: FloatArray
    starts: IntArray
    lengths: IntArray
    products: IntArray
    first: IntArray

    @classmethod
    def dense(cls, probabilities: FloatArray) -> "Distributions":
        """Return the rows of `probabilities (m, K)`; one row `(1, K)` may stand for many by `rows`."""
        rows, width = probabilities.shape
        starts = np.arange(rows) * width
        flat = np.ascontiguousarray(probabilities, np.float64).reshape(-1)
        return cls(flat, starts, np.full(rows, width), np.zeros(0, np.int32), np.zeros(rows, np.int64))

    @classmethod
    def over(cls, products: IntArray, first: IntArray, lengths: IntArray, probabilities: FloatArray) -> "Distributions":
        """Return rows over products that are listed, whose `probabilities (c,)` stand one row after another."""
        starts = np.cumsum(lengths) - lengths
        return cls(np.ascontiguousarray(probabilities, np.float64), starts, lengths, products, first)

    @property
    def are_dense(self) -> bool:
        """True where each row is over all products."""
        return not len(self.products)

    def rows(self, chosen: IntArray | slice) -> "Distributions":
        """Return the `chosen` rows, which share their probabilities with these."""
        return self._replace(starts=self.starts[chosen], lengths=self.lengths[chosen], first=self.first[chosen])

    def matrix(self, n_products: int) -> FloatArray:
        """Return the probabilities of all products `(m, n_products)`."""
        if self.are_dense:
            return np.asarray(self.probabilities.reshape(-1, n_products)[self.starts // n_products])
        out = np.zeros((len(self.starts), n_products))
        _scatter(self, out)
        return out

    def flat(self) -> FloatArray:
        """Return the probabilities, one row after another `(c,)`."""
        if not len(self.starts):
            return self.probabilities[:0]
        return np.concatenate([self.probabilities[a : a + n] for a, n in zip(self.starts, self.lengths, strict=True)])


@jit
def _scatter(rows: Distributions, out: FloatArray) -> None:
    for i in range(out.shape[0]):
        for j in range(rows.lengths[i]):
            out[i, rows.products[rows.first[i] + j]] = rows.probabilities[rows.starts[i] + j]


@jit
def draw_products(rows: Distributions, uniforms: FloatArray, out: IntArray) -> None:
    """Write `out (m, d)` products to each row's line, drawn by uniforms in [0, 1) `(m,)`.

    Policies with the same probabilities draw the same products. A row's draws are spread over [0, 1), which makes their
    mean less noisy than that of independent ones (systematic sampling).
    """
    is_listed = rows.products.shape[0] > 0
    for i in range(out.shape[0]):
        start = rows.starts[i]
        length = rows.lengths[i]
        total = 0.0
        for j in range(length):
            total += rows.probabilities[start + j]
        for number in range(out.shape[1]):
            point = (uniforms[i] + number / out.shape[1]) % 1.0 * total
            place = 0
            cumulative = rows.probabilities[start]
            # The last product also stands for a point that rounding leaves behind all of them.
            while cumulative <= point and place < length - 1:
                place += 1
                cumulative += rows.probabilities[start + place]
            out[i, number] = rows.products[rows.first[i] + place] if is_listed else place
