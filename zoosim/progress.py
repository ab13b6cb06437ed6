"""What the command line shows on standard error while it works: a progress bar, or a line now and then."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.status import Status
from rich.text import Text

from zoosim.arena.store import TrialKey
from zoosim.arena.time_left import TimeLeft, TrialEvent
from zoosim.core.countdown import Forecast
from zoosim.core.jit import watch_compilation
from zoosim.core.tabular import in_notebook

if TYPE_CHECKING:
    from zoosim.arena.plan import Plan

QUIET_SECONDS = 10.0
"""Away from a terminal, a line of progress appears this often."""

SHOW_SECONDS = 0.1
"""On a terminal, the bar moves this often."""

COMPILING = "compiling policies for the first time (may take a minute; kept for later runs)"


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

    def start(self, plan: "Plan", trials: Sequence[TrialKey], jobs: int) -> None:
        """Say what begins: `trials` to compute, in so many processes."""
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


@contextmanager
def automatic_line() -> Iterator[Callable[[str], None]]:
    """Show lines of progress where somebody sits before them: on a terminal or in a notebook."""
    if not is_watched():
        yield lambda line: None
        return
    with StatusLine() as status, watch_compilation(lambda: status.show(COMPILING)):
        yield status.show


def is_watched() -> bool:
    """Whether somebody sits before standard error: at a terminal or in a notebook."""
    return sys.stderr.isatty() or in_notebook()


class StatusLine:
    """What a long call is doing: one line that changes on a terminal; elsewhere a line now and then."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, markup=False)
        self._status: Status | None = None
        self._last_line = time.monotonic()

    def __enter__(self) -> "StatusLine":
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, line: str) -> None:
        """Show a line in place of the last one; a forecast beside it."""
        if isinstance(line, Forecast):
            self._console.print(line, highlight=False, soft_wrap=True)
        elif self._console.is_terminal:
            if self._status is None:
                self._status = self._console.status("")
                self._status.start()
            self._status.update(Text(line))
        elif time.monotonic() - self._last_line >= QUIET_SECONDS:
            self._last_line = time.monotonic()
            self._console.print(line, highlight=False, soft_wrap=True)
