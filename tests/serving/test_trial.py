"""Made-up requests before visitors come: they leave no trace, and what they cannot do stops no start."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.serving.shop import make_boost_model, make_model, running
from zoosim.core.errors import PolicyError
from zoosim.policies.base import Policy
from zoosim.policies.model import Model, load_model
from zoosim.policies.persistence import packed_state
from zoosim.policies.products.linucb import LinUCB
from zoosim.serving.bodies import DecideBody, SearchBody, SearchVisitor
from zoosim.serving.events import Kind
from zoosim.serving.service import Service
from zoosim.serving.store.address import LOG
from zoosim.serving.store.sqlite import SqliteStore


def kinds_in(folder: Path) -> list[Kind]:
    store = SqliteStore(folder / LOG, read_only=True)
    kinds = [row.kind for row in store.read(0, 1_000)]
    store.close()
    return kinds


@pytest.mark.parametrize("policy", ["adaptive", "mixed-effects", "linucb", "item-critic", ""])
def test_a_start_leaves_no_trace_of_its_made_up_requests(tmp_path: Path, policy: str) -> None:
    """Nothing is in the log, nothing is counted, and the policy is what its file holds."""
    model = _model(tmp_path, policy)

    async def run() -> None:
        async with running(tmp_path / "store", model) as service:
            assert not service.counts
            if model is not None:
                assert_equal_states(service.model.policy, load_model(model).policy)

    asyncio.run(run())
    assert kinds_in(tmp_path / "store") == [Kind.START]


@pytest.mark.parametrize("policy", ["adaptive", "item-critic"])
def test_a_service_answers_alike_with_and_without_made_up_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    model = _model(tmp_path, policy)

    async def answers(folder: Path) -> list[Any]:
        async with running(folder, model) as service:
            return [await _ask(service, policy, number) for number in range(5)]

    monkeypatch.setattr("zoosim.serving.service.secret_of", lambda *arguments: bytes(32))
    tried = asyncio.run(answers(tmp_path / "tried"))
    monkeypatch.setattr(Service, "_try_requests", lambda service: None)
    monkeypatch.setattr(Model, "prepare", lambda model: None)
    assert tried == asyncio.run(answers(tmp_path / "untried"))


def test_a_start_does_what_the_first_decision_would_wait_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All arrays that are derived from the products are there once the service is."""
    model = make_model(tmp_path, "linucb")
    attach = LinUCB.attach
    sizes: list[int] = []

    def counted(policy: LinUCB, context: Any) -> Any:
        sizes.append(len(context.product_ids))
        return attach(policy, context)

    monkeypatch.setattr(LinUCB, "attach", counted)

    async def run() -> None:
        async with running(tmp_path / "store", model):
            pass

    asyncio.run(run())
    assert {2, 8} <= set(sizes)


def test_a_policy_that_cannot_decide_is_told_of_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(policy: LinUCB, context: Any) -> np.ndarray:
        raise PolicyError("cannot")

    model = make_model(tmp_path, "linucb")
    monkeypatch.setattr(LinUCB, "propensities", refuse)

    async def run() -> None:
        async with running(tmp_path / "store", model):
            pass

    with caplog.at_level(logging.WARNING, logger="zoosim.serving"):
        asyncio.run(run())
    assert caplog.messages == [
        "the model cannot decide among its own products: cannot",
        "a made-up request cannot be answered: cannot",
    ]


def assert_equal_states(policy: Policy, expected: Policy) -> None:
    plain, arrays = packed_state(policy)
    expected_plain, expected_arrays = packed_state(expected)
    assert plain == expected_plain
    assert arrays.keys() == expected_arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, expected_arrays[name])


def _model(folder: Path, policy: str) -> Path | None:
    if not policy:
        return None
    return make_boost_model(folder) if policy == "item-critic" else make_model(folder, policy)


async def _ask(service: Service, policy: str, number: int) -> Any:
    decision_id = f"visit {number}"
    if policy == "item-critic":
        visitor = SearchVisitor("savers", "browse")
        return await service.decide(SearchBody(visitor, {"SKU-0001": 1.0, "SKU-0002": 0.5}, decision_id))
    return await service.decide(DecideBody({"country": "de"}, decision_id=decision_id))
