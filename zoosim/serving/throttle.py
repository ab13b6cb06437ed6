"""Limits on log lines that any request may cause: a line must not become a flood."""

import math
import time
from collections.abc import Callable


class Throttle:
    """Lets one thing be said at most once in some time.

    Attributes:
        seconds: How long nothing is said after a line.
    """

    def __init__(self, seconds: float = 60.0, now: Callable[[], float] = time.monotonic) -> None:
        """Allow the first line.

        Args:
            seconds: How long nothing is said after a line.
            now: Returns the seconds of a clock that never goes back.
        """
        self.seconds = seconds
        self._now = now
        self._said_at = -math.inf

    def allows(self) -> bool:
        """Return whether a line may be said now; if so, it counts as said."""
        moment = self._now()
        if moment - self._said_at < self.seconds:
            return False
        self._said_at = moment
        return True


class Milestones:
    """Lets what is counted be said the first time, and each time there is ten times as much."""

    def __init__(self) -> None:
        self._said_at = 0

    def allows(self, count: int) -> bool:
        """Return whether a count may be said now; if so, it counts as said."""
        if count < 10 * self._said_at:
            return False
        self._said_at = count
        return True
