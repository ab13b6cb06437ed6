"""Candidates that cannot be shown, unknown or hidden, are left out of a decision: it is made among the others."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

import zoosim
from tests.serving.shop import make_boost_model, make_model, running, with_service
from tests.serving.test_service import replayed
from zoosim.api.served import export_log
from zoosim.core.errors import PolicyError
from zoosim.logs.load import load_log
from zoosim.serving.bodies import (
    DecideBody,
    DecisionAnswer,
    FeedbackBody,
    ProductBody,
    ScoredProduct,
    SearchBody,
    SearchVisitor,
    SlotBody,
)
from zoosim.serving.events import Kind, ProductDecision, Row, SearchDecision, pack, unpack
from zoosim.serving.fresh import warm_up_model
from zoosim.serving.personalizer.bodies import Action, RankRequest
from zoosim.serving.personalizer.ranking import rank
from zoosim.serving.service import Service

UNKNOWN_REASON = "got 'q1', which is not in the catalogue of 8 products; give it as a mapping of id and its features"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


def test_a_decision_is_made_among_what_can_be_shown(tmp_path: Path, model: Path) -> None:
    """Known, described, unknown and hidden products in one request, which is answered alike when it comes again."""

    async def use(service: Service) -> None:
        await service.change_product("p2", ProductBody(available=False))
        candidates: list[Any] = ["p1", "q1", {"id": "q2", "category": "c1"}, "p2", {"id": "q3"}, "p3"]
        body = DecideBody({"country": "de"}, candidates, decision_id="visit 1")
        answer = await service.decide(body)
        assert answer.ignored == ["q1", "p2", "q3"]
        assert list(answer.propensities) == ["p1", "q2", "p3"]
        assert sum(answer.propensities.values()) == pytest.approx(1.0)
        assert answer.shown[0].propensity == answer.propensities[answer.shown[0].product]
        assert await service.decide(body) == answer
        assert await service.answer("visit 1") == answer
        assert service.counts["candidates left out"] == 3

    with_service(tmp_path, model, use)


def test_a_request_is_refused_where_nothing_can_be_shown(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        with pytest.raises(PolicyError, match=UNKNOWN_REASON) as refusal:
            await service.decide(DecideBody(candidates=["q1", "q2"]))
        assert str(refusal.value).endswith("; or add it once by PUT /v1/products/ID")
        await service.change_product("q1", ProductBody({"category": "c1"}))
        assert (await service.decide(DecideBody(candidates=["q1", "q2"]))).propensities == {"q1": 1.0}
        with pytest.raises(PolicyError, match="got 'q2' twice"):
            await service.decide(DecideBody(candidates=["p1", "q2", "q2"]))

    with_service(tmp_path, model, use)


def test_fewer_products_are_shown_where_some_are_left_out(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        answer = await service.decide(DecideBody(candidates=["p1", "q1", "p2"], count=3))
        assert {shown.product for shown in answer.shown} == {"p1", "p2"}
        with pytest.raises(PolicyError, match="count: got 4, expected at most the 2 candidates that can be shown"):
            await service.decide(DecideBody(candidates=["p1", "q1", "p2"], count=4))
        slots = [SlotBody(name, {}, "p1", []) for name in ("top", "side", "bottom")]
        with pytest.raises(PolicyError, match="count: got 3, expected at most the 2 candidates that can be shown"):
            await service.decide(DecideBody(candidates=["p1", "q1", "p2"]), slots=slots)

    with_service(tmp_path, model, use)


def test_what_is_learned_and_exported_knows_only_what_could_be_shown(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        for number in range(20):
            answer = await service.decide(DecideBody(candidates=["p1", f"q{number}", "p2", "p3"]))
            await service.give_feedback(answer.decision_id, FeedbackBody({"click": float(number % 2)}))
        await asyncio.sleep(0.15)
        await service.tick()

    with_service(tmp_path / "store", model, use, wait=0.1)
    assert replayed(tmp_path / "store").champion.counts == {"learned": 20}
    export_log(tmp_path / "store", tmp_path / "log.parquet")
    exported = pl.read_parquet(tmp_path / "log.parquet")
    assert exported["product_id"].is_in(["p1", "p2", "p3"]).all()
    assert np.diff(load_log(tmp_path / "log.parquet").candidates.starts).tolist() == [3]


def test_ids_alone_are_enough_for_a_model_that_knows_no_more_of_products(tmp_path: Path) -> None:
    """The policy takes an unknown product at its prior."""
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"item": rng.choice(["a", "b"], 400), "click": rng.integers(2, size=400), "p": [0.5] * 400})
    table = table.with_columns(country=pl.Series(rng.choice(["de", "fr"], 400)))
    schema = {
        "columns": {"action": "item", "propensity": "p"},
        "rewards": {"click": "click"},
        "features": {"country": "category"},
    }
    zoosim.import_log(table, schema, tmp_path / "log.parquet")
    zoosim.train(tmp_path / "log.parquet", ["adaptive"], tmp_path / "model.zoosim")

    async def use(service: Service) -> None:
        answer = await service.decide(DecideBody(candidates=["a", "new"]))
        assert not answer.ignored
        assert answer.propensities["new"] > 0.0

    with_service(tmp_path / "store", tmp_path / "model.zoosim", use)
    by_id = warm_up_model()
    assert by_id.product_features("new").tolist() == by_id.fitted.products.encode_one({"id": "new"}).tolist()


def test_a_search_is_ranked_without_what_the_model_does_not_know(tmp_path: Path) -> None:
    visitor = SearchVisitor("savers", "browse")

    async def use(service: Service) -> None:
        candidates = [ScoredProduct("SKU-0001", 1.0), ScoredProduct("new", 2.0), ScoredProduct("SKU-0002", 0.5)]
        answer = await service.decide(SearchBody(visitor, candidates, "search 1"))
        assert answer.ignored == ["new"]
        assert set(answer.ranking) == {"SKU-0001", "SKU-0002"}
        assert await service.decide(SearchBody(visitor, candidates, "search 1")) == answer
        by_id = {"SKU-0001": 1.0, "new": 2.0}
        assert (await service.decide(SearchBody(visitor, by_id))).ranking == ["SKU-0001"]
        with pytest.raises(PolicyError, match="'new', which is not in the catalogue"):
            await service.decide(SearchBody(visitor, {"new": 1.0}))

    with_service(tmp_path / "store", make_boost_model(tmp_path), use)


def test_an_action_that_may_not_be_shown_keeps_its_place_with_probability_0(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        await service.change_product("p2", ProductBody(available=False))
        actions = [Action(name, [{"category": "c1"}]) for name in ("p1", "p2", "p3")]
        response = await rank(service, RankRequest(actions))
        assert [action.probability > 0.0 for action in response.ranking] == [True, False, True]
        assert response.ranking[1].id == "p2"

    with_service(tmp_path, model, use)


def test_the_log_says_why_at_most_once_a_minute(tmp_path: Path, model: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with running(tmp_path, model) as service:
            for _ in range(3):
                await service.decide(DecideBody({"country": "de"}, ["p1", "q1"]))

    with caplog.at_level(logging.WARNING, logger="zoosim.serving"):
        asyncio.run(run())
    (line,) = caplog.messages
    assert line.startswith(f"left out of a decision: candidates: {UNKNOWN_REASON}")


def test_an_answer_names_what_is_left_out_only_where_something_is() -> None:
    answer = DecisionAnswer("visit 1", [], {}, "model", 0)
    assert "ignored" not in msgspec.to_builtins(answer)
    assert msgspec.to_builtins(msgspec.structs.replace(answer, ignored=["q1"]))["ignored"] == ["q1"]


def test_records_from_before_candidates_were_left_out_are_read() -> None:
    decision = ProductDecision(b"r", "m", 0, "", b"", b"", b"", [0], [1.0], False)
    search = SearchDecision(b"r", "m", 0, "", {}, [], b"", b"", None, [], False)
    for kind, record in ((Kind.DECISION, decision), (Kind.SEARCH, search)):
        fields = msgspec.msgpack.decode(pack(record))
        old = msgspec.msgpack.encode(fields[:-1])
        assert unpack(Row(1, 0, kind, b"d", old)) == record
