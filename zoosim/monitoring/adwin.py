"""ADWIN: a window as long as its mean is constant (Bifet & Gavalda 2007, ADWIN2).

The window is an exponential histogram: row r holds at most 5 buckets of 2^r observations each, so a window of n takes
O(log n) memory, and an observation O(log n) time amortised. After each observation every cut between two buckets is
tried. Where the means of the older part (n0) and the newer (n1) differ by

    epsilon_cut = sqrt(2 / m variance ln(2 / delta')) + 2 / (3 m) ln(2 / delta')

or more, the oldest bucket goes, until no cut differs. Here 1 / m = 1 / n0 + 1 / n1, the variance is the whole window's,
and delta' = delta / ln n.
"""

import math
from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import NOT_NEGATIVE
from zoosim.core.parameters import parameter
from zoosim.core.types import FloatArray, IntArray
from zoosim.monitoring.detector import Detector

MAX_BUCKETS = 5
LENGTH, SUM, SQUARES = range(3)


class AdwinState(NamedTuple):
    """The state of n detectors.

    `buckets (n, rows, 6, 2)`, the sum and the sum of squares of each bucket, the oldest of a row first; `filled
    (n, rows)` how many buckets a row holds; `totals (n, 3)` the window's length, sum and sum of squares; `delta`.
    """

    buckets: Annotated[FloatArray, NOT_NEGATIVE]
    filled: IntArray
    totals: Annotated[FloatArray, NOT_NEGATIVE]
    delta: float

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        if self.filled.max() > MAX_BUCKETS:
            yield f"filled holds {self.filled.max()}, expected at most {MAX_BUCKETS} buckets"
        elif not np.array_equal(self.filled @ 2.0 ** np.arange(self.filled.shape[1]), self.totals[:, LENGTH]):
            yield "totals holds other lengths than the buckets"


def new_adwin(n: int, delta: float = 0.002, rows: int = 24) -> AdwinState:
    """Return detectors with an empty window.

    Args:
        n: Number of detectors.
        delta: Bound on the probability of a false alarm per observation.
        rows: Rows of buckets; a window of 4 to 5 times 2^rows observations is full, and loses its oldest ones.
    """
    buckets = np.zeros((n, rows, MAX_BUCKETS + 1, 2))
    return AdwinState(buckets, np.zeros((n, rows), np.int64), np.zeros((n, 3)), delta)


@jit
def observe(state: AdwinState, i: int, x: float) -> bool:
    """Add a number to a detector.

    Args:
        state: The detectors; changed in place.
        i: Number of the detector.
        x: The observation, in [0, 1].

    Returns:
        True when a change is found; the window then holds what came after it.
    """
    buckets = state.buckets[i]
    filled = state.filled[i]
    totals = state.totals[i]
    totals[LENGTH] += 1.0
    totals[SUM] += x
    totals[SQUARES] += x * x
    _append(buckets, filled, 0, x, x * x)
    _compress(buckets, filled, totals)
    changed = False
    while _differs(buckets, filled, totals, state.delta):
        _drop_oldest(buckets, filled, totals)
        changed = True
    return changed


@jit
def reset(state: AdwinState, i: int) -> None:
    """Make a detector forget all it has seen.

    Args:
        state: The detectors; changed in place.
        i: Number of the detector.
    """
    state.buckets[i] = 0.0
    state.filled[i] = 0
    state.totals[i] = 0.0


@jit
def _differs(buckets: FloatArray, filled: IntArray, totals: FloatArray, delta: float) -> bool:
    """Return whether the means on the two sides of any cut differ by epsilon_cut or more.

    Multiplied by n0 n1, the comparison needs no division: the difference is |s1 n - s n1|, and n0 n1 / m = n.
    """
    n = totals[LENGTH]
    s = totals[SUM]
    # At least 1: for n < 3, delta' = delta / ln n would be above delta.
    log_term = math.log(2.0 * max(math.log(n), 1.0) / delta)
    # Below 0 by rounding where all observations are equal.
    variance = max(totals[SQUARES] / n - (s / n) ** 2, 0.0)
    # epsilon_cut n0 n1 = sqrt(2 n n0 n1 variance ln(2 / delta')) + 2/3 n ln(2 / delta').
    linear = 2.0 / 3.0 * n * log_term
    square = 2.0 * n * variance * log_term
    n1 = s1 = 0.0
    size = 1.0
    for row in range(filled.shape[0]):
        # From the newest bucket to the oldest: the first row holds the newest, and each row its oldest first.
        for k in range(filled[row] - 1, -1, -1):
            n1 += size
            s1 += buckets[row, k, 0]
            rest = abs(s1 * n - s * n1) - linear
            # The sign first, since squares have none; behind the oldest bucket n0 = 0 and `rest` is below 0.
            if rest >= 0.0 and rest * rest >= square * n1 * (n - n1):
                return True
        if n1 >= n:
            break
        size *= 2.0
    return False


@jit
def _append(buckets: FloatArray, filled: IntArray, row: int, total: float, squares: float) -> None:
    """Add a bucket as the newest of its row."""
    buckets[row, filled[row], 0] = total
    buckets[row, filled[row], 1] = squares
    filled[row] += 1


@jit
def _compress(buckets: FloatArray, filled: IntArray, totals: FloatArray) -> None:
    """Merge the two oldest buckets of each row that is too full; from the last row the oldest goes."""
    last = filled.shape[0] - 1
    for row in range(last):
        # A row that hands nothing on leaves all after it as they were.
        if filled[row] <= MAX_BUCKETS:
            return
        older = buckets[row, 0]
        newer = buckets[row, 1]
        _append(buckets, filled, row + 1, older[0] + newer[0], older[1] + newer[1])
        _shift(buckets, filled, row, 2)
    if filled[last] > MAX_BUCKETS:
        _drop_oldest(buckets, filled, totals)


@jit
def _shift(buckets: FloatArray, filled: IntArray, row: int, count: int) -> None:
    """Remove the `count` oldest buckets of a row."""
    filled[row] -= count
    for k in range(filled[row]):
        buckets[row, k, 0] = buckets[row, k + count, 0]
        buckets[row, k, 1] = buckets[row, k + count, 1]


@jit
def _drop_oldest(buckets: FloatArray, filled: IntArray, totals: FloatArray) -> None:
    """Remove the oldest bucket and add the totals up afresh, so that subtractions leave no rounding errors behind."""
    row = filled.shape[0] - 1
    while filled[row] == 0:
        row -= 1
    _shift(buckets, filled, row, 1)
    totals[:] = 0.0
    size = 1.0
    for r in range(row + 1):
        totals[LENGTH] += size * filled[r]
        for k in range(filled[r]):
            totals[SUM] += buckets[r, k, 0]
            totals[SQUARES] += buckets[r, k, 1]
        size *= 2.0


class ADWIN(Detector):
    """Keep a window over which the mean of numbers in [0, 1] is constant; it shrinks when the mean has changed.

    One change may be found several times, as the window lets go of the old buckets. `n_observations` and `mean` are
    the window's.
    """

    delta: float = parameter(0.002, low=1e-12, high=1, help="bound on the probability of a false alarm, an observation")
    _observe = staticmethod(observe)

    def _new_state(self) -> AdwinState:
        return new_adwin(1, self.delta)

    def _held(self) -> tuple[int, float]:
        length, total, _ = self._state.totals[0]
        return int(length), float(total / max(length, 1.0))
