"""The client against a running service, and against one that fails on its way."""

import asyncio
import socket
from collections.abc import Iterator

import httpx2
import pytest

import zoosim
from tests.serving.process import ServiceProcess, serving
from tests.serving.shop import PRODUCTS, make_model
from zoosim.serving import client as client_module
from zoosim.serving.client import AsyncClient, Client, ServiceError

KEY = "a key of this test alone"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    folder = tmp_path_factory.mktemp("shop")
    with serving(folder / "service", make_model(folder), wait=0.5, decide_key=KEY, feedback_key=KEY) as running:
        yield running
        assert running.stop() == 0


def test_decide_and_give_feedback(service: ServiceProcess) -> None:
    with zoosim.Client(service.url, key=KEY) as client:
        decision = client.decide({"country": "de"}, PRODUCTS[:4], count=2, decision_id="visit/1")
        assert decision.product in PRODUCTS[:4]
        assert decision.propensity == decision.propensities[decision.product]
        assert client.decide({"country": "de"}, PRODUCTS[:4], count=2, decision_id="visit/1") == decision
        assert client.give_feedback(decision.id, {"click": 1.0}, product=decision.products[1]) == "accepted"
        assert client.give_feedback(decision.id, {"click": 1.0}, feedback_id="f") == "accepted"
        assert client.give_feedback(decision.id, {"click": 1.0}, feedback_id="f") == "duplicate"


def test_a_request_pins_and_forbids_products(service: ServiceProcess) -> None:
    with Client(service.url, key=KEY) as client:
        rules = {"pinned": {2: "p3"}, "forbidden": ["p1"]}
        decision = client.decide({"country": "de"}, PRODUCTS[:4], count=3, visitor_id="ann", **rules)  # type: ignore[arg-type]
        assert (decision.products[1], decision.shown_propensities[1]) == ("p3", 1.0)
        assert (decision.pinned, decision.barred, decision.lifted) == ((2,), {"forbidden": ["p1"]}, ())
        with pytest.raises(ServiceError, match="pinned: got place 5, expected 1 to 2"):
            client.decide({}, PRODUCTS[:4], count=2, pinned={5: "p0"})


def test_from_an_event_loop(service: ServiceProcess) -> None:
    async def use() -> str:
        async with AsyncClient(service.url, key=KEY) as client:
            decision = await client.decide({"country": "fr"}, [*PRODUCTS, {"id": "new", "category": "c1"}], defer=True)
            await client.activate(decision.id)
            return await client.give_feedback(decision.id, {"click": 0.0})

    assert asyncio.run(use()) == "accepted"


@pytest.mark.parametrize(
    ("candidates", "line"),
    [
        ([], "got none"),
        (["p1", "p1"], "twice"),
        (["nobody"], "'nobody'"),
        ([{"category": "c1"}], "expected an id"),
    ],
)
def test_bad_candidates_are_refused_in_one_line(service: ServiceProcess, candidates: list[object], line: str) -> None:
    with Client(service.url, key=KEY) as client, pytest.raises(ServiceError, match=line) as refusal:
        client.decide({}, candidates)  # type: ignore[arg-type]
    assert refusal.value.status == 400
    assert "\n" not in str(refusal.value)


def test_wrong_keys_are_refused(service: ServiceProcess) -> None:
    with Client(service.url, key="another key, as long as that") as client, pytest.raises(ServiceError, match="key"):
        client.decide({})
    answer = httpx2.get(f"{service.url}/v1/model", headers={"Authorization": f"Bearer {KEY}"})
    assert answer.status_code == 401
    assert "expected the key for admin" in answer.json()["error"]
    assert KEY not in service.output


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b"{", "truncated"),
        (b'{"visitor": {"age": 1e999}}', "out of range"),
        (b'{"visitor": {"age": NaN}}', "malformed"),
        (b'{"visitors": {}}', "unknown field"),
        (b'{"line\\nbreak": {}}', "unknown field `line break`"),
        (b'{"visitor": {"a": {"b": 1}}}', "visitor"),
        (b'{"count": 0}', "count"),
        (b'{"count": 1000}', "expected at most the"),
        (b'{"visitor": {"country": "' + b"x" * 1_100_000 + b'"}}', "more bytes"),
        (b"[" * 100_000, "body"),
        (b'{"visitor": {"country": "\xff\xfe"}}', "body"),
        (b'{"decision_id": "a\\nb"}', "decision_id"),
        (b'{"count": 1' + b"0" * 400 + b"}", "count"),
    ],
)
def test_bad_bodies_are_refused(service: ServiceProcess, body: bytes, line: str) -> None:
    answer = httpx2.post(f"{service.url}/v1/decisions", content=body, headers={"Authorization": f"Bearer {KEY}"})
    assert answer.status_code in (400, 413)
    assert line in answer.json()["error"]


def test_numbers_of_any_size_are_values(service: ServiceProcess) -> None:
    with Client(service.url, key=KEY) as client:
        assert client.decide({"country": 10**400, "age": -(2**64)}, PRODUCTS[:2]).product in PRODUCTS[:2]


def test_headers_without_end_are_cut_off(service: ServiceProcess) -> None:
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nX: ")
        with pytest.raises(OSError):  # noqa: PT011 - reset or broken pipe, by how fast it is cut off
            connection.sendall(b"y" * 50_000_000)
    assert httpx2.get(f"{service.url}/livez").status_code == 200


def test_what_the_service_says_of_itself(service: ServiceProcess) -> None:
    assert httpx2.get(f"{service.url}/livez").status_code == 200
    assert httpx2.get(f"{service.url}/readyz").json() == {"status": "ready"}
    described = httpx2.get(f"{service.url}/openapi.json").json()
    assert "DecideBody" in described["components"]["schemas"]
    assert httpx2.get(f"{service.url}/nowhere").status_code == 404


def test_what_fails_on_its_way_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    failure = httpx2.ConnectError("refused")
    answers = iter([None, httpx2.Response(429, headers={"Retry-After": "0"})])
    bodies = []

    def post(request: httpx2.Request) -> httpx2.Response:
        bodies.append(request.content)
        answer = next(answers, httpx2.Response(200, json={"status": "accepted"}))
        if answer is None:
            raise failure
        return answer

    monkeypatch.setattr(client_module, "FIRST_PAUSE", 0.001)
    client = Client("http://shop")
    client._http = httpx2.Client(base_url="http://shop", transport=httpx2.MockTransport(post))
    assert client.give_feedback("d", {"click": 1.0}) == "accepted"
    assert len(bodies) == 3
    assert len(set(bodies)) == 1


def test_a_service_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FIRST_PAUSE", 0.001)
    with Client("http://127.0.0.1:9", timeout=1.0) as client, pytest.raises(ServiceError, match="cannot be reached"):
        client.decide({})
