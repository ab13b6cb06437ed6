"""Texts that are kept for good are short and can be printed, whichever way they come in."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.serving.personalizer.requests import rank_request, service_configuration, slots_request
from tests.serving.shop import PRODUCTS, make_model, running
from tests.serving.test_hostile import ask
from zoosim.serving.application import Application
from zoosim.serving.events import Kind
from zoosim.serving.ids import LONGEST_ID, LONGEST_TEXT, MOST_COLUMNS
from zoosim.serving.store.address import Address, open_store

LONG = "x" * 900_000
BAD = [LONG, "x" * (LONGEST_ID + 1), "a\x00b", "a\nb", "a\x7f", "\x1b[2J", "\x9b2J", "a\u2028b", "7" * (LONGEST_ID + 1)]
PERSONALIZER = "/personalizer/v1.1"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


def bodies(text: str) -> list[tuple[str, str, Any]]:
    """Return requests that would have a text kept, wherever a body has one."""
    described = {"category": "c1"}
    decide, feedback = "/v1/decisions", "/v1/decisions/known/feedback"
    return [
        ("POST", decide, {"candidates": [{"id": text, **described}]}),
        ("POST", decide, {"candidates": ["p1", {"id": text}]}),  # which would be among the ignored ones
        ("POST", decide, {"candidates": ["p1", text]}),
        ("POST", decide, {"decision_id": text}),
        ("POST", decide, {"visitor_id": text}),
        ("POST", feedback, {"rewards": {"click": 1}, "feedback_id": text}),
        ("POST", feedback, {"rewards": {text: 1}}),
        ("POST", feedback, {"rewards": {"click": 1}, "product": text}),
        ("POST", f"{PERSONALIZER}/rank", rank_request(eventId=text)),
        ("POST", f"{PERSONALIZER}/rank", {"actions": [{"id": text, "features": [described]}]}),
        ("POST", f"{PERSONALIZER}/multislot/rank", slots_request(eventId=text)),
    ]


@pytest.mark.parametrize("text", BAD, ids=lambda text: f"{text[:4]!r} {len(text)}")
def test_ids_are_refused_however_they_come_in(text: str, tmp_path: Path, model: Path) -> None:
    answers = ask(tmp_path, model, [(method, path, json.dumps(body).encode()) for method, path, body in bodies(text)])
    for answer in answers:
        assert answer.status_code == 400, answer.text
        assert len(answer.text) < 1_000
        assert "\n" not in answer.text
        assert text not in answer.text
    assert log_bytes(tmp_path) < 10_000


@pytest.mark.parametrize("number", [10**300, -(10**300)])
def test_numbers_are_ids_as_long_as_they_are_short(number: int, tmp_path: Path, model: Path) -> None:
    requests = [
        ("POST", "/v1/decisions", {"candidates": ["p1", number]}),
        ("POST", "/v1/decisions/known/feedback", {"rewards": {"click": 1}, "product": number}),
        ("POST", "/v1/decisions", {"candidates": [{"id": number, "category": "c1"}]}),
    ]
    answers = ask(tmp_path, model, [(method, path, json.dumps(body).encode()) for method, path, body in requests])
    assert [answer.status_code for answer in answers] == [400] * len(requests)


def test_ids_in_paths_are_ids(tmp_path: Path, model: Path) -> None:
    product = json.dumps({"features": {"category": "c1"}}).encode()
    paths = [f"/v1/products/{text}" for text in ("%1b%5b2J", "x" * 257, "%C2%9B")]
    events = [f"{PERSONALIZER}/events/{text}/reward" for text in ("%1b%5b2J", "x" * 257)]
    requests = [("PUT", path, product) for path in paths] + [("POST", path, b'{"value": 1.0}') for path in events]
    assert [answer.status_code for answer in ask(tmp_path, model, requests)] == [400] * 5


MANY = dict.fromkeys(map(str, range(MOST_COLUMNS + 1)))


@pytest.mark.parametrize("columns", [{LONG: 1}, {"a\x1b": 1}, {"": 1}, {"a": "x" * (LONGEST_TEXT + 1)}, MANY])
def test_columns_are_bounded_where_they_are_kept_as_they_came(columns: dict[str, Any], tmp_path: Path) -> None:
    """A service without a schema keeps requests, to infer one from them."""
    requests = [{"visitor": columns, "candidates": ["a", "b"]}, {"candidates": [{"id": "a", **columns}, "b"]}]
    answers = ask(tmp_path, None, [("POST", "/v1/decisions", json.dumps(body).encode()) for body in requests])
    assert [answer.status_code for answer in answers] == [400, 400]
    assert log_bytes(tmp_path) < 10_000


def test_what_personalizer_keeps_is_bounded(tmp_path: Path, model: Path) -> None:
    retraining = service_configuration(autoOptimizationFrequency=LONG)
    nested = service_configuration(modelRetrainDays=[1] * 100_000)
    requests: list[tuple[str, str, Any]] = [
        ("PUT", f"{PERSONALIZER}/configurations/service", retraining),
        ("PUT", f"{PERSONALIZER}/configurations/service", nested),
        ("PUT", f"{PERSONALIZER}/configurations/policy", {"name": LONG, "arguments": "--cb_explore_adf"}),
        ("PUT", f"{PERSONALIZER}/configurations/policy", {"name": "a", "arguments": f"--cb_explore_adf {LONG}"}),
        ("POST", f"{PERSONALIZER}/evaluations", {"name": LONG, "startTime": "2020-01-01", "endTime": "2100-01-01"}),
    ]
    answers = ask(tmp_path, model, [(method, path, json.dumps(body).encode()) for method, path, body in requests])
    assert [answer.status_code for answer in answers] == [400] * 5

    async def send_again() -> list[int]:
        async with running(tmp_path, None, most_delay=10.0) as service:
            transport = httpx2.ASGITransport(app=Application(service).starlette())
            async with httpx2.AsyncClient(transport=transport, base_url="http://shop") as client:
                statuses = []
                for text in ("x" * 257, "x" * 256):
                    headers = {"x-ms-client-request-id": text}
                    path = f"{PERSONALIZER}/events/e/reward"
                    answer = await client.post(path, json={"value": 1.0}, headers=headers)
                    statuses.append(answer.status_code)
                return statuses

    assert asyncio.run(send_again()) == [400, 204]
    assert log_bytes(tmp_path) < 10_000


def test_reading_bodies_corrupts_no_memory() -> None:
    """Msgspec 0.22 frees twice what it made for a union of a mapping and a text with a pattern: not here."""
    code = "import msgspec, zoosim.serving.bodies as b\nfor _ in range(100): [msgspec.json.Decoder(t) for t in {types}]"
    types = "(b.DecideBody, b.SearchBody, b.FeedbackBody, b.ProductBody)"
    assert subprocess.run([sys.executable, "-c", code.format(types=types)], check=False).returncode == 0


def test_ids_of_many_scripts_are_ids(tmp_path: Path, model: Path) -> None:
    ids = ["p 1", "Größe-42", "商品/7", "a" * LONGEST_ID, "👟", PRODUCTS[0], 7, "007"]
    body = {"candidates": [{"id": each, "category": "c1"} for each in ids], "decision_id": "ж/1", "visitor_id": "É"}
    (answer,) = ask(tmp_path, model, [("POST", "/v1/decisions", json.dumps(body).encode())])
    assert answer.status_code == 200
    assert len(answer.json()["propensities"]) == len(ids)


def log_bytes(folder: Path) -> int:
    """Return how much the rows of a log hold, less those that the requests of `ask` itself made."""
    store = open_store(Address(folder), read_only=True)
    return sum(len(row.body) + len(row.key or b"") for row in store.read(0, 1_000) if row.kind is not Kind.START)
