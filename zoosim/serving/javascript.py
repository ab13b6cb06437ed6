"""The client for JavaScript, which a service hands out."""

from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

CLIENT_SCRIPT = Path(__file__).with_name("zoosim.mjs")


async def send_client(request: Request) -> Response:
    """Answer the client, which is nobody's secret."""
    return Response(_content(), media_type="text/javascript", headers={"X-Content-Type-Options": "nosniff"})


@cache
def _content() -> bytes:
    return CLIENT_SCRIPT.read_bytes()
