"""Requests that come most often, answered past the middleware and the other routes of an application.

The handler of such a request is that of its route. Whoever answers directly refuses nothing itself: a request with
which middleware has anything to do is left to the application, which answers it as it answers all others.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from zoosim.serving.tracing import HEADER

Handler = Callable[[Request], Awaitable[Response]]
"""Answers a request, errors in it, too: what it raises is a fault of the service."""


class DirectApplication(Protocol):
    """An ASGI application that can answer some requests directly."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        ...

    async def answer_directly(self, scope: Scope, receive: Receive) -> Response | None:
        """Return the answer to a request; None, with nothing received of it, where it is to go through all layers."""
        ...


class DirectRoutes:
    """Routes of an application whose requests are answered directly."""

    def __init__(self, routes: Sequence[Route]) -> None:
        """Answer by these routes.

        Args:
            routes: The first routes of the application, of which one at most fits a request; each to a `Handler`.
        """
        plain = [route for route in routes if not route.param_convertors]
        self._handlers: dict[tuple[str, str], Handler] = {
            (method, route.path): route.endpoint for route in plain for method in route.methods or ()
        }
        self._with_parameters = [route for route in routes if route.param_convertors]

    async def answer(self, scope: Scope, receive: Receive) -> Response | None:
        """Return the answer to a request; None where no route fits, or a trace is named, with which it may go on."""
        if HEADER in dict(scope["headers"]):
            return None
        path = scope["path"].removeprefix(scope["root_path"])
        handler = self._handlers.get((scope["method"], path))
        if handler is not None:
            return await handler(Request(scope, receive))
        for route in self._with_parameters:
            match, route_scope = route.matches(scope)
            if match is Match.FULL:
                response: Response = await route.endpoint(Request({**scope, **route_scope}, receive))
                return response
        return None
