"""A connection: it stays open, what fails on its way is sent again, and what is refused says why."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from zoosim.playground import connection
from zoosim.playground.connection import Connection
from zoosim.serving.client import ServiceError

BROKEN = b""


class Server:
    """Gives answers in their order, and closes the connection where one is `BROKEN`."""

    def __init__(self, answers: list[bytes]) -> None:
        self.answers = answers
        self.bodies: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while self.answers:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except EOFError:
                break
            self.bodies.append(await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])))
            answer = self.answers.pop(0)
            if answer == BROKEN:
                break
            writer.write(answer)
        writer.close()


def answer(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d Words\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)


def with_server(server: Server, use: Callable[[Connection], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        there = Connection(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
        async with listener:
            await use(there)
            await there.close()

    asyncio.run(run())


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "FIRST_PAUSE", 0.001)


def test_requests_go_over_one_connection() -> None:
    server = Server([answer(200, b'{"a": 1}'), answer(200, b'{"b": 2}')])

    async def use(there: Connection) -> None:
        assert await there.post("/path", {"x": 1}) == {"a": 1}
        assert await there.post("/path", {"x": 2}) == {"b": 2}

    with_server(server, use)
    assert server.connections == 1
    assert server.bodies == [b'{"x":1}', b'{"x":2}']


def test_what_fails_on_its_way_is_sent_again() -> None:
    server = Server([BROKEN, answer(429, b'{"error": "busy"}'), answer(200, b"{}")])

    async def use(there: Connection) -> None:
        assert await there.post("/path", {"x": 1}) == {}

    with_server(server, use)
    assert server.connections == 2
    assert server.bodies == [b'{"x":1}'] * 3


def test_a_refusal_says_why() -> None:
    async def use(there: Connection) -> None:
        with pytest.raises(ServiceError, match="unknown product") as refusal:
            await there.post("/path", {})
        assert refusal.value.status == 400

    with_server(Server([answer(400, b'{"error": "unknown product"}')]), use)


def test_a_service_that_is_not_there_is_named() -> None:
    async def use() -> None:
        with pytest.raises(ServiceError, match=r"http://127\.0\.0\.1:9: the service cannot be reached"):
            await Connection("http://127.0.0.1:9").post("/path", {})

    asyncio.run(use())
