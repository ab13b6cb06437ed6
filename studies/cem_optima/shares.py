"""The interval of a share."""

from collections.abc import Sequence

import numpy as np

from zoosim.core.statistics import Interval, share_intervals
from zoosim.core.types import FloatArray


def share_interval(hits: Sequence[bool] | Sequence[float] | FloatArray) -> Interval:
    """Return the share of `hits (n,)` that are true with its 95% interval (Wilson 1927), never empty at 0 or 1."""
    array = np.asarray(hits, float)
    if len(array) < 2:
        return Interval(float(array.mean()), None, None)
    (low,), (high,) = share_intervals(array.sum(keepdims=True).astype(np.int64), len(array))
    return Interval(float(array.mean()), max(0.0, float(low)), min(1.0, float(high)))
