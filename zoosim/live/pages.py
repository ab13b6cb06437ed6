"""Live pages: their headers, how they are rendered, and the events that bring their panels up to date."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

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
HTML, EVENTS = "text/html; charset=utf-8", "text/event-stream"

FILES = {"style.css": "text/css", "script.js": "text/javascript"}
"""Files of this package that pages ask for, below `console/`, and their media types."""


def read_file(name: str) -> bytes:
    """Return one of `FILES`."""
    return (Path(__file__).parent / name).read_bytes()


@cache
def templates(package: str) -> jinja2.Environment:
    """Return the templates of a package, which may extend and import those of this one."""
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package, "."), jinja2.PackageLoader("zoosim.live", ".")]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(package: str, template: str, **contents: Any) -> str:
    """Return the text of a template of a package."""
    return templates(package).get_template(template).render(contents)


class PanelEvents:
    """The panels of a page as an event, made once for all who look at about the same time."""

    def __init__(self, html: Callable[[], str], now: Callable[[], float], passed: Callable[[], float]) -> None:
        """Make nothing yet.

        Args:
            html: Returns the panels as they are now.
            now: Returns the time, in seconds since 1970.
            passed: Returns the seconds of a clock that never goes back.
        """
        self._html = html
        self._now = now
        self._passed = passed
        self._newest = b""
        self._newest_at = -SECONDS_BETWEEN_EVENTS

    def newest(self) -> bytes:
        """Return the event with the panels as they are."""
        passed = self._passed()
        if passed - self._newest_at >= SECONDS_BETWEEN_EVENTS / 2:
            content = {"now": time_text(self._now()), "html": self._html()}
            self._newest = b"event: panels\ndata: " + json.dumps(content).encode() + b"\n\n"
            self._newest_at = passed
        return self._newest


def time_text(seconds: float) -> str:
    """Return a time, in seconds since 1970, as a page shows it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
