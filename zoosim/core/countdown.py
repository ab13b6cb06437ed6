"""Lines of progress that say how long a piece of work will still take."""

import time

from zoosim.core.types import Progress

LEAST_SECONDS = 2.0
"""Shorter times are not worth saying."""


class Forecast(str):
    """A line of progress that says beforehand how long a piece of work will take: it is shown at once, and stays."""

    __slots__ = ()


class Countdown:
    """Say how much of a piece of work is done, and about how many seconds are left, at the pace so far.

    Args:
        progress: Called with a line such as "judged 256 of 20,000 rows, about 40 s left".
        verb: What is done, such as "judged".
        total: How much there is to do.
        unit: What is counted, such as "rows".
    """

    def __init__(self, progress: Progress, verb: str, total: int, unit: str) -> None:
        self._progress = progress
        self._verb = verb
        self._total = total
        self._unit = unit
        self._first: tuple[int, float] | None = None

    def report(self, done: int) -> None:
        """Say that so much is done; the first report starts the clock, as what came before it may have compiled."""
        now = time.monotonic()
        if self._first is None:
            self._first = done, now
        line = f"{self._verb} {done:,} of {self._total:,} {self._unit}"
        seconds = self._seconds_left(done, now)
        self._progress(line if seconds < LEAST_SECONDS else f"{line}, about {seconds:,.0f} s left")

    def _seconds_left(self, done: int, now: float) -> float:
        assert self._first is not None
        first, began = self._first
        if done <= first:
            return 0.0
        return (now - began) / (done - first) * (self._total - done)
