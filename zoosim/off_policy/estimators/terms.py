"""Terms of every estimator: a mean, and perhaps a ratio of two means beside it."""

from typing import NamedTuple

import numpy as np

from zoosim.core.errors import DataError
from zoosim.core.types import FloatArray


class Terms(NamedTuple):
    """The rows' shares in an estimate: mean(base) + mean(top) / mean(bottom), each `(n,)`; without a ratio, None.

    Intervals need no more than this, so they are the same for all estimators.
    """

    base: FloatArray
    top: FloatArray | None = None
    bottom: FloatArray | None = None

    @property
    def value(self) -> float:
        """Return the estimate; NaN when a ratio's bottom sums to 0."""
        mean = float(self.base.mean())
        if self.top is None or self.bottom is None:
            return mean
        bottom = float(self.bottom.sum())
        return mean + float(self.top.sum()) / bottom if bottom else float("nan")

    def influence(self) -> FloatArray:
        """Return each row's influence on the estimate `(n,)`, of mean 0: its linearisation (Hampel 1974)."""
        shares: FloatArray = self.base - self.base.mean()
        if self.top is None or self.bottom is None:
            return shares
        bottom = self.bottom.mean()
        # T / B moves by (t_i - (T / B) b_i) / B to first order (delta method).
        shares += (self.top - self.top.mean() / bottom * self.bottom) / bottom
        return shares


def check_arrays(**arrays: FloatArray) -> None:
    """Refuse arrays of different shapes, empty ones, NaN and infinity; `weights` below 0, too. Raises `DataError`."""
    shape = next(iter(arrays.values())).shape
    for name, array in arrays.items():
        if array.shape != shape or not array.size:
            raise DataError(f"{name}: got shape {array.shape}, expected {shape} as the others, and at least one row")
        # One sum tells of any NaN or infinity; rows are searched only then. A sum that overflows is refused as well.
        if not np.isfinite(array.sum()):
            row = np.argwhere(~np.isfinite(array))
            where = f" in row {row[0][0]}" if len(row) else ""
            raise DataError(f"{name}: got NaN or infinity{where}, expected finite numbers")
        if name.endswith("weights") and array.min() < 0.0:
            raise DataError(f"{name}: got {array.min():g} in row {int(array.argmin())}, expected 0 or more")
