"""Traces: a request that says which trace it is part of is answered, and logged, as the next part of it.

The header `traceparent` is that of Trace Context (W3C Recommendation, 2021).
"""

import logging
import re
import secrets
import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = b"traceparent"
VERSION = "00"
UNUSED_VERSION = "ff"
FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
SAMPLED = 1
"""The flag of a request whose part in the trace is recorded."""

logger = logging.getLogger("zoosim.serving")


@dataclass
class Trace:
    """The part of a trace that a request is.

    Attributes:
        trace_id: The trace, 32 hexadecimal digits.
        parent_id, span_id: Its part that sent the request, and the one that the request is, 16 digits each.
        is_sampled: Whether the sender records its part.
        request: What kind of request it is; empty until that is known.
    """

    trace_id: str
    parent_id: str
    span_id: str
    is_sampled: bool
    request: str = ""

    @property
    def header(self) -> bytes:
        """The header that whoever goes on with this part sends."""
        return f"{VERSION}-{self.trace_id}-{self.span_id}-{int(self.is_sampled):02x}".encode()


CURRENT: ContextVar[Trace | None] = ContextVar("trace", default=None)
"""Trace of the request that is being answered; None for one that names no trace."""


def continued(headers: list[tuple[bytes, bytes]]) -> Trace | None:
    """Return the next part of the trace that the headers of a request name; None where none, or a bad one, is named.

    Of a later version of the header than is known here, what stands behind its first four fields is left out.
    """
    values = [value for name, value in headers if name == HEADER]
    match = FORM.fullmatch(values[0].decode("latin-1").strip()) if len(values) == 1 else None
    if match is None:
        return None
    version, trace_id, parent_id, flags, more = match.groups()
    is_unknown = version == UNUSED_VERSION or (version == VERSION and more)
    if is_unknown or not int(trace_id, 16) or not int(parent_id, 16):
        return None
    return Trace(trace_id, parent_id, secrets.token_hex(8), bool(int(flags, 16) & SAMPLED))


class Tracing:
    """Answers requests that name a trace with a part of their own in it, and logs a line for those that are sampled."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        trace = continued(scope["headers"]) if scope["type"] == "http" else None
        if trace is None:
            await self._app(scope, receive, send)
            return
        # What the server answers where the application raises before it began to.
        status = 500

        async def send_traced(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (HEADER, trace.header)]
            await send(message)

        began = time.perf_counter()
        token = CURRENT.set(trace)
        try:
            await self._app(scope, receive, send_traced)
        finally:
            if trace.is_sampled:
                seconds = round(time.perf_counter() - began, 6)
                logger.info("answered", extra={"fields": {"status": status, "seconds": seconds}})
            CURRENT.reset(token)


def trace_fields() -> dict[str, Any]:
    """Return what a line of the log says of the trace that is current."""
    trace = CURRENT.get()
    if trace is None:
        return {}
    fields = {"trace_id": trace.trace_id, "parent_id": trace.parent_id, "span_id": trace.span_id}
    return {**fields, "request": trace.request} if trace.request else fields
