"""Serve a live page to browsers on this machine, from a thread of a program that does something else."""

import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from zoosim.live.pages import EVENTS, FILES, HEADERS, HTML, SECONDS_BETWEEN_EVENTS, PanelEvents, read_file

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
"""How browsers on this machine may call it: a page of another site that has its name resolved here is turned away."""

MOST_LISTENERS = 20
"""Browsers that are told of news at once."""

PATIENCE = 30
"""Seconds for which a connection may say nothing."""

LAST_WORDS = 2.0
"""Seconds within which browsers are told how things ended."""


class _Server(ThreadingHTTPServer):
    """A server of which no thread keeps the program from ending, and that does not complain of browsers that leave."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class PageServer:
    """Serves one page on a free port of this machine, to nobody else.

    Attributes:
        url: The address of the page.
    """

    def __init__(self, page: Callable[[], str], panels: Callable[[], str]) -> None:
        """Listen, and answer from now on.

        Args:
            page: Returns the whole page; called in threads.
            panels: Returns its panels as they are now; called in threads.
        """
        self._page = page
        self._events = PanelEvents(panels, time.time, time.monotonic)
        self._stopping = threading.Event()
        self._listeners = threading.BoundedSemaphore(MOST_LISTENERS)
        self._lock = threading.Lock()
        # Each connection has a thread, none of which keeps the program from ending.
        self._server = _Server((HOST, 0), self._handler())
        self.url = f"http://{HOST}:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()

    def close(self) -> None:
        """Tell browsers how things ended, and answer no more."""
        self._stopping.set()
        until = time.monotonic() + LAST_WORDS
        for _ in range(MOST_LISTENERS):
            self._listeners.acquire(timeout=max(until - time.monotonic(), 0.0))
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        """Return a handler of requests to this page."""
        server = self

        class Handler(BaseHTTPRequestHandler):
            timeout = PATIENCE

            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                return

        return Handler

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer a request."""
        try:
            path = urlsplit(request.path).path
            host = urlsplit(f"//{request.headers.get('Host', '')}").hostname
        except ValueError:
            _send(request, 400, "text/plain", b"This is no address.")
            return
        if host not in NAMES:
            _send(request, 403, "text/plain", b"This page is for browsers on this machine.")
        elif path == "/":
            _send(request, 200, HTML, self._page().encode())
        elif path == "/console/events":
            self._send_events(request)
        elif path.removeprefix("/console/") in FILES:
            name = path.removeprefix("/console/")
            _send(request, 200, FILES[name], read_file(name))
        else:
            _send(request, 404, "text/plain", b"There is nothing here; see /")

    def _send_events(self, request: BaseHTTPRequestHandler) -> None:
        """Send the panels again and again, and at last how things ended."""
        if not self._listeners.acquire(blocking=False):
            _send(request, 503, "text/plain", b"Too many browsers look at this page; close one.")
            return
        try:
            _send_head(request, 200, EVENTS)
            is_last = False
            while not is_last:
                is_last = self._stopping.is_set()
                with self._lock:
                    event = self._events.newest()
                request.wfile.write(event)
                if not is_last:
                    self._stopping.wait(SECONDS_BETWEEN_EVENTS)
        except OSError:  # the browser is gone
            return
        finally:
            self._listeners.release()


def _send(request: BaseHTTPRequestHandler, status: int, media_type: str, content: bytes) -> None:
    _send_head(request, status, media_type, len(content))
    request.wfile.write(content)


def _send_head(request: BaseHTTPRequestHandler, status: int, media_type: str, length: int | None = None) -> None:
    request.send_response(status)
    request.send_header("Content-Type", media_type)
    if length is not None:
        request.send_header("Content-Length", f"{length}")
    for name, value in HEADERS.items():
        request.send_header(name, value)
    request.end_headers()
