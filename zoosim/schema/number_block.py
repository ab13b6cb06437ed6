"""The columns of numbers of an encoder, encoded together: one at a time, 60 of them take as long as a decision."""

from collections.abc import Mapping, Sequence
from itertools import compress
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.types import FloatArray
from zoosim.schema.number_columns import FAR, NumberColumn
from zoosim.schema.values import LARGEST_NUMBER

FEWEST = 8
"""Columns from which on they are encoded together: of fewer, a call of numpy takes as long as all of them."""

PLAIN = {float, int}
"""Types of values that need no further look. Truth is a type of its own, though it would pass for a whole number."""


class Numbers(NamedTuple):
    """Numbers `(n,)` as they are `given`, and `clipped` to the ranges of their columns."""

    given: FloatArray
    clipped: FloatArray
    n_clipped: int


class NumberBlock:
    """Columns of numbers, for visitors and products of whom each of them is given as a number.

    What it returns of them is to the bit what the columns return one by one.

    Attributes:
        names: The names of the columns; none where there are too few.
    """

    def __init__(self, columns: Sequence[NumberColumn], places: Sequence[int]) -> None:
        """Take the columns, and the place of each among the features of the encoder."""
        if len(columns) < FEWEST:
            columns = places = ()
        self._names = [column.name for column in columns]
        self.names = frozenset(self._names)
        self._values_of = itemgetter(*self._names) if columns else None
        self._places = np.array(places, np.int64)
        self._low = np.array([column.low for column in columns])
        self._high = np.array([column.high for column in columns])
        self._center = np.array([column.center for column in columns])
        self._scale = np.array([column.scale for column in columns])
        beyond = FAR * (self._high - self._low)
        self._far_low = self._low - beyond
        self._far_high = self._high + beyond
        self._logs = np.flatnonzero([column.log for column in columns])

    def read(self, values: Mapping[str, Any]) -> Numbers | None:
        """Return the numbers of a visitor or product; None where one is not given, or as something else."""
        if self._values_of is None:
            return None
        try:
            values_given = self._values_of(values)
        except KeyError:
            return None
        if not PLAIN.issuperset(map(type, values_given)):
            return None
        try:
            given = np.array(values_given, float)
        except OverflowError:  # a whole number beyond floats
            return None
        clipped = np.minimum(np.maximum(given, self._low), self._high)
        n_clipped = int(np.count_nonzero(clipped != given))
        # Not larger than what is a number here; NaN, which is no number, differs from itself.
        if n_clipped and not np.abs(given).max() <= LARGEST_NUMBER:
            return None
        return Numbers(given, clipped, n_clipped)

    def encode(self, numbers: Numbers, features: FloatArray) -> None:
        """Write the features of numbers to their places in zeros `features (d,)`."""
        scaled = numbers.clipped
        if len(self._logs):
            scaled = scaled.copy()
            scaled[self._logs] = np.log(scaled[self._logs])
        features[self._places] = (scaled - self._center) / self._scale + 0.0  # -0.0 is 0.0

    def are_expressed(self, numbers: Numbers) -> bool:
        """Return whether no number lies far beyond its range."""
        if not numbers.n_clipped:
            return True
        return bool(((self._far_low <= numbers.given) & (numbers.given <= self._far_high)).all())

    def clipped(self, numbers: Numbers) -> list[str]:
        """Return the columns of which numbers are clipped."""
        return list(compress(self._names, numbers.clipped != numbers.given)) if numbers.n_clipped else []
