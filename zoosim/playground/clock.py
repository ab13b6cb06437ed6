"""Simulated time that several processes of one machine share: a playground moves it, and its service goes by it.

Time that simply ran a hundred times as fast would leave visitors behind wherever the machine is busy: fewer of them
would come in an hour, and an evaluation by the hour would be one of the machine. So time is what a playground says:
that of the visitor who comes next. It passes as fast as visitors are served, or slower where it is to be watched.
"""

import time
from pathlib import Path

import numpy as np

from zoosim.core.durations import MICROSECONDS
from zoosim.serving.clock import Clock, machine_steady


class SharedTime:
    """A time in a file of eight bytes, which every process that opens it maps into its memory."""

    def __init__(self, path: Path) -> None:
        """Open the file of a time; a new one begins at this machine's.

        Args:
            path: The file.
        """
        self.path = path
        is_new = not path.exists()
        # One aligned number of eight bytes is written and read at once, so no lock is needed.
        self._cell = np.memmap(path, np.int64, "w+" if is_new else "r+", shape=(1,))
        if is_new:
            self._cell[0] = time.time_ns() // 1_000

    def now(self) -> int:
        """Return the time in microseconds since 1970."""
        return int(self._cell[0])

    def move_to(self, time: int) -> None:
        """Let time pass up to a moment; one that is over changes nothing. To be called by one process.

        Args:
            time: Microseconds since 1970.
        """
        if time > self._cell[0]:
            self._cell[0] = time


class SimulatedClock(Clock):
    """The clock of a service in simulated time: rows of its log get that, while durations are the machine's.

    So waits for feedback, hours of a launch and days of the log are simulated. How long requests wait, how often the
    learner tells what it learned and how soon a line may be logged again are not, as the machine is no faster.
    """

    def __init__(self, time: SharedTime) -> None:
        """Begin at the shared time."""
        super().__init__(wall=time.now, steady=time.now)

    def passed(self) -> float:
        """Return the seconds of this machine's steady clock."""
        return machine_steady() / MICROSECONDS
