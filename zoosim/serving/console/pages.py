"""Pages of a console: how they are rendered, their headers, and how their panels are kept up to date."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

SECONDS_BETWEEN_EVENTS = 2.0
"""Between two looks at what a page shows."""

POLICY = "; ".join(
    [
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "connect-src 'self'",
        "img-src data:",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

Handler = Callable[[Request], Awaitable[Response]]


def page(template: str, status: int = 200, **contents: Any) -> Response:
    """Return a page, rendered from a template."""
    defaults: dict[str, Any] = {"root": "../", "facts": [], "chances": []}
    html = render(template, **{**defaults, **contents})
    return Response(html, status, media_type="text/html; charset=utf-8", headers=HEADERS)


def render(template: str, **contents: Any) -> str:
    """Return the text of a template."""
    return _environment().get_template(template).render(contents)


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
        self._html = html
        self._now = now
        self._passed = passed
        self._stopping = stopping
        self._message = b""
        self._message_at = -SECONDS_BETWEEN_EVENTS

    def response(self) -> Response:
        """Return an answer that sends the panels as they are, again and again."""
        headers = {**HEADERS, "X-Accel-Buffering": "no"}
        return StreamingResponse(self.events(), media_type="text/event-stream", headers=headers)

    async def events(self) -> AsyncIterator[bytes]:
        """Yield the panels as they are, until events are to end."""
        while not self._stopping.is_set():
            yield self._newest_message()
            try:
                await asyncio.wait_for(self._stopping.wait(), SECONDS_BETWEEN_EVENTS)
            except TimeoutError:
                continue

    def _newest_message(self) -> bytes:
        """Return the event with the panels, made once for all who look."""
        passed = self._passed()
        if passed - self._message_at >= SECONDS_BETWEEN_EVENTS / 2:
            content = {"now": time_text(self._now()), "html": self._html()}
            self._message = b"event: panels\ndata: " + msgspec.json.encode(content) + b"\n\n"
            self._message_at = passed
        return self._message


def time_text(seconds: float) -> str:
    """Return a time, in seconds since 1970, as a page shows it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("zoosim.serving.console", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def file_answer(name: str, media_type: str) -> Handler:
    """Return what answers a file that lies beside this one."""
    content = (Path(__file__).parent / name).read_bytes()

    async def answer(request: Request) -> Response:
        return Response(content, media_type=media_type, headers=HEADERS)

    return answer
