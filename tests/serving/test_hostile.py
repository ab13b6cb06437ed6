"""Requests that nobody should send: each is answered below 500 in one line, and nothing strange gets into the log."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.serving.mock_time import MockTime
from tests.serving.shop import PRODUCTS, make_boost_model, make_model, running
from tests.serving.test_service import replayed
from zoosim.serving.application import Application
from zoosim.serving.events import Feedback, Kind, ProductDecision, SearchDecision, unpack, unpack_floats
from zoosim.serving.store.address import Address, open_store

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from([*PRODUCTS, "de", "", " ", "\x00", "p1 ", 1e308, -1e308, 2**63, 10**400, "../../etc/passwd"]),
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner)
)
CANDIDATE = st.one_of(
    st.sampled_from(PRODUCTS),
    SCALARS,
    st.fixed_dictionaries({"id": SCALARS, "category": SCALARS}),
    ANYTHING,
)
DECIDE = st.fixed_dictionaries(
    {},
    optional={
        "visitor": st.dictionaries(st.sampled_from(["country", "x"]), SCALARS) | ANYTHING,
        "candidates": st.lists(CANDIDATE, max_size=6) | ANYTHING,
        "count": st.integers(-1, 9) | SCALARS,
        "decision_id": st.text(max_size=300) | SCALARS,
        "visitor_id": SCALARS,
        "defer": SCALARS,
        "strange": SCALARS,
    },
)
FEEDBACK = st.fixed_dictionaries(
    {"rewards": st.dictionaries(st.sampled_from(["click", "revenue", ""]), SCALARS) | ANYTHING},
    optional={"product": SCALARS, "feedback_id": SCALARS},
)
PRODUCT = st.fixed_dictionaries({}, optional={"features": ANYTHING, "available": SCALARS})
NAMES = st.text(min_size=1, max_size=40).map(lambda text: "".join(f"%{byte:02x}" for byte in text.encode()))


def feedback_path(decision_id: str) -> str:
    return f"/v1/decisions/{decision_id}/feedback"


REQUESTS = st.one_of(
    st.tuples(st.just("POST"), st.just("/v1/decisions"), DECIDE),
    st.tuples(st.just("POST"), st.just("/v1/decisions/known/feedback"), FEEDBACK),
    st.tuples(st.just("POST"), NAMES.map(lambda name: f"/v1/decisions/{name}/feedback"), FEEDBACK),
    st.tuples(st.just("POST"), NAMES.map(lambda name: f"/v1/decisions/{name}/activation"), ANYTHING),
    st.tuples(st.just("PUT"), NAMES.map(lambda name: f"/v1/products/{name}"), PRODUCT),
    st.tuples(st.just("GET"), NAMES.map(lambda name: f"/v1/decisions/{name}"), st.none()),
)

GOODS = [f"SKU-{number:04}" for number in range(9)]
SCORE = st.sampled_from([0.5, -3, 1e9, -1e9, 1e-300]) | SCALARS
SEARCH = st.fixed_dictionaries(
    {
        "visitor": st.fixed_dictionaries(
            {"segment": st.sampled_from(["savers", "gourmets"]), "query_type": st.just("browse")},
            optional={"price_taste": SCORE, "label_taste": SCORE},
        )
        | ANYTHING,
        "candidates": st.dictionaries(st.sampled_from(GOODS), st.sampled_from([0.5, 1e9, -1e9]), min_size=1)
        | st.lists(st.fixed_dictionaries({"id": st.sampled_from(GOODS) | SCALARS, "score": SCORE}), max_size=6)
        | ANYTHING,
    },
    optional={"decision_id": st.sampled_from(["known", "other"]) | SCALARS, "defer": SCALARS, "strange": SCALARS},
)
FIRST: dict[str, dict[str, Any]] = {
    "/v1/decisions": {},
    "/v1/searches": {"visitor": {"segment": "savers", "query_type": "exact"}, "candidates": dict.fromkeys(GOODS, 1.0)},
}
SEARCH_FEEDBACK = st.fixed_dictionaries(
    {"rewards": st.dictionaries(st.sampled_from(["click", "purchase", ""]), st.sampled_from([0, 1, 1.0]) | SCALARS)},
    optional={"product": st.sampled_from(GOODS) | SCALARS, "feedback_id": SCALARS},
)
SEARCHES = st.one_of(
    st.tuples(st.just("POST"), st.just("/v1/searches"), SEARCH),
    st.tuples(st.just("POST"), st.sampled_from(["known", "other"]).map(feedback_path), SEARCH_FEEDBACK),
    st.tuples(st.just("POST"), st.just("/v1/decisions"), DECIDE),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


def ask(folder: Path, model: Path | None, requests: Sequence[tuple[str, str, bytes]]) -> list[httpx2.Response]:
    """Return the answers of a service to requests, one after another; those that it refuses teach it nothing."""

    time = MockTime()

    async def run() -> list[httpx2.Response]:
        async with running(folder, model, time.clock(), wait=0.3, most_delay=10.0) as service:
            transport = httpx2.ASGITransport(app=Application(service).starlette())
            async with httpx2.AsyncClient(transport=transport, base_url="http://shop") as client:
                for path, first in FIRST.items():  # one of them is refused
                    await client.post(path, json={"decision_id": "known", **first})
                answers = []
                for method, path, body in requests:
                    newest = service._reader.last()
                    answers.append(await client.request(method, path, content=body))
                    if answers[-1].status_code >= 400:
                        rows = service._reader.read(newest.seq if newest else 0, 10)
                        assert {row.kind for row in rows} <= {Kind.PRODUCT}, (method, path, body)
                time.pass_by(0.3)
                await service.tick()
        return answers

    return asyncio.run(run())


def check(folder: Path, answers: Sequence[httpx2.Response], lowest: float = 0.0) -> None:
    """Check that all were answered, and that the log holds nothing but finite numbers, and can be learned from."""
    for answer in answers:
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400 and answer.status_code not in (404, 405):
            assert "\n" not in answer.json()["error"]
    store = open_store(Address(folder), read_only=True)
    for row in store.read(0, 1_000_000):
        record: Any = unpack(row) if row.body else None
        if isinstance(record, ProductDecision):
            propensities = unpack_floats(record.propensities)
            assert propensities.sum() == pytest.approx(1.0, abs=1e-9)
            assert np.isfinite(unpack_floats(record.visitor)).all()
        if isinstance(record, SearchDecision):
            assert record.density is not None
            assert np.isfinite([*unpack_floats(record.scores), *unpack_floats(record.boosts), record.density]).all()
        if isinstance(record, Feedback):
            assert all(lowest <= reward <= 1.0 for reward in record.rewards.values())
    replica = replayed(folder)
    state = replica.champion.model.policy.state_dict()
    assert all(np.isfinite(array).all() for array in state.values() if array.dtype.kind == "f")
    assert "refused by the policy" not in replica.champion.counts


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(requests=st.lists(REQUESTS, min_size=20, max_size=60))
def test_requests_of_the_right_form_hold_anything(
    requests: list[tuple[str, str, Any]], tmp_path_factory: pytest.TempPathFactory, model: Path
) -> None:
    folder = tmp_path_factory.mktemp("service")
    bodies = [(method, path, json.dumps(body).encode()) for method, path, body in requests]
    check(folder, ask(folder, model, bodies))


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(bodies=st.lists(st.binary(max_size=200), min_size=50, max_size=100))
def test_bytes_that_are_no_requests(bodies: list[bytes], tmp_path_factory: pytest.TempPathFactory, model: Path) -> None:
    folder = tmp_path_factory.mktemp("service")
    paths = ("/v1/decisions", "/v1/decisions/known/feedback")
    check(folder, ask(folder, model, [("POST", paths[len(body) % 2], body) for body in bodies]))


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(requests=st.lists(SEARCHES, min_size=20, max_size=60))
def test_searches_of_the_right_form_hold_anything(
    requests: list[tuple[str, str, Any]], tmp_path_factory: pytest.TempPathFactory, boost_model: Path
) -> None:
    folder = tmp_path_factory.mktemp("service")
    bodies = [(method, path, json.dumps(body).encode()) for method, path, body in requests]
    check(folder, ask(folder, boost_model, bodies))


@pytest.fixture(scope="module")
def boost_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_boost_model(tmp_path_factory.mktemp("search"))
