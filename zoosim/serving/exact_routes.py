"""Requests that come most often, answered by their method and path without a look through all routes."""

from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

Handler = Callable[[Request], Awaitable[Response]]


class ExactRoutes:
    """Stands before an application, and answers the requests whose method and path are listed.

    A handler answers errors of requests itself: what it raises is a fault of the service.
    """

    def __init__(self, app: ASGIApp, handlers: Mapping[tuple[str, str], Handler]) -> None:
        """Answer by `handlers`, by method and path, and by the application for all others."""
        self._app = app
        self._handlers = dict(handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        handler = None
        if scope["type"] == "http":
            path = scope["path"].removeprefix(scope.get("root_path", ""))  # under which one of several loops stands
            handler = self._handlers.get((scope["method"], path))
        if handler is None:
            await self._app(scope, receive, send)
            return
        response = await handler(Request(scope, receive, send))
        await response(scope, receive, send)
