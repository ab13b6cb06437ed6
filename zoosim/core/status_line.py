"""Progress of long calls on standard error: one line that changes, or a line now and then."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status
from rich.text import Text

from zoosim.core.countdown import Forecast
from zoosim.core.jit import watch_compilation
from zoosim.core.tabular import in_notebook

QUIET_SECONDS = 10.0
"""Away from a terminal, a line of progress appears this often."""

COMPILING = "compiling policies for the first time (may take a minute; kept for later runs)"


@contextmanager
def automatic_line() -> Iterator[Callable[[str], None]]:
    """Show lines of progress where somebody sits before them: on a terminal or in a notebook."""
    if not is_watched():
        yield lambda line: None
        return
    with StatusLine() as status, watch_compilation(lambda: status.show(COMPILING)):
        yield status.show


def is_watched() -> bool:
    """Return whether somebody sits before standard error: at a terminal or in a notebook."""
    return sys.stderr.isatty() or in_notebook()


class StatusLine:
    """A line on what a long call is doing: one that changes on a terminal; elsewhere a line now and then."""

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
