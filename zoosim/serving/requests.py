"""Read requests, as far as the service takes them."""

from starlette.requests import ClientDisconnect, Request

from zoosim.core.errors import ZoosimError

MOST_MODEL_BYTES = 200_000_000
"""The largest file of a model that is taken in."""


class TooLarge(ZoosimError):
    """A body of more bytes than the service takes."""


def bearer_key(request: Request) -> str:
    """Return the key that a request brings in `Authorization: Bearer`; empty without one."""
    for name, value in request.scope["headers"]:
        if name == b"authorization":
            kind, _, key = value.decode("latin-1").partition(" ")
            return key if kind.lower() == "bearer" else ""
    return ""


async def read_body(request: Request, most_bytes: int) -> bytes:
    """Return a body; raises `TooLarge` as soon as it is, and `ClientDisconnect` where the client is gone."""
    parts: list[bytes] = []
    size = 0
    is_complete = False
    # Counted as it comes: the length that a client announces may be missing, or wrong.
    while not is_complete:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part = message.get("body", b"")
        size += len(part)
        if size > most_bytes:
            raise TooLarge(f"body: got more bytes than are taken, expected at most {most_bytes:,}")
        parts.append(part)
        is_complete = not message.get("more_body", False)
    return b"".join(parts)
