"""The HTTP protocol of the server, with bounds on what a client may send before its request is complete."""

import asyncio
import functools
import logging
import math
import resource
from collections import Counter
from typing import Any

import httptools
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from zoosim.serving.direct_routes import DirectApplication
from zoosim.serving.throttle import Throttle

MOST_HEAD_BYTES = 65_536
"""Bytes of a request's line and headers, and of what came with them."""

MOST_SECONDS = 30.0
"""Seconds within which a request must be complete, from the first byte or, on a new connection, from its start."""

OTHER_FILES = 200
"""Files that a service has open beside connections, at most."""

logger = logging.getLogger("zoosim.serving")


def allow_connections(most: int) -> int:
    """Raise the soft limit of open files of this process so that as many connections may be open.

    Args:
        most: How many connections are wanted.

    Returns:
        How many may be open: fewer where the hard limit does not allow as many, which a line then says.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = most + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < files:
        soft = files if hard == resource.RLIM_INFINITY else min(files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < files:
            logger.warning("%d files may be open: so %d connections, not most_connections", soft, soft - OTHER_FILES)
    return most if soft == resource.RLIM_INFINITY else max(min(most, soft - OTHER_FILES), 1)


class Connections:
    """The open connections of a server, by address: one address gets half of them at most."""

    def __init__(self, most: int) -> None:
        """Count from none.

        Args:
            most: How many may be open at once.
        """
        self._most = most
        self._by_address: Counter[str] = Counter()
        self._throttle = Throttle()

    def open(self, address: str) -> bool:
        """Count a new connection.

        Args:
            address: Where it comes from.

        Returns:
            Whether it may stay open; one that may not is counted too, until `close`.
        """
        self._by_address[address] += 1
        mine = self._by_address[address]
        if self._by_address.total() <= self._most and mine <= max(self._most // 2, 1):
            return True
        if self._throttle.allows():
            logger.warning(
                "closed a new connection: %d are open, %d of them from its address; most_connections is %d, half of it "
                "for one address",
                self._by_address.total() - 1,
                mine - 1,
                self._most,
            )
        return False

    def close(self, address: str) -> None:
        """Count a connection from an address no more."""
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


class BoundedProtocol(HttpToolsProtocol):
    """Closes connections that are too many, send headers without end, or a request too slowly.

    Requests that the application answers directly are not sent through it, and their answers are written at once.
    """

    def __init__(self, connections: Connections, application: DirectApplication, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)
        self._open = connections
        self._answer_directly = application.answer_directly

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._address = str((transport.get_extra_info("peername") or ("",))[0])
        if not self._open.open(self._address):
            transport.close()
        self._head_bytes = 0
        self._is_in_head = True
        self._deadline = self.loop.time() + MOST_SECONDS
        self._check_time()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._timer.cancel()
        self._open.close(self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes before a request's headers are complete."""
        if self._is_in_head:
            self._head_bytes += len(data)
            # What came last may already hold a part of the body, so it does not count yet.
            if self._head_bytes > MOST_HEAD_BYTES + len(data):
                self.transport.close()
                return
        while data:
            try:
                self.parser.feed_data(data)
                data = b""
            except httptools.HttpParserUpgrade as upgrade:
                data = self._without_offer(data[upgrade.args[0] :]) if self._is_offer else b""
            except httptools.HttpParserError:
                self.send_400_response("Invalid HTTP request received.")
                return

    def _without_offer(self, rest: bytes) -> bytes:
        """Return a request that offers to go on by another protocol without the offer, to be read again, and the rest.

        A server may ignore the offer (RFC 9110, 7.8), which Java's client makes with its first requests. The parser
        does not, and leaves the body to the other protocol.
        """
        version = self.parser.get_http_version().encode()
        head = [b"%s %s HTTP/%s\r\n" % (self.parser.get_method(), self.url, version)]
        head += [b"%s: %s\r\n" % (name, value) for name, value in self.headers if name != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as the first parser
        return b"".join((*head, b"\r\n", rest))

    def on_message_begin(self) -> None:
        """Begin to count, and to wait, for a request."""
        self._deadline = self.loop.time() + MOST_SECONDS
        self._is_offer = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Count no more: the application bounds bodies."""
        self._is_in_head = False
        self._is_offer = self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"
        if not self._is_offer:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Be ready for the next request."""
        if self._is_offer:
            return  # the request is read again
        self._deadline = math.inf
        self._is_in_head = True
        self._head_bytes = 0
        super().on_message_complete()
        self._wait_for_next()

    def on_response_complete(self) -> None:
        """Answer the next request if it has come."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        self._wait_for_next()

    def _wait_for_next(self) -> None:
        """Begin to wait for the next request where all that came are complete, and answered."""
        if self._deadline == math.inf and self.cycle.response_complete:
            self._deadline = self.loop.time() + self.timeout_keep_alive

    def _check_time(self) -> None:
        """Close the connection where a request is late, or look again when the next one may be."""
        # One timer for a connection, since to set one and to cancel it for each request takes longer than to look.
        wait = self._deadline - self.loop.time()
        if wait > 0.0:
            wait = min(wait, MOST_SECONDS, self.timeout_keep_alive)  # no deadline that is set meanwhile comes sooner
            self._timer = self.loop.call_later(wait, self._check_time)
        else:
            self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Begin to answer a request, directly where that can be."""
        super()._start_asgi_task(cycle, functools.partial(self._answer, cycle, app))

    async def _answer(
        self, cycle: RequestResponseCycle, app: ASGIApp, scope: Scope, receive: Receive, send: Send
    ) -> None:
        response = await self._answer_directly(scope, receive)
        if response is None:
            await app(scope, receive, send)
        elif cycle.disconnected or self.flow.write_paused:
            await response(scope, receive, send)
        else:
            _write(cycle, response)


def _write(cycle: RequestResponseCycle, response: Response) -> None:
    """Write an answer, headers and all, at once, and note that as `cycle.send` does."""
    parts = [STATUS_LINE[response.status_code]]
    for name, value in (*cycle.default_headers, *response.raw_headers):
        parts.extend((name, b": ", value, b"\r\n"))
    if not cycle.keep_alive:
        parts.append(b"connection: close\r\n")
    cycle.transport.write(b"".join((*parts, b"\r\n", response.body)))
    cycle.response_started = cycle.response_complete = True
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
