"""The client for JavaScript in Node, against a running service, and against one that fails on its way."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

import zoosim
from tests.node import run_node
from tests.report.browser import started
from tests.report.test_browser import CHROMIUM
from tests.serving.process import ServiceProcess, serving
from tests.serving.shop import PRODUCTS, make_boost_model, make_model
from zoosim.serving import client as python_client
from zoosim.serving.javascript import CLIENT_SCRIPT, CLIENT_TYPES

KEY = "a key of this test alone"

CALL = f"""
import * as zoosim from "{CLIENT_SCRIPT.as_uri()}";
const shop = (url, key, timeout) => new zoosim.Client(url, {{ key, timeout }});
const failure = async call => {{
  try {{ await call(); return null; }} catch (error) {{ return [error.name, error.message, error.status ?? null]; }}
}};
const print = value => console.log(JSON.stringify(value));
"""


def call(body: str, *arguments: str) -> Any:
    """Return what a function of these lines, with the client at hand, returns."""
    script = f"{CALL}\nprint(await (async (...words) => {{ {body} }})(...process.argv.slice(1)));"
    return json.loads(run_node(script, *arguments))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    folder = tmp_path_factory.mktemp("shop")
    with serving(folder / "service", make_model(folder), wait=60, decide_key=KEY, feedback_key=KEY) as running:
        yield running


def test_types_are_handed_out_and_name_all_that_the_client_has(service: ServiceProcess) -> None:
    types = httpx2.get(f"{service.url}/zoosim.d.mts").text
    assert types == CLIENT_TYPES.read_text(encoding="utf-8")
    script = CLIENT_SCRIPT.read_text(encoding="utf-8")
    exported = re.findall(r"^export (const|class) (\w+)", script, re.MULTILINE)
    assert re.findall(r"^export (const|class) (\w+)", types, re.MULTILINE) == exported
    methods = set(re.findall(r"^  async (\w+)\(", script, re.MULTILINE))
    assert methods == {"decide", "rank", "giveFeedback", "activate"}
    for name in (*methods, *re.findall(r"@property \{[^}]*\}+ (\w+) ", script)):
        assert re.search(rf"^  {name}[?:(]", types, re.MULTILINE), name


def test_it_decides_as_the_client_in_python_does(service: ServiceProcess) -> None:
    body = """
    const [url, key, products] = words;
    const client = shop(url + "/", key);
    const options = { count: 3, decisionId: "visit/1", visitorId: "ann", pinned: { 2: "p3" }, forbidden: ["p1"] };
    const decision = await client.decide({ country: "de", colour: "red" }, JSON.parse(products), options);
    return [decision, await client.decide({ country: "de", colour: "red" }, JSON.parse(products), options)];
    """
    decision, again = call(body, service.url, KEY, json.dumps(PRODUCTS[:5]))
    assert decision == again
    with zoosim.Client(service.url, KEY) as shop:
        expected = shop.decide(
            {"country": "de", "colour": "red"},
            PRODUCTS[:5],
            count=3,
            decision_id="visit/1",
            visitor_id="ann",
            pinned={2: "p3"},
            forbidden=["p1"],
        )
    assert decision == {
        "id": expected.id,
        "product": expected.product,
        "propensity": expected.propensity,
        "products": list(expected.products),
        "shownPropensities": list(expected.shown_propensities),
        "propensities": expected.propensities,
        "model": expected.model,
        "arm": "champion",
        "ignored": [],
        "warnings": list(expected.warnings),
        "pinned": [2],
        "barred": {"forbidden": ["p1"]},
        "lifted": [],
    }
    assert expected.warnings


def test_feedback_counts_once(service: ServiceProcess) -> None:
    body = """
    const client = shop(...words);
    const { id, product } = await client.decide({}, ["p1", { id: "new", category: "c1" }], { defer: true });
    const first = await client.activate(id);
    const feedback = () => client.giveFeedback(id, { click: 1 }, { product, feedbackId: "f/1" });
    const other = await client.decide({});
    return [first, await feedback(), await feedback(), await client.giveFeedback(other.id, { click: 0 }), id, other.id];
    """
    *statuses, one, another = call(body, service.url, KEY)
    assert statuses == ["accepted", "accepted", "duplicate", "accepted"]
    assert len({one, another}) == 2
    assert [len(each) for each in (one, another)] == [32, 32]


def test_it_ranks_searches(tmp_path: Path) -> None:
    body = """
    const scores = { "SKU-0001": 1.3, "SKU-0003": 0.8, "nobody": 1 };
    return await shop(...words).rank({ segment: "savers", query_type: "exact" }, scores);
    """
    with serving(tmp_path / "service", make_boost_model(tmp_path)) as running:
        ranking = call(body, running.url)
    assert sorted(ranking["products"]) == ["SKU-0001", "SKU-0003"]
    assert (ranking["ignored"], ranking["arm"]) == (["nobody"], "champion")
    assert ranking["density"] > 0
    assert len(ranking["boosts"]) > 1


def test_what_is_wrong_is_said(service: ServiceProcess) -> None:
    body = """
    const [url, key] = words;
    const client = shop(url, key);
    const calls = [
      () => client.decide({}, []),
      () => shop(url, "another key, as long as that").decide({}),
      () => client.giveFeedback("nowhere", { click: 1 }),
      () => client.decide({ age: NaN }),
      () => client.decide({}, ["p1"], { visitor_id: "ann" }),
      () => new zoosim.Client("localhost:8100"),
      () => shop(url, "Schlüssel€"),
    ];
    return Promise.all(calls.map(failure));
    """
    empty, key, unknown, *types = call(body, service.url, KEY)
    assert (empty[0], empty[2]) == ("ServiceError", 400)
    assert "got none" in empty[1]
    assert key[2] == 401
    assert unknown[2] == 404
    assert [kind for kind, _, _ in types] == ["TypeError"] * 4
    for (_, line, _), part in zip(types, ["age", "visitor_id", "localhost", "key"], strict=True):
        assert part in line


def test_it_fails_as_the_client_in_python_does() -> None:
    constants = "return [zoosim.TRIES, zoosim.FIRST_PAUSE, zoosim.LONGEST_PAUSE, zoosim.TIMEOUT];"
    defaults = (python_client.TRIES, python_client.FIRST_PAUSE, python_client.LONGEST_PAUSE, 5.0)
    assert tuple(call(constants)) == defaults


class Failing(BaseHTTPRequestHandler):
    """Says nothing to a first request, asks to wait at a second, answers no JSON at a third of another path."""

    bodies: list[bytes]

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.startswith("/v1/searches"):
            self._answer(200, b"<html>")
        elif len(self.bodies) == 1:
            self.close_connection = True
        elif len(self.bodies) == 2:
            self._answer(429, b'{"error": "busy"}')
        else:
            self._answer(200, b'{"status": "accepted"}')

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


@contextmanager
def failing_service() -> Iterator[tuple[str, list[bytes]]]:
    bodies: list[bytes] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Failing,), {"bodies": bodies}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", bodies
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_what_fails_on_its_way_is_sent_again() -> None:
    with failing_service() as (url, bodies):
        assert call("return shop(...words).giveFeedback('d', { click: 1 });", url) == "accepted"
        assert len(bodies) == 3
        assert len(set(bodies)) == 1
        name, line, status = call("return failure(() => shop(...words).rank({}, {}));", url)
        assert (name, status) == ("ServiceError", 200)
        assert "is this a zoosim service?" in line


def test_a_service_that_is_not_there() -> None:
    body = "return failure(() => new zoosim.Client('http://127.0.0.1:9', { loop: 'home page' }).decide({}));"
    name, line, status = call(body)
    assert (name, status) == ("ServiceError", 0)
    assert "cannot be reached" in line
    assert "http://127.0.0.1:9/loops/home%20page: " in line


def test_a_service_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        name, line, status = call("return failure(() => shop(words[0], '', 0.05).decide({}));", url)
    assert (name, status) == ("ServiceError", 0)
    assert "timeout" in line


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_in_a_page_of_the_service(tmp_path: Path) -> None:
    script = """
    import("/zoosim.mjs").then(async ({ Client }) => {
      const shop = new Client("/");
      const { id } = await shop.decide({ country: "de" }, ["p1", "p2"]);
      return shop.giveFeedback(id, { click: 1 });
    })
    """
    with serving(tmp_path / "service", make_model(tmp_path)) as running, started(str(CHROMIUM), tmp_path) as browser:
        browser.open(running.url, 1400)
        assert browser.run(script) == "accepted"


def test_the_service_hands_it_out(service: ServiceProcess) -> None:
    answer = httpx2.get(f"{service.url}/zoosim.mjs")
    assert answer.content == CLIENT_SCRIPT.read_bytes()
    assert answer.headers["content-type"].startswith("text/javascript")
