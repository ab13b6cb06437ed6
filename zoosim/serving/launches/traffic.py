"""How many visitors come per hour, by the times of the log's rows: those of the last day count most."""

import math

from zoosim.core.durations import DAY, HOUR


class Traffic:
    """Counts visitors, of whom those of a day before count e times less."""

    def __init__(self) -> None:
        """Begin without visitors."""
        self._visitors = self._hours = 0.0
        self._time = 0

    def come(self, time: int) -> None:
        """Count a visitor who comes at a time, in microseconds since 1970."""
        self._pass(time)
        self._visitors += 1.0

    def per_hour(self, time: int) -> float:
        """Return how many come per hour, 0 where nobody knows."""
        if self._time:
            self._pass(time)
        return self._visitors / self._hours if self._hours > 0.0 else 0.0

    def _pass(self, time: int) -> None:
        """Let time pass: what was counted before fades, and with it the hours in which it came."""
        passed = max(time - self._time, 0) if self._time else 0
        fading = math.exp(-passed / DAY)
        self._visitors *= fading
        # The integral of the fading over the time that passed.
        self._hours = self._hours * fading + (1.0 - fading) * DAY / HOUR
        self._time = max(time, self._time)
