"""The time of a service: it goes on as the machine's steady clock does, whatever the wall clock is set to.

A wall clock can be set at any moment, by days. If the log's time followed it forward, every wait for feedback would end
at once and every row would look old; backward, no wait would end until the wall clock had caught up. So the wall clock
is asked where time begins, when a service starts. From then on time is *slewed* towards it, as time servers do: it goes
a twentieth faster or slower until both agree. `zoosim.serving.retention` says what that means for old rows.
"""

import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from zoosim.core.durations import MICROSECONDS
from zoosim.serving.throttle import Throttle

SLEW = 20
"""Time is slewed towards the wall clock by one part in so many of what passes, so waits are 5% off at most."""

JUMP = MICROSECONDS // 2
"""By how much the wall clock must part from the steady clock between two looks for that to be a jump."""

TRUSTED_GAP = 300 * MICROSECONDS
"""Without rows before a start: a longer time is a gap, as nobody knows whether it passed or a clock was set."""

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

logger = logging.getLogger("zoosim.serving")


class Gap(NamedTuple):
    """A time of the log, in microseconds, through which nobody is known to have lived."""

    start: int
    end: int


class _Anchor(NamedTuple):
    """The time at a reading of the steady clock, and by how much it is to be slewed from there."""

    time: int
    steady: int
    offset: int


class Clock:
    """Gives rows of the log their times. It never goes back, and `look` is to be called some times a second.

    `now` and `passed` may be called in any thread, the rest in one.

    Attributes:
        gaps: Leaps of the log's time that the log does not know of yet, oldest first; who notes them removes them.
    """

    def __init__(self, wall: Callable[[], int] | None = None, steady: Callable[[], int] | None = None) -> None:
        """Begin at the time of the wall clock.

        Args:
            wall: Returns the wall clock's microseconds since 1970; that of this machine by default.
            steady: Returns microseconds of a clock that nobody sets; `machine_steady` by default.
        """
        self._wall = wall or _machine_wall
        self._steady = steady or machine_steady
        self.gaps: list[Gap] = []
        self._jumps: list[int] = []
        self._throttle = Throttle(now=self.passed)
        self._anchor = _Anchor(self._wall(), self._steady(), 0)
        self._wall_seen, self._steady_seen = self._anchor[:2]

    def now(self) -> int:
        """Return the time in microseconds since 1970."""
        return self._time_at(self._steady())

    def passed(self) -> float:
        """Return the seconds of a clock that nobody sets, by which durations are measured."""
        return self._steady() / MICROSECONDS

    def wall(self) -> int:
        """Return what the wall clock says."""
        return self._wall()

    def seconds(self) -> float:
        """Return the time in seconds since 1970."""
        return self.now() / MICROSECONDS

    def ahead(self) -> float:
        """Return by how many seconds the time is ahead of the wall clock."""
        return (self.now() - self._wall()) / MICROSECONDS

    def begin(self, newest: int | None, common: int | None) -> None:
        """Begin to give times to a log; what is unusual about its last row is told.

        Args:
            newest: The time of the log's newest row, None for an empty log: time never goes back behind it.
            common: The time by the service of this log that leads. It counts, not the wall clock; None for no other.
        """
        wall = self._wall()
        self._anchor = _Anchor(max(wall if common is None else common, newest or 0), self._steady(), 0)
        ahead = self._anchor.time - wall
        if common is not None:
            if abs(ahead) > JUMP:
                behind = "behind" if ahead > 0 else "ahead of"
                _say(f"this machine's clock is {_words(ahead)} {behind} that of the service that leads, which counts")
        elif newest is not None and ahead > JUMP:
            _say(
                f"this machine's clock is {_words(ahead)} behind the newest row of the log; time goes on from that "
                "row, a twentieth slower until both agree"
            )
        elif newest is not None and newest - self._anchor.time < -TRUSTED_GAP:
            self._leap(newest, "the newest row of the log is")

    def note(self, time: int) -> None:
        """Go on from a row of the log that is later than this clock, as another service made it that was not asked.

        A leap of more than `TRUSTED_GAP` is a gap, and told.

        Args:
            time: The row's time in microseconds since 1970; one that is not later changes nothing.
        """
        now = self.now()
        if time <= now:
            return
        self._anchor = _Anchor(time, self._steady(), 0)
        if time - now > TRUSTED_GAP:
            self._leap(now, "rows of another service are ahead: the time of this one was")

    def look(self, common: int | None = None) -> None:
        """Compare the clocks of this machine: say what jumped, and slew the time from now on.

        Args:
            common: The time by the service of this log that leads, towards which it is slewed; None for the wall clock.
        """
        steady = self._steady()
        wall = self._wall()
        if self._steady() - steady < JUMP // 2:  # else this thread was interrupted between the two clocks
            jump = (wall - self._wall_seen) - (steady - self._steady_seen)
            self._wall_seen = wall
            self._steady_seen = steady
            if abs(jump) >= JUMP:
                self._jumps.append(jump)
        now = self._time_at(steady)
        self._anchor = _Anchor(now, steady, (wall if common is None else common) - now)
        if self._jumps and self._throttle.allows():
            self._tell_jumps()

    def _time_at(self, steady: int) -> int:
        # Read once: other threads ask for the time while `look` puts another anchor in its place, so no lock is needed.
        anchor = self._anchor
        passed = steady - anchor.steady
        # Never as much as what has passed, so slewing back only makes time slower.
        most = passed // SLEW
        return anchor.time + passed + max(-most, min(anchor.offset, most))

    def _leap(self, start: int, what: str) -> None:
        self.gaps.append(Gap(start, self._anchor.time))
        _say(
            f"{what} {_words(self._anchor.time - start)} old: time without a service, or a clock that was set; waits "
            "for feedback that ended meanwhile are over, and keep_days counts nothing of it"
        )

    def _tell_jumps(self) -> None:
        jumps = self._jumps
        self._jumps = []
        ways = [f"{_words(jump)} {'forward' if jump > 0 else 'back'}" for jump in jumps]
        many = f"{len(ways)} times, at last " if len(ways) > 1 else ""
        ahead = round(self.ahead() * MICROSECONDS)
        where = ""
        if abs(ahead) > JUMP:
            where = f", {_words(ahead)} {'ahead of' if ahead > 0 else 'behind'} that clock"
        _say(
            f"this machine's clock jumped {many}{ways[-1]}, as it was set or the machine was paused; the time of the "
            f"service goes on as before{where}; no wait ends and no row goes by it"
        )


def _machine_wall() -> int:
    return time.time_ns() // 1_000


def machine_steady() -> int:
    """Return microseconds of this machine's clock that nobody sets, and that goes on while the machine sleeps.

    On Linux that is the time since it was booted, where the monotonic clock stands still in a sleep. Both stand still
    in a virtual machine that is paused.
    """
    return time.clock_gettime_ns(_STEADY) // 1_000


def _say(line: str) -> None:
    logger.warning("clock: %s", line)


def _words(microseconds: int) -> str:
    """Return a duration in the largest unit of which it has one."""
    seconds = abs(microseconds) / MICROSECONDS
    for unit, size in (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
