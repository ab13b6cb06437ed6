"""The trace of a request goes on in the header of its answer and in the line that is logged of it."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.serving.process import ServiceProcess, serving
from tests.serving.shop import make_model
from tests.waiting import eventually
from zoosim.serving.tracing import continued

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SENT = f"00-{TRACE}-{PARENT}-01"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    folder = tmp_path_factory.mktemp("traced")
    with serving(folder / "service", make_model(folder)) as process:
        yield process


@pytest.fixture
def http(service: ServiceProcess) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=service.url, timeout=30.0) as client:
        yield client


def logged(service: ServiceProcess, offset: int = 0) -> list[dict[str, Any]]:
    """Return the lines of requests that were answered."""
    lines = [json.loads(line) for line in service.output[offset:].splitlines() if line.startswith("{")]
    return [line for line in lines if line["message"] == "answered"]


def test_decisions_and_feedback_go_on_with_the_trace(service: ServiceProcess, http: httpx2.Client) -> None:
    offset = len(service.output)
    headers = {"traceparent": SENT}
    decided = http.post("/v1/decisions", json={"decision_id": "somebody 1"}, headers=headers)
    body = {"rewards": {"click": 1}}
    fed = http.post("/v1/decisions/somebody%201/feedback", json=body, headers=headers)
    ranked = http.post("/personalizer/v1.0/rank", json={}, headers=headers)
    refused = http.post("/v1/decisions", json={"count": 0}, headers=headers)
    answers = (decided, fed, ranked, refused)
    assert [answer.status_code for answer in answers] == [200, 200, 400, 400]
    parts = [continued([(b"traceparent", answer.headers["traceparent"].encode())]) for answer in answers]
    assert {part.trace_id for part in parts if part} == {TRACE}
    spans = [part.parent_id for part in parts if part]
    assert len({*spans, PARENT}) == 5
    eventually(lambda: len(logged(service, offset)) >= 4)
    lines = logged(service, offset)
    assert [line["span_id"] for line in lines] == spans
    assert [line["request"] for line in lines] == ["decide", "feedback", "personalizer rank", "decide"]
    assert [line["status"] for line in lines] == [200, 200, 400, 400]
    assert all((line["trace_id"], line["parent_id"]) == (TRACE, PARENT) for line in lines)
    assert all(0.0 < line["seconds"] < 10.0 for line in lines)
    assert "somebody" not in service.output[offset:]


def test_what_is_not_sampled_is_not_logged(service: ServiceProcess, http: httpx2.Client) -> None:
    offset = len(service.output)
    answer = http.post("/v1/decisions", json={}, headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
    assert answer.headers["traceparent"].startswith(f"00-{TRACE}-")
    assert answer.headers["traceparent"].endswith("-00")
    assert "traceparent" not in http.post("/v1/decisions", json={}).headers
    assert logged(service, offset) == []


@pytest.mark.parametrize(
    "value",
    [
        "",
        "x",
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE}-{PARENT}-1",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[1:]}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"ff-{TRACE}-{PARENT}-01",
        f"cc-{TRACE}-{PARENT}-01more",
        f"00-{TRACE}-{PARENT}-01, 00-{TRACE}-{PARENT}-01",
        "00-" + "é" * 32 + f"-{PARENT}-01",
    ],
)
def test_bad_traces_are_ignored(service: ServiceProcess, http: httpx2.Client, value: str) -> None:
    offset = len(service.output)
    answer = http.post("/v1/decisions", json={}, headers={b"traceparent": value.encode("latin-1")})
    assert answer.status_code == 200
    assert "traceparent" not in answer.headers
    assert logged(service, offset) == []


def test_of_two_traces_none_is_continued() -> None:
    assert continued([(b"traceparent", SENT.encode())] * 2) is None


def test_later_versions_may_have_more_fields() -> None:
    part = continued([(b"traceparent", f"cc-{TRACE}-{PARENT}-03-more".encode())])
    assert part is not None
    assert (part.trace_id, part.parent_id, part.is_sampled) == (TRACE, PARENT, True)
    assert part.header == f"00-{TRACE}-{part.span_id}-01".encode()
