"""The HTTP protocol of the server, with bounds on what a client may send before its request is complete."""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 65_536
"""Bytes of a request's line and headers, and of what came with them."""

MOST_SECONDS = 30.0
"""Seconds within which a request must be complete, from the first byte or, on a new connection, from its start."""


class BoundedProtocol(HttpToolsProtocol):
    """Closes connections that send headers without end, or a request too slowly."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._head_bytes = 0
        self._is_in_head = True
        self._timer = self.loop.call_later(MOST_SECONDS, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes before a request's headers are complete."""
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES + len(data):
                self.transport.close()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Begin to count, and to wait, for a request."""
        self._timer.cancel()
        self._timer = self.loop.call_later(MOST_SECONDS, self.transport.close)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Count no more: the application bounds bodies."""
        self._is_in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Be ready for the next request."""
        self._timer.cancel()
        self._is_in_head = True
        self._head_bytes = 0
        super().on_message_complete()
