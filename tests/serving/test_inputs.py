"""The contract of requests: what the model was not made for is told in the answer, counted, and refused where asked."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from tests.serving.shop import PRODUCTS, make_boost_model, make_model, running, with_service
from zoosim.core.errors import PolicyError
from zoosim.schema.column import DeviationKind
from zoosim.serving.application import Application
from zoosim.serving.bodies import DecideBody, SearchBody, SearchVisitor
from zoosim.serving.events import Kind
from zoosim.serving.inputs import CANDIDATES, MOST_COLUMNS, OTHERS, VISITOR, InputCounts, InputKey
from zoosim.serving.service import Service
from zoosim.serving.store.address import Address, open_store

TAKEN_UP = " (the schema takes it up once enough visitors had it)"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


def row(column: str, kind: str, requests: int, part: str = VISITOR) -> dict[str, Any]:
    return {"part": part, "column": column, "kind": kind, "requests": requests}


def test_a_wrong_column_is_told_in_the_answer_in_metrics_and_beside_the_model(tmp_path: Path, model: Path) -> None:
    """By HTTP, by the native API and by that of Personalizer, whose answer says nothing."""

    async def run() -> None:
        async with running(tmp_path, model) as service:
            transport = httpx2.ASGITransport(app=Application(service).starlette())
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                body = {"visitor": {"countri": "de"}, "candidates": PRODUCTS[:3], "decision_id": "a"}
                answer = (await client.post("/v1/decisions", json=body)).json()
                assert answer["warnings"] == [
                    f"visitor: countri: is no column of the model; did you mean country?{TAKEN_UP}",
                    "visitor: country: was left out, expected one of 'de', 'fr', 'it'; send null where nobody knows it",
                ]
                assert (await client.post("/v1/decisions", json=body)).json() == answer
                fitting = {"visitor": {"country": "de"}, "candidates": PRODUCTS[:3]}
                assert "warnings" not in (await client.post("/v1/decisions", json=fitting)).json()
                actions = [{"id": name, "features": [{"category": "c1"}]} for name in PRODUCTS[:3]]
                rank = {"contextFeatures": [{"country": "xx"}], "actions": actions}
                ranked = await client.post("/personalizer/v1.0/rank", json=rank)
                assert ranked.status_code == 201
                assert "warnings" not in ranked.json()
                metrics = (await client.get("/metrics")).text
                inputs = (await client.get("/v1/model")).json()["inputs"]
        assert inputs == [
            row("countri", "unknown column", 1),
            row("country", "missing", 1),
            row("country", "new level", 1),
        ]
        line = 'zoosim_input_deviations_total{column="countri",kind="unknown column",part="visitor"} 1.0'
        assert line in metrics.splitlines()

    asyncio.run(run())


def test_strict_refuses_in_one_line_and_logs_nothing(tmp_path: Path, model: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, model, strict=True, grow=False) as service:
            transport = httpx2.ASGITransport(app=Application(service).starlette())
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                strange: list[Any] = [{"id": "new", "category": "c1", "colour": "red"}]
                body = {"visitor": {"country": "de", **dict.fromkeys("abc", 1)}, "candidates": strange}
                refusal = await client.post("/v1/decisions", json=body)
                assert refusal.status_code == 400
                assert refusal.json() == {
                    "error": "visitor: a: is no column of the model, which has country; visitor: b: is no column of "
                    "the model, which has country; visitor: c: is no column of the model, which has country; and 1 "
                    "deviation more (refused, since the setting strict is true)"
                }
                fitting = {"visitor": {"country": "de"}, "candidates": PRODUCTS[:3]}
                assert (await client.post("/v1/decisions", json=fitting)).status_code == 200
                actions = [{"id": name, "features": [{"category": "c1"}]} for name in PRODUCTS[:3]]
                rank = {"contextFeatures": [{"a": "xx"}], "actions": actions}
                assert (await client.post("/personalizer/v1.0/rank", json=rank)).status_code == 201
        assert service.description()["inputs"][-1] == row("country", "missing", 1)
        assert row("colour", "unknown column", 1, CANDIDATES) in service.description()["inputs"]

    asyncio.run(run())
    store = open_store(Address(tmp_path), read_only=True)
    rows = list(store.read(0, 100))
    store.close()
    assert [each.kind for each in rows].count(Kind.DECISION) == 2
    assert not any(b"new" in each.body for each in rows)


def test_searches_without_tastes_or_with_far_ones_are_told(tmp_path: Path) -> None:
    model = make_boost_model(tmp_path)
    scores = {f"SKU-{number:04}": float(number) for number in range(9)}

    async def use(service: Service) -> None:
        knows_tastes = service.model.requests.schema.n_tastes  # type: ignore[attr-defined]
        assert knows_tastes
        bare = await service.decide(SearchBody(SearchVisitor("savers", "browse"), scores))
        assert bare.warnings == [
            f"visitor: {name}: was left out, expected a number; it counts as 0"
            for name in ("price_taste", "label_taste")
        ]
        body = SearchBody(SearchVisitor("savers", "browse", price_taste=-50.0), scores, decision_id="far")
        far = await service.decide(body)
        assert far.warnings == ["visitor: price_taste: got -50, expected a number from -4.6 to 4.6"]
        assert await service.decide(body) == far
        near = await service.decide(SearchBody(SearchVisitor("savers", "browse", label_taste=1.0), scores))
        assert near.warnings == []
        assert b"warnings" not in msgspec.json.encode(near)
        assert [each["requests"] for each in service.description()["inputs"]] == [1, 1, 1]

    with_service(tmp_path / "service", model, use)


def test_names_from_outside_fill_neither_memory_nor_metrics(caplog: pytest.LogCaptureFixture) -> None:
    digest = ["a"]
    counts = InputCounts(lambda: digest[0])
    own = InputKey(VISITOR, "country", DeviationKind.NEW_LEVEL)
    with caplog.at_level(logging.WARNING, "zoosim.serving"):
        for number in range(30):
            junk = [InputKey(VISITOR, f"{number} {each}", DeviationKind.UNKNOWN_COLUMN) for each in range(1_000)]
            counts.note([own, *junk, InputKey(VISITOR, "x" * 1_000, DeviationKind.UNKNOWN_COLUMN)])
        counts.note([])
    by_key = dict(counts.by_key())
    assert len(by_key) == MOST_COLUMNS + 2
    assert by_key[own] == by_key[InputKey(VISITOR, OTHERS, DeviationKind.UNKNOWN_COLUMN)] == 30
    assert len(caplog.records) == 2  # of the first decision and of the tenth
    digest[0] = "b"
    assert counts.by_key() == []
    assert json.loads(msgspec.json.encode(counts.as_rows())) == []


def test_a_hostile_request_is_answered_with_a_few_warnings(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        visitor: dict[str, Any] = {"country": "de", **{"c" * (number + 1): "x" for number in range(3_000)}}
        answer = await service.decide(DecideBody(visitor, list(PRODUCTS[:3])))
        assert len(answer.warnings) == 11
        assert answer.warnings[-1] == "and 2,990 deviations more"
        assert max(map(len, answer.warnings)) < 300

    with_service(tmp_path, model, use, grow=False)


def test_without_a_schema_nothing_deviates_though_strict(tmp_path: Path) -> None:
    async def use(service: Service) -> None:
        answer = await service.decide(DecideBody({"anything": 1}, ["a", "b"]))
        assert answer.warnings == []
        assert service.description()["inputs"] == []

    with_service(tmp_path, None, use, strict=True)


def test_candidates_are_compared_as_far_as_they_are_described(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        candidates: list[Any] = [{"id": "new", "category": "c9"}, {"id": "p1", "categori": "c1"}, "p2"]
        answer = await service.decide(DecideBody({"country": "de"}, candidates))
        assert answer.warnings == [
            "candidates: category: got 'c9', expected one of 'c0', 'c1', 'c2'",
            "candidates: categori: is no column of the model; did you mean category?",
        ]
        assert set(answer.propensities) == {"new", "p1", "p2"}

    with_service(tmp_path, model, use, grow=False)


def test_a_product_that_is_put_is_compared_too(tmp_path: Path, model: Path) -> None:
    """A typo beside all columns is told, counted once, and refused where asked; without one the answer is as it was."""

    async def run(strict: bool) -> list[httpx2.Response]:
        async with running(tmp_path / str(strict), model, strict=strict, grow=False) as service:
            transport = httpx2.ASGITransport(app=Application(service).starlette())
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                odd = {"features": {"category": "c1", "colour": "red"}}
                answers = [await client.put("/v1/products/new", json=odd)]
                for body in ({"features": {"category": "c1"}}, {"available": False}):
                    answers.append(await client.put("/v1/products/new", json=body))
        assert service.description()["inputs"] == [row("colour", "unknown column", 1, CANDIDATES)]
        return answers

    odd, fitting, hidden = asyncio.run(run(False))
    line = "candidates: colour: is no column of the model, which has category"
    assert odd.json() == {"warnings": [line]}
    assert [odd.status_code, fitting.status_code, hidden.status_code] == [200, 204, 204]
    odd, fitting, hidden = asyncio.run(run(True))
    assert odd.json() == {"error": f"{line} (refused, since the setting strict is true)"}
    assert [odd.status_code, fitting.status_code, hidden.status_code] == [400, 204, 204]


def test_what_was_answered_before_is_answered_though_strict(tmp_path: Path, model: Path) -> None:
    body = DecideBody({"countri": "de"}, list(PRODUCTS[:3]), decision_id="a")
    answers = []

    async def use(service: Service) -> None:
        answers.append(await service.decide(body))

    with_service(tmp_path, model, use, grow=False)
    with_service(tmp_path, model, use, grow=False, strict=True)
    assert answers[0] == answers[1]
    assert len(answers[0].warnings) == 2


def test_the_refusal_of_a_policy_error_counts_no_decision(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        with pytest.raises(PolicyError, match="refused, since the setting strict is true"):
            await service.decide(DecideBody({}, list(PRODUCTS[:3])))
        assert service.counts["decisions"] == 0

    with_service(tmp_path, model, use, strict=True)
