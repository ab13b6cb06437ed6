"""A connection to a service that stays open, for visitors by the hundred thousand.

`zoosim.AsyncClient` is what a shop should use. Of a simulated visitor it would take half of all the time, as much as
decision and learning together; here a request takes a tenth of that.
"""

import asyncio
import re
from typing import Any
from urllib.parse import urlsplit

import msgspec

from zoosim.serving.client import FIRST_PAUSE, PASSING, TRIES, ServiceError

_LENGTH = re.compile(rb"(?i)content-length: *(\d+)")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Connection:
    """A connection, opened when it is first needed and again after it broke; one request at a time.

    What fails on its way is sent again, so requests should carry ids by which they count once.
    """

    def __init__(self, url: str) -> None:
        """Name the service.

        Args:
            url: Where it answers, such as `http://127.0.0.1:8100`.
        """
        address = urlsplit(url)
        self._url = url
        self._host = address.hostname or ""
        self._port = address.port or 80
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, body: Any) -> dict[str, Any]:
        """Return the answer to a request.

        Args:
            path: Its path.
            body: Its body, sent as JSON.

        Raises:
            ServiceError: the service refused, or could not be reached in `TRIES` tries.
        """
        content = _encode(body)
        head = f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
        request = head.encode() + b"Content-Length: %d\r\n\r\n" % len(content) + content
        status, answer = 0, b""
        for number in range(TRIES):
            if number:
                await asyncio.sleep(FIRST_PAUSE * 2 ** (number - 1))
            try:
                status, answer = await self._send(request)
            except (OSError, EOFError, asyncio.LimitOverrunError):
                status = 0
                await self.close()
            if status and status not in PASSING:
                break
        if status == 0:
            raise ServiceError(f"{self._url}: the service cannot be reached", 0)
        if status >= 400:
            raise ServiceError(str(_decode(answer).get("error", "refused")), status)
        return dict(_decode(answer))

    async def close(self) -> None:
        """Close it; the next request opens it again."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    async def _send(self, request: bytes) -> tuple[int, bytes]:
        """Send a request, and return the status and the body of the answer."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        body = await self._reader.readexactly(int(length[1])) if length else b"{}"
        return int(head[9:12]), body
