"""The spread of numbers in five percentiles, as descriptions of worlds give it."""

from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray

LEVELS = (5, 25, 50, 75, 95)


class Spread(NamedTuple):
    """Percentiles 5, 25, 50, 75 and 95 of numbers."""

    low: float
    quarter: float
    median: float
    three_quarters: float
    high: float


def spread_of(values: FloatArray) -> Spread:
    """Return the spread of `values (n,)`, n at least 1."""
    return Spread(*np.percentile(values, LEVELS).tolist())
