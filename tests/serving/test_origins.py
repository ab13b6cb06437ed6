"""Without a key a service answers programs of its machine, and no pages of others."""

import asyncio

import httpx2
import pytest
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from zoosim.serving.origins import OriginCheck


class Application:
    """Answers anything."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("done")(scope, receive, send)

    async def answer_directly(self, scope: Scope, receive: Receive) -> Response | None:
        return PlainTextResponse("done")


def status(headers: dict[str, str], hosts: str = "", host: str = "127.0.0.1") -> int:
    """Return how a service at this address answers a request with these headers."""
    guarded = OriginCheck(Application(), host, hosts)
    directly: list[Response | None] = []

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        directly.append(await guarded.answer_directly(scope, receive))
        await guarded(scope, receive, send)

    async def ask() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=guard)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost:8100") as client:
            return await client.post("/v1/decisions", headers=headers)

    answer = asyncio.run(ask())
    assert (directly == [None]) == (answer.status_code == 403)
    if answer.status_code == 403:
        assert "\n" not in answer.json()["error"]
        assert "set hosts or a key" in answer.json()["error"]
    return answer.status_code


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8100", "127.0.0.1:8100", "127.0.0.2", "[::1]:8100"])
def test_this_machine_may_ask(host: str) -> None:
    assert status({"host": host}) == 200
    assert status({"host": host, "origin": f"http://{host}"}) == 200
    assert status({"host": host, "sec-fetch-site": "none"}) == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8100", "localhost.evil.example", "10.0.0.5", "[", "::1]", "a@b"]
)
def test_a_name_that_was_made_to_lead_here_is_refused(host: str) -> None:
    assert status({"host": host}) == 403
    assert status({"host": host, "origin": f"http://{host}"}) == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:3000"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example", "sec-fetch-site": "same-origin"},
    ],
)
def test_pages_of_others_are_refused(headers: dict[str, str]) -> None:
    assert status(headers) == 403


def test_names_that_are_listed_may_ask() -> None:
    assert status({"host": "shop.internal:80"}, hosts="a.example, Shop.internal") == 200
    assert status({"host": "shop.internal", "origin": "https://a.example"}, hosts="a.example,shop.internal") == 200
    assert status({"host": "b.example"}, hosts="a.example") == 403
    assert status({"host": "b.example", "origin": "https://c.example"}, hosts="*") == 200
