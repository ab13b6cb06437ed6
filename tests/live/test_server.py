"""A live page is served to browsers on this machine alone, and tells at last how things ended."""

import http.client
import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from zoosim.live.pages import HEADERS
from zoosim.live.server import PageServer


class Page:
    """A page that says what it is told to."""

    said = "begun"

    def panels(self) -> str:
        return f"<section>{self.said}</section>"


@pytest.fixture
def page() -> Page:
    return Page()


@pytest.fixture
def server(page: Page) -> Iterator[PageServer]:
    server = PageServer(lambda: f"<main>{page.panels()}</main>", page.panels)
    yield server
    server.close()


def ask(server: PageServer, path: str, host: str | None = None) -> tuple[int, http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(str(urlsplit(server.url).netloc), timeout=20)
    connection.request("GET", path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, answer, content


def test_it_answers_the_page_and_its_files(server: PageServer) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    status, answer, content = ask(server, "/")
    assert (status, content) == (200, b"<main><section>begun</section></main>")
    assert all(answer.headers[name] == value for name, value in HEADERS.items())
    for name, media_type in (("style.css", "text/css"), ("script.js", "text/javascript")):
        status, answer, content = ask(server, f"/console/{name}")
        assert (status, answer.headers["Content-Type"]) == (200, media_type)
        assert content
    for path in ("/other", "/console/", "/console/../pages.py", "/console/%2e%2e/pages.py"):
        assert ask(server, path)[0] == 404


def test_pages_of_other_sites_are_turned_away(server: PageServer) -> None:
    assert ask(server, "/", "evil.example")[0] == 403
    assert ask(server, "/console/events", "evil.example:8000")[0] == 403
    assert ask(server, "/", "localhost:1")[0] == 200


def test_browsers_are_told_of_news_and_at_last_how_it_ended(page: Page) -> None:
    server = PageServer(page.panels, page.panels)
    connection = http.client.HTTPConnection(str(urlsplit(server.url).netloc), timeout=20)
    connection.request("GET", "/console/events")
    answer = connection.getresponse()
    assert answer.headers["Content-Type"] == "text/event-stream"
    events = [next_event(answer)]
    page.said = "over"
    server._events._newest_at = -1e9  # as if time had passed since the last look
    server.close()
    while (event := next_event(answer)) is not None:
        events.append(event)
    assert events[0] == "<section>begun</section>"
    assert events[-1] == "<section>over</section>"
    with pytest.raises(ConnectionError):
        ask(server, "/")


def next_event(answer: http.client.HTTPResponse) -> str | None:
    """Return the panels of the next event; None at the end."""
    while line := answer.readline():
        if line.startswith(b"data: "):
            return str(json.loads(line.removeprefix(b"data: "))["html"])
    return None
