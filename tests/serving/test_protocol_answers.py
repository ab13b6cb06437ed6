"""Answers over a connection, directly or through the application: whole, in order, and to whoever is still there."""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable, Iterator

import pytest
import uvicorn
import uvloop
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from zoosim.serving import protocol
from zoosim.serving.answers import refusal
from zoosim.serving.direct_routes import DirectRoutes
from zoosim.serving.protocol import BoundedProtocol, Connections
from zoosim.serving.requests import TooLarge, read_body

MOST_BYTES = 1_000
LARGE = 3_000_000
"""Bytes of an answer that no socket holds."""


class Application:
    """Answers with what it was sent, directly at one path; a body that begins with `wait` once it may go on."""

    def __init__(self) -> None:
        self.answered: list[str] = []
        self.may_go_on = asyncio.Event()
        self._routes = DirectRoutes([Route("/direct", self._answer, methods=["POST"])])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        await PlainTextResponse(f"{scope['method']} {scope['path']}")(scope, receive, send)

    async def answer_directly(self, scope: Scope, receive: Receive) -> Response | None:
        return await self._routes.answer(scope, receive)

    async def _answer(self, request: Request) -> Response:
        if "refuse" in request.headers:
            return PlainTextResponse("refused", 401)
        try:
            body = (await read_body(request, MOST_BYTES)).decode()
        except ClientDisconnect:
            self.answered.append("gone")
            return Response(status_code=400)
        except TooLarge as error:
            return refusal(error)
        if body == "fail":
            raise ValueError("a fault")
        if body == "wait":
            await self.may_go_on.wait()
        self.answered.append(body)
        return PlainTextResponse("x" * LARGE if body == "large" else body)


class Served:
    """A server in this process, and connections to it."""

    def __init__(self, keep_alive: int) -> None:
        self.application = Application()
        self.server = _Server(
            uvicorn.Config(
                self.application,
                port=0,
                http=functools.partial(BoundedProtocol, Connections(100), self.application),  # type: ignore[arg-type]
                lifespan="off",
                timeout_keep_alive=keep_alive,
                log_config=None,
            )
        )
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection."""
        port = self.server.servers[0].sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        self._writers.append(writer)
        return reader, writer

    async def close(self) -> None:
        """Close all connections."""
        for writer in self._writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    while not condition():
        await asyncio.sleep(0.001)


def talk(talking: Callable[[Served], Awaitable[None]], keep_alive: int = 75) -> None:
    """Talk to a server, for ten seconds at most."""

    async def run() -> None:
        served = Served(keep_alive)
        serving = asyncio.create_task(served.server.serve())
        async with asyncio.timeout(10.0):
            await until(lambda: served.server.started)
            try:
                await talking(served)
            finally:
                served.application.may_go_on.set()
                await served.close()
                served.server.should_exit = True
                await serving

    uvloop.run(run())


def request(body: str, path: str = "/direct", headers: str = "", method: str = "POST") -> bytes:
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{length}{headers}\r\n{body}".encode()


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, str, str]:
    """Return the status of the next answer, its headers and its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    headers = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:-1])
    assert len(headers) == len(head.splitlines()) - 2
    assert "date" in headers
    body = await reader.readexactly(int(headers["content-length"]))
    return int(head.split()[1]), head.lower(), body.decode()


async def texts(reader: asyncio.StreamReader, count: int) -> list[str]:
    return [(await read_answer(reader))[2] for _ in range(count)]


def test_pipelined_requests_are_answered_in_order() -> None:
    async def talking(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(request("a") + request("wait") + request("", "/other", method="GET") + request("b"))
        assert await texts(reader, 1) == ["a"]
        served.application.may_go_on.set()
        assert await texts(reader, 3) == ["wait", "GET /other", "b"]
        writer.write(request("c"))
        assert await texts(reader, 1) == ["c"]

    talk(talking)


def test_other_methods_go_through_the_application() -> None:
    async def talking(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(request("", method="GET") + request("", method="DELETE"))
        assert await texts(reader, 2) == ["GET /direct", "DELETE /direct"]
        writer.write(request("", method="NONE"))
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")

    talk(talking)


def test_a_body_may_come_in_chunks() -> None:
    async def talking(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(request("", headers="Transfer-Encoding: chunked\r\n"))
        for chunk in (b"3\r\nabc\r\n", b"2\r\n", b"de\r\n", b"0\r\n\r\n" + request("next")):
            await asyncio.sleep(0.01)
            writer.write(chunk)
        assert await texts(reader, 2) == ["abcde", "next"]

    talk(talking)


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_that_is_too_long_is_refused_before_it_is_there(is_chunked: bool) -> None:
    async def talking(served: Served) -> None:
        reader, writer = await served.connect()
        first, rest = "x" * (MOST_BYTES + 1), "x" * 99
        if is_chunked:
            head = request("", headers="Transfer-Encoding: chunked\r\n")
            writer.write(head + f"{len(first):x}\r\n{first}\r\n".encode())
            rest = f"{len(rest):x}\r\n{rest}\r\n0\r\n\r\n"
        else:
            writer.write(request("", headers=f"Content-Length: {len(first + rest)}\r\n") + first.encode())
        status, _head, body = await read_answer(reader)
        assert (status, body) == (413, '{"error":"body: got more bytes than are taken, expected at most 1,000"}')
        writer.write(rest.encode() + request("next"))
        assert await texts(reader, 1) == ["next"]

    talk(talking)


def test_only_a_body_that_is_read_is_asked_for() -> None:
    expect = "Content-Length: 2\r\nExpect: 100-continue\r\n"

    async def talking(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(request("", headers=expect))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"ab" + request("", headers=f"{expect}Refuse: yes\r\n"))
        assert await texts(reader, 2) == ["ab", "refused"]

    talk(talking)


@pytest.mark.parametrize("sent", [b"ab", b"wait"], ids=["body", "answer"])
def test_who_goes_away_disturbs_nobody(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def talking(served: Served) -> None:
        _, writer = await served.connect()
        writer.write(request("", headers="Content-Length: 4\r\n") + sent)
        await until(lambda: bool(served.server.server_state.tasks))
        writer.transport.abort()
        await until(lambda: not served.server.server_state.connections)
        served.application.may_go_on.set()
        await until(lambda: not served.server.server_state.tasks)
        reader, writer = await served.connect()
        writer.write(request("next"))
        assert await texts(reader, 1) == ["next"]
        assert served.application.answered == ["gone" if sent == b"ab" else "wait", "next"]

    talk(talking)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("is_old", [False, True])
def test_a_connection_is_closed_where_the_client_asks_for_it(is_old: bool) -> None:
    async def talking(served: Served) -> None:
        reader, writer = await served.connect()
        content = request("a", headers="" if is_old else "Connection: close\r\n")
        writer.write(content.replace(b"HTTP/1.1", b"HTTP/1.0") if is_old else content)
        status, head, body = await read_answer(reader)
        assert (status, body) == (200, "a")
        assert "connection: close" in head
        assert await reader.read() == b""

    talk(talking)


def test_a_fault_is_logged_and_answered(caplog: pytest.LogCaptureFixture) -> None:
    async def talking(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(request("fail"))
        assert (await read_answer(reader))[0] == 500
        assert await reader.read() == b""

    talk(talking)
    assert "ValueError: a fault" in caplog.text


def test_what_is_open_at_the_end_is_answered() -> None:
    async def talking(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(request("wait"))
        await until(lambda: bool(served.server.server_state.tasks))
        served.server.should_exit = True
        await until(lambda: not served.server.servers[0].is_serving())
        served.application.may_go_on.set()
        status, head, body = await read_answer(reader)
        assert (status, body) == (200, "wait")
        assert "connection: close" in head
        assert await reader.read() == b""

    talk(talking)


def test_answers_wait_for_a_client_that_reads_slowly() -> None:
    async def talking(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(request("large") * 5)
        await asyncio.sleep(0.1)
        assert len(served.application.answered) < 5
        assert await texts(reader, 5) == ["x" * LARGE] * 5

    talk(talking)


@pytest.mark.parametrize("part", [b"", b"POST /direct HT", request("", headers="Content-Length: 4\r\n") + b"ab"])
def test_a_request_must_be_complete_in_time(part: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MOST_SECONDS", 0.5)

    async def talking(served: Served) -> None:
        for first in (b"", request("first")):
            reader, writer = await served.connect()
            writer.write(first)
            if first:
                assert await texts(reader, 1) == ["first"]
            if part or not first:
                writer.write(part)
                assert await reader.read() == b""
            else:  # until it begins, the time of idle connections counts
                await asyncio.sleep(1.0)
                writer.write(request("later"))
                assert await texts(reader, 1) == ["later"]

    talk(talking)


def test_an_answer_may_take_longer_than_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MOST_SECONDS", 0.5)

    async def talking(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(request("wait"))
        await asyncio.sleep(1.0)
        served.application.may_go_on.set()
        assert await texts(reader, 1) == ["wait"]

    talk(talking)


@pytest.mark.parametrize(
    ("sent", "more"),
    [
        (request("a"), b""),
        (request("a"), b"\r\n"),
        (request("a") + request("", "/other", method="GET"), b""),
        (request("", headers="Content-Length: 3\r\nRefuse: yes\r\n"), b"abc"),
    ],
    ids=["answered", "empty line", "pipelined", "answered before it is complete"],
)
def test_an_idle_connection_is_closed(sent: bytes, more: bytes) -> None:
    async def talking(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(sent)
        await texts(reader, sent.count(b"HTTP/1.1"))
        writer.write(more)
        assert await reader.read() == b""

    talk(talking, keep_alive=1)


def test_a_connection_is_not_idle_while_it_is_used() -> None:
    async def talking(served: Served) -> None:
        reader, writer = await served.connect()
        for _ in range(3):
            await asyncio.sleep(0.8)
            writer.write(request("a"))
            assert await texts(reader, 1) == ["a"]
        writer.write(request("wait"))
        await asyncio.sleep(2.5)
        served.application.may_go_on.set()
        assert await texts(reader, 1) == ["wait"]

    talk(talking, keep_alive=2)


OFFER = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQBAAAAAAIAAAAA\r\n"
"""The headers by which Java's client offers to go on by HTTP/2."""


def test_offers_of_other_protocols_are_ignored() -> None:
    async def talking(served: Served) -> None:
        reader, writer = await served.connect()
        sent = request("one", headers=OFFER)
        writer.write(sent[:30])
        await writer.drain()
        await asyncio.sleep(0.01)
        writer.write(sent[30:-1])
        await writer.drain()
        await asyncio.sleep(0.01)
        writer.write(sent[-1:] + b"".join(request(f"{number}", headers=OFFER) for number in range(2_000)))
        assert await texts(reader, 2_001) == ["one", *map(str, range(2_000))]
        writer.write(request("", path="/other", headers=OFFER, method="GET") + request("last"))
        assert await texts(reader, 2) == ["GET /other", "last"]

    talk(talking)


def test_nothing_is_opened_to_another_host() -> None:
    async def talking(served: Served) -> None:
        reader, writer = await served.connect()
        writer.write(b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n" + request("one"))
        answer = await reader.read(1_000)
        assert b"one" not in answer

    talk(talking)
