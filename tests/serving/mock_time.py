"""Time that a test moves: a steady clock that goes on, and a wall clock that can be set."""

from zoosim.core.durations import MICROSECONDS
from zoosim.serving.clock import Clock

BEGIN = 1_800_000_000 * MICROSECONDS
"""What the wall clock says at first."""


class MockTime:
    """What a machine's clocks say; `true` is the time that passes, `off` by how much the wall clock is wrong."""

    def __init__(self) -> None:
        self.true = BEGIN
        self.off = 0

    def wall(self) -> int:
        return self.true + self.off

    def steady(self) -> int:
        return self.true - BEGIN + 1_000

    def pass_by(self, seconds: float) -> None:
        self.true += round(seconds * MICROSECONDS)

    def set_wall(self, seconds: float) -> None:
        """Set the wall clock by so many seconds, forward or back."""
        self.off += round(seconds * MICROSECONDS)

    def clock(self) -> Clock:
        return Clock(self.wall, self.steady)
