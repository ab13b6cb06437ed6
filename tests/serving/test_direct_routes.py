"""Requests that are answered past middleware and other routes."""

import asyncio
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message

from zoosim.serving.direct_routes import DirectRoutes

TRACED = (b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")


async def _decide(request: Request) -> Response:
    return PlainTextResponse(await request.body())


async def _feed(request: Request) -> Response:
    return PlainTextResponse(request.path_params["id"])


ROUTES = DirectRoutes(
    [
        Route("/v1/decisions", _decide, methods=["POST"]),
        Route("/v1/decisions/{id:path}/feedback", _feed, methods=["POST"]),
    ]
)


def _answer(method: str, path: str, **more: Any) -> bytes | None:
    async def receive() -> Message:
        return {"type": "http.request", "body": b"asked"}

    scope = {"type": "http", "method": method, "path": path, "root_path": "", "headers": [], **more}
    response = asyncio.run(ROUTES.answer(scope, receive))
    return None if response is None else bytes(response.body)


def test_a_method_and_path_goes_to_its_handler() -> None:
    assert _answer("POST", "/v1/decisions") == b"asked"
    assert _answer("POST", "/loops/a/v1/decisions", root_path="/loops/a") == b"asked"
    assert _answer("POST", "/v1/decisions/a/b/feedback") == b"a/b"


@pytest.mark.parametrize(
    ("method", "path", "root"),
    [
        ("GET", "/v1/decisions", ""),
        ("HEAD", "/v1/decisions", ""),
        ("POST", "/v1/decisions/", ""),
        ("POST", "/v1/decisions/1", ""),
        ("POST", "/v1/decisions/feedback", ""),
        ("POST", "/v1/decisions", "/v1"),
    ],
)
def test_all_others_are_left_to_the_application(method: str, path: str, root: str) -> None:
    assert _answer(method, path, root_path=root) is None


def test_a_trace_is_left_to_the_application_which_goes_on_with_it() -> None:
    assert _answer("POST", "/v1/decisions", headers=[TRACED]) is None
    assert _answer("POST", "/v1/decisions/a/feedback", headers=[TRACED]) is None
