"""Pages of a console: how they are answered, and how their panels are kept up to date."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from zoosim.live import pages
from zoosim.live.pages import EVENTS, FILES, HEADERS, HTML, SECONDS_BETWEEN_EVENTS, PanelEvents, read_file

PACKAGE = "zoosim.serving.console"

Handler = Callable[[Request], Awaitable[Response]]


def page(template: str, status: int = 200, **contents: Any) -> Response:
    """Return a page, rendered from a template."""
    defaults: dict[str, Any] = {"root": "../", "facts": [], "chances": []}
    html = render(template, **{**defaults, **contents})
    return Response(html, status, media_type=HTML, headers=HEADERS)


def render(template: str, **contents: Any) -> str:
    """Return the text of a template."""
    return pages.render(PACKAGE, template, **contents)


class LivePanels:
    """The panels of a page, sent again and again to all who look at it."""

    def __init__(
        self,
        html: Callable[[], str],
        now: Callable[[], float],
        passed: Callable[[], float],
        stopping: asyncio.Event,
    ) -> None:
        """Send nothing yet.

        Args:
            html: Returns the panels as they are now.
            now: Returns the time, in seconds since 1970.
            passed: Returns the seconds of a clock that never goes back.
            stopping: Set once events are to end.
        """
        self._events = PanelEvents(html, now, passed)
        self._stopping = stopping

    def response(self) -> Response:
        """Return an answer that sends the panels as they are, again and again."""
        headers = {**HEADERS, "X-Accel-Buffering": "no"}
        return StreamingResponse(self.events(), media_type=EVENTS, headers=headers)

    async def events(self) -> AsyncIterator[bytes]:
        """Yield the panels as they are, until events are to end."""
        while not self._stopping.is_set():
            yield self._events.newest()
            try:
                await asyncio.wait_for(self._stopping.wait(), SECONDS_BETWEEN_EVENTS)
            except TimeoutError:
                continue


def file_answer(name: str) -> Handler:
    """Return what answers a file that live pages ask for."""
    content = read_file(name)

    async def answer(request: Request) -> Response:
        return Response(content, media_type=FILES[name], headers=HEADERS)

    return answer
