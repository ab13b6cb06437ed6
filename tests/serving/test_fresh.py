"""A service that begins without a model: a schema from the first requests, and a policy that grows from them."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.serving.shop import running
from tests.serving.state_digest import state_digest
from tests.serving.test_service import replayed
from zoosim.core.errors import PolicyError
from zoosim.serving import growth
from zoosim.serving.bodies import DecideBody, DecisionAnswer
from zoosim.serving.folder import load_served_model
from zoosim.serving.fresh import FIRST_REQUESTS
from zoosim.serving.grown import ModelGrowth, grown_model
from zoosim.serving.service import Service
from zoosim.serving.snapshots import newest_replica, write_snapshot
from zoosim.serving.store.address import LOG, Address
from zoosim.serving.store.sqlite import SqliteStore

TOPICS = ("news", "sport", "food")


async def visit(service: Service, number: int) -> DecisionAnswer:
    """Ask for one of three articles; every other visit earns something."""
    rng = np.random.default_rng(number)
    visitor: dict[str, Any] = {"country": str(rng.choice(["de", "fr"])), "age": float(rng.integers(18, 80))}
    candidates: list[Any] = [{"id": f"a{place}", "topic": topic} for place, topic in enumerate(TOPICS)]
    body = DecideBody(visitor=visitor, candidates=candidates, decision_id=f"visit {number}")
    answer = await service.decide(body)
    if number % 2:
        await service.give_value(answer.decision_id, {0: 1.0})
    assert isinstance(answer, DecisionAnswer)
    return answer


async def grow(service: Service) -> None:
    for number in range(FIRST_REQUESTS):
        await visit(service, number)
    while service.is_warming_up:
        await service.tick()
        await asyncio.sleep(0.01)
    await service.tick()


def test_a_policy_grows_from_the_first_requests_and_learns_what_they_earned(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, None, wait=60.0) as service:
            assert service.is_warming_up
            assert service.settings.lowest == -1.0
            first = await visit(service, 10_000)
            assert first.propensities == pytest.approx({"a0": 1 - 0.4 / 3, "a1": 0.2 / 3, "a2": 0.2 / 3})
            await grow(service)
            assert service.model.fitted.visitors.names == ["age", "country"]
            assert service.model.fitted.products.names == ["topic"]
            again = await visit(service, 10_000)
            assert again == first  # the stored answer, though another model decides now
            await visit(service, 10_001)

    asyncio.run(run())
    whole = replayed(tmp_path)
    assert whole.champion.counts["learned"] == FIRST_REQUESTS // 2
    resumed_from_the_warm_up(tmp_path, state_digest(whole))


def resumed_from_the_warm_up(folder: Path, expected: str) -> None:
    """A snapshot of the warm-up leads to the same bits."""
    write_snapshot(folder / "snapshots", replayed(folder, stop=FIRST_REQUESTS))
    store = SqliteStore(folder / LOG, read_only=True)
    replica = newest_replica(
        folder / "snapshots", lambda digest: load_served_model(folder, digest), store.rows, pytest.fail
    )
    for row in store.read(replica.position, 1_000_000):
        replica.apply(row)
    assert state_digest(replica) == expected


def test_a_warm_up_goes_on_after_a_restart(tmp_path: Path) -> None:
    async def run(first: int, stop: int) -> bool:
        async with running(tmp_path, None, wait=60.0) as service:
            for number in range(first, stop):
                await visit(service, number)
            for _ in range(3):
                await service.tick()
                while service._watch.is_looking:
                    await asyncio.sleep(0.01)
            return service.is_warming_up

    assert asyncio.run(run(0, FIRST_REQUESTS - 1))
    assert not asyncio.run(run(FIRST_REQUESTS - 1, FIRST_REQUESTS))


@pytest.mark.parametrize("value", [None, 1])
def test_a_column_that_cannot_be_kept_is_refused_each_time(tmp_path: Path, value: int | None) -> None:
    async def run() -> None:
        async with running(tmp_path, None) as service:
            for _ in range(2):
                with pytest.raises(PolicyError, match="columns: got the id"):
                    await service.decide(DecideBody(candidates=["a", {"id": "b", "two\nlines": value}]))

    asyncio.run(run())


def test_after_a_failure_twice_as_many_requests_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def fail_once(address: Address, parent: str, wanted: int) -> ModelGrowth:
        grown = grown_model(address, parent, wanted)
        if grown.model is not None:
            taken.append(grown.requests)
            if len(taken) == 1:
                raise MemoryError("not from these")
        return grown

    async def visit_and_tick(service: Service, start: int, stop: int) -> None:
        for number in range(start, stop):
            await visit(service, number)
        for _ in range(3):
            await service.tick()
            while service._watch.is_looking:
                await asyncio.sleep(0.01)

    async def run() -> None:
        async with running(tmp_path, None, wait=60.0) as service:
            await visit_and_tick(service, 0, FIRST_REQUESTS)
            assert taken == [FIRST_REQUESTS]
            await visit_and_tick(service, FIRST_REQUESTS, 2 * FIRST_REQUESTS - 50)
            assert taken == [FIRST_REQUESTS]
            await visit_and_tick(service, 2 * FIRST_REQUESTS - 50, 2 * FIRST_REQUESTS)
            while service.is_warming_up:
                await service.tick()
                await asyncio.sleep(0.01)
            assert taken == [FIRST_REQUESTS, 2 * FIRST_REQUESTS]

    monkeypatch.setattr(growth, "grown_model", fail_once)
    asyncio.run(run())
