"""Read requests, as far as the service takes them."""

from starlette.requests import Request

from zoosim.core.errors import ZoosimError

MOST_MODEL_BYTES = 200_000_000
"""The largest file of a model that is taken in."""


class TooLarge(ZoosimError):
    """A body of more bytes than the service takes."""


def bearer_key(request: Request) -> str:
    """Return the key that a request brings in `Authorization: Bearer`; empty without one."""
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    return key if kind.lower() == "bearer" else ""


async def read_body(request: Request, most_bytes: int) -> bytes:
    """Return a body; raises `TooLarge` as soon as it is."""
    parts: list[bytes] = []
    size = 0
    # Counted as it comes: the length that a client announces may be missing, or wrong.
    async for part in request.stream():
        size += len(part)
        if size > most_bytes:
            raise TooLarge(f"body: got more bytes than are taken, expected at most {most_bytes:,}")
        parts.append(part)
    return b"".join(parts)
