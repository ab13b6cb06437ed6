"""Progress of a recommendation, and the time that its parts took."""

import time
from collections.abc import Sequence

from zoosim.arena.plan import Plan
from zoosim.arena.store import TrialKey
from zoosim.arena.time_left import TimeLeft
from zoosim.core.types import Progress


class Stopwatch:
    """Seconds that each part of the work took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def note(self, part: str) -> None:
        """Note that a part has ended."""
        now = time.perf_counter()
        self.seconds[part] = now - self._last
        self._last = now


class RunLines:
    """Turns what a run reports into lines of progress."""

    def __init__(self, progress: Progress, doing: str) -> None:
        """Take the function that shows lines, and what is being done."""
        self._progress = progress
        self._doing = doing

    def start(self, plan: Plan, trials: Sequence[TrialKey], jobs: int | None) -> None:
        """Take in what begins."""
        self._time_left = TimeLeft(trials, plan.steps, jobs)

    def report(self, key: TrialKey, visits: int, line: str) -> None:
        """Take in that a trial went on, and say how far the rehearsal is."""
        self._time_left.record(key, visits, line, time.monotonic())
        seconds = self._time_left.seconds()
        left = "" if seconds is None else f", about {seconds:.0f} s left"
        self._progress(f"{self._doing}, {self._time_left.share_done:.0%}{left}: {key.policy}, seed {key.seed}")
