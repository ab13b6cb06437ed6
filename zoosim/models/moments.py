"""Running means and variances of columns, to bring inputs and rewards to a common scale."""

from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.limits import COUNTS, NOT_NEGATIVE
from zoosim.core.types import FloatArray


class Moments(NamedTuple):
    """Moments of `seen (1,)` rows: `mean (d,)`, and the sum of `squares (d,)` of deviations from it."""

    seen: Annotated[FloatArray, COUNTS]
    mean: FloatArray
    squares: Annotated[FloatArray, NOT_NEGATIVE]

    @classmethod
    def none(cls, columns: int) -> "Moments":
        """Return the moments of no rows."""
        return cls(np.zeros(1), np.zeros(columns), np.zeros(columns))

    def joined(self, rows: FloatArray) -> "Moments":
        """Return the moments with `rows (n, d)` added (Chan, Golub & LeVeque 1983)."""
        seen = self.seen + len(rows)
        mean = rows.mean(axis=0)
        gap = mean - self.mean
        share = len(rows) / seen
        squares = self.squares + ((rows - mean) ** 2).sum(axis=0) + gap**2 * self.seen * share
        return Moments(seen, self.mean + gap * share, squares)

    def deviation(self) -> FloatArray:
        """Return the standard deviations `(d,)`, 1 where a column does not vary beyond rounding."""
        deviation: FloatArray = np.sqrt(self.squares / np.maximum(self.seen, 1))
        # Rounding in deviations from a mean is in proportion to the mean, so the bound is a share of it.
        return np.where(deviation > 1e-9 * np.maximum(np.abs(self.mean), 1e-3), deviation, 1.0)
