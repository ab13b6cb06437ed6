"""Page-Hinkley: two cumulative sums of deviations from the running mean (Page 1954; Hinkley 1971).

up <- max(0, up + (x - mean) - delta), down <- max(0, down - (x - mean) - delta); a change is found when either passes
the threshold h. That is m_t - min m and max m - m_t of the usual form, without a sum that grows for ever.

On a constant stream of variance s^2 the deviations from the running mean are uncorrelated and their variance is just
below s^2, so the mean time between false alarms is about (e^y - 1 - y) s^2 / (4 delta^2) with y = 2 delta h / s^2
(Brownian motion, both sides; steps that overshoot make it longer). Numbers in [0, 1] have s^2 <= 1/4.
"""

import sys
from collections.abc import Iterator
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import Limits
from zoosim.core.parameters import parameter
from zoosim.core.types import FloatArray
from zoosim.monitoring.detector import Detector

COUNT, MEAN, UP, DOWN = range(4)
LARGEST = sys.float_info.max
FINITE = Limits(-LARGEST, LARGEST)


class PageHinkleyState(NamedTuple):
    """Of n detectors `cells (n, 4)`: count, mean and the sums up and down; the other fields are parameters."""

    cells: Annotated[FloatArray, FINITE]
    delta: float
    threshold: float
    min_observations: int

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        least = self.cells[:, [COUNT, UP, DOWN]].min()
        if least < 0.0:
            yield f"cells holds a count or a sum of {least:g}, expected at least 0"


def new_page_hinkley(
    n: int, delta: float = 0.005, threshold: float = 80.0, min_observations: int = 30
) -> PageHinkleyState:
    """Return detectors that have seen nothing.

    Args:
        n: Number of detectors.
        delta: Deviation from the mean that is let pass, in units of the observations.
        threshold: Sum of deviations above which a change is found.
        min_observations: Observations before a change can be found.
    """
    return PageHinkleyState(np.zeros((n, 4)), delta, threshold, min_observations)


@jit
def observe(state: PageHinkleyState, i: int, x: float) -> bool:
    """Add a number to a detector.

    Args:
        state: The detectors; changed in place.
        i: Number of the detector.
        x: The observation, finite.

    Returns:
        True when a change is found; the detector then starts anew.
    """
    cell = state.cells[i]
    count = cell[COUNT] + 1.0
    # Divided before they are subtracted: the difference of two large numbers may overflow.
    mean = cell[MEAN] + (x / count - cell[MEAN] / count)
    # The mean has taken in x: x - mean is (n - 1) / n of its distance from the mean before.
    cell[COUNT] = count
    cell[MEAN] = mean
    # Two numbers near the largest float differ by infinity: cut there, lest infinities meet and make NaN.
    cell[UP] = min(max(0.0, cell[UP] + (x - mean - state.delta)), LARGEST)
    cell[DOWN] = min(max(0.0, cell[DOWN] + (mean - x - state.delta)), LARGEST)
    if count < state.min_observations or max(cell[UP], cell[DOWN]) <= state.threshold:
        return False
    reset(state, i)
    return True


@jit
def reset(state: PageHinkleyState, i: int) -> None:
    """Make a detector forget all it has seen.

    Args:
        state: The detectors; changed in place.
        i: Number of the detector.
    """
    state.cells[i] = 0.0


class PageHinkley(Detector):
    """Find a lasting change of the mean of any finite numbers, up or down.

    Deviations below `delta` are let pass; after a long past a change of size c is found in about threshold /
    (c - delta) observations. In [0, 1] the defaults raise a false alarm once in 50,000 observations at worst.
    """

    low: ClassVar[float] = -LARGEST
    high: ClassVar[float] = LARGEST
    delta: float = parameter(0.005, low=0, high=1e100, help="the deviation from the mean that is let pass")
    threshold: float = parameter(80.0, low=1e-9, high=1e100, help="the sum of deviations at which a change is found")
    min_observations: int = parameter(30, low=1, high=10**9, help="observations before a change can be found")
    _observe = staticmethod(observe)

    def _new_state(self) -> PageHinkleyState:
        return new_page_hinkley(1, self.delta, self.threshold, self.min_observations)

    def _held(self) -> tuple[int, float]:
        count, mean = self._state.cells[0, :UP]
        return int(count), float(mean)
