"""Measurement of how long requests that came together keep the event loop busy, to turn the last of them away."""

import asyncio
from collections.abc import Callable


class Backlog:
    """Measures a batch of requests: all that is ready to run when the first of them is looked at.

    Attributes:
        delay: Seconds that the newest batch took.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], float]) -> None:
        """Measure the event loop that answers requests.

        Args:
            loop: The event loop.
            now: Returns the seconds of a clock that never goes back.
        """
        self.delay = 0.0
        self._loop = loop
        self._now = now
        self._began: float | None = None

    def is_longer(self, seconds: float) -> bool:
        """Return whether the batch that is answered now takes longer than that."""
        moment = self._now()
        if self._began is None:
            self._began = moment
            self._loop.call_soon(self._note_end)  # behind all that is ready to run
        return moment - self._began > seconds

    def _note_end(self) -> None:
        assert self._began is not None
        self.delay = self._now() - self._began
        self._began = None
