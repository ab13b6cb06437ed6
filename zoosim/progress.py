"""Progress of a run on standard error: a progress bar, or a line now and then."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from zoosim.arena.store import TrialKey
from zoosim.arena.time_left import TimeLeft, TrialEvent
from zoosim.core.status_line import COMPILING, QUIET_SECONDS

if TYPE_CHECKING:
    from zoosim.arena.plan import Plan

SHOW_SECONDS = 0.1
"""On a terminal, the bar moves this often."""


class Progress:
    """A bar on a terminal; elsewhere a line now and then; nothing when there is nothing to do.

    Both show the time left once it can be known.
    """

    def __init__(self) -> None:
        self._console = Console(stderr=True, markup=False)
        self._bar: Bar | None = None
        self._task: Any = None
        self._time_left = TimeLeft((), 0, 1)
        self._last_line = time.monotonic()
        self._said_compiling = False

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def start(self, plan: "Plan", trials: Sequence[TrialKey], jobs: int | None) -> None:
        """Say what begins: `trials` to compute, in so many processes, None for those of an executor."""
        self._time_left = TimeLeft(trials, plan.steps, jobs)
        self._last_line = time.monotonic()
        if trials and self._console.is_terminal:
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[time_left]}"),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task(plan.experiment.title, total=1.0, time_left="")
            self._bar.start()

    def report(self, key: TrialKey, visits: int, line: str) -> None:
        """Take in that a trial went on by `visits`, or has a line to say."""
        now = time.monotonic()
        self._time_left.record(key, visits, line, now)
        if line == TrialEvent.COMPILING:
            self._say_compiling()
        what = f"{key.policy}, seed {key.seed}{': ' + line if line else ''}"
        interval = SHOW_SECONDS if self._bar is not None else QUIET_SECONDS
        if now - self._last_line < interval:
            return
        self._last_line = now
        time_left = self._written_time_left()
        share_done = self._time_left.share_done
        if self._bar is not None:
            self._bar.update(self._task, completed=share_done, description=what[:60], time_left=time_left)
        else:
            progress = ", ".join(part for part in (f"{100 * share_done:3.0f}%", time_left) if part)
            self._console.print(f"{progress}: {what}", highlight=False, soft_wrap=True)

    def _say_compiling(self) -> None:
        if not self._said_compiling:
            self._said_compiling = True
            self._console.print(COMPILING, highlight=False, soft_wrap=True)

    def _written_time_left(self) -> str:
        """Say how long the run still takes; nothing while that cannot be known."""
        seconds = self._time_left.seconds()
        if seconds is None:
            return ""
        return f"about {seconds:.0f} s left" if seconds < 100 else f"about {seconds / 60:.0f} min left"
