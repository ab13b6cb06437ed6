"""The client for JavaScript, which a service hands out, and its types."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

CLIENT_SCRIPT = Path(__file__).with_name("zoosim.mjs")
CLIENT_TYPES = Path(__file__).with_name("zoosim.d.mts")


def client_routes() -> list[Route]:
    """Return what answers the client and its types, which are nobody's secret."""
    return [_route(CLIENT_SCRIPT, "text/javascript"), _route(CLIENT_TYPES, "text/plain")]


def _route(path: Path, media_type: str) -> Route:
    content = path.read_bytes()

    async def answer(request: Request) -> Response:
        return Response(content, media_type=media_type, headers={"X-Content-Type-Options": "nosniff"})

    return Route(f"/{path.name}", answer)
