"""Requests that are answered by their method and path alone."""

import asyncio
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from zoosim.serving.exact_routes import ExactRoutes


async def _decide(request: Request) -> Response:
    return PlainTextResponse((await request.body()).decode())


async def _other(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("other")(scope, receive, send)


def _answer(method: str, path: str, **more: Any) -> bytes:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"asked"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": [], **more}
    asyncio.run(ExactRoutes(_other, {("POST", "/v1/decisions"): _decide})(scope, receive, send))
    return bytes(sent[-1]["body"])


def test_a_listed_method_and_path_goes_to_its_handler() -> None:
    assert _answer("POST", "/v1/decisions") == b"asked"
    assert _answer("POST", "/loops/a/v1/decisions", root_path="/loops/a") == b"asked"


@pytest.mark.parametrize(
    ("method", "path", "root"),
    [("GET", "/v1/decisions", ""), ("POST", "/v1/decisions/1", ""), ("POST", "/v1/decisions", "/v1")],
)
def test_all_others_go_to_the_application(method: str, path: str, root: str) -> None:
    assert _answer(method, path, root_path=root) == b"other"
