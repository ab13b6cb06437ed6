"""Terms of every estimator: a mean, and perhaps a ratio of two means beside it."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.blocks import row_blocks
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
    def n_rows(self) -> int:
        """Count the rows."""
        return len(self.base)

    def at(self, rows: Any) -> "Terms":
        """Return the terms of some rows, by a slice or their numbers."""
        if self.top is None or self.bottom is None:
            return Terms(self.base[rows])
        return Terms(self.base[rows], self.top[rows], self.bottom[rows])

    @property
    def value(self) -> float:
        """Return the estimate; NaN when a ratio's bottom sums to 0."""
        return totals_of(self).value

    def influence(self) -> FloatArray:
        """Return each row's influence on the estimate `(n,)`, of mean 0: its linearisation (Hampel 1974)."""
        return totals_of(self).influence(self)


class TermsByRow:
    """Terms of `n_rows` rows that are computed for some of them at a time.

    Args:
        n_rows: How many rows there are.
        at: Returns the terms of some of them, by a slice or their numbers.
    """

    def __init__(self, n_rows: int, at: Callable[[Any], Terms]) -> None:
        self.n_rows = n_rows
        self.at = at

    @cached_property
    def value(self) -> float:
        """The estimate; NaN when a ratio's bottom sums to 0."""
        return totals_of(self).value


RowTerms = Terms | TermsByRow


class Totals(NamedTuple):
    """Sums over `n` rows of the terms of an estimate; without a ratio `top` and `bottom` are None."""

    n: float
    base: float
    top: float | None = None
    bottom: float | None = None

    @property
    def value(self) -> float:
        """Return the estimate; NaN when a ratio's bottom sums to 0."""
        mean = self.base / self.n
        if self.top is None or self.bottom is None:
            return mean
        return mean + self.top / self.bottom if self.bottom else float("nan")

    def influence(self, terms: Terms) -> FloatArray:
        """Return the influence of rows on the estimate, given their `terms` (Hampel 1974)."""
        shares: FloatArray = terms.base - self.base / self.n
        if terms.top is None or terms.bottom is None or self.top is None or self.bottom is None:
            return shares
        bottom = self.bottom / self.n
        # T / B moves by (t_i - (T / B) b_i) / B to first order (delta method).
        shares += (terms.top - self.top / self.n / bottom * terms.bottom) / bottom
        return shares


def totals_of(terms: RowTerms) -> Totals:
    """Return the sums over all rows of an estimate's terms."""
    base = top = bottom = 0.0
    has_ratio = False
    for rows in row_blocks(terms.n_rows):
        block = terms.at(rows)
        base += float(block.base.sum())
        if block.top is not None and block.bottom is not None:
            has_ratio = True
            top += float(block.top.sum())
            bottom += float(block.bottom.sum())
    return Totals(terms.n_rows, base, top, bottom) if has_ratio else Totals(terms.n_rows, base)


def divides_by_nothing(terms: RowTerms) -> bool:
    """Return whether an estimate is a ratio whose bottom is 0 in all rows."""
    for rows in row_blocks(terms.n_rows):
        bottom = terms.at(rows).bottom
        if bottom is None or bottom.any():
            return False
    return True


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
