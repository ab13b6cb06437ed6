"""A schema that grows while its service goes on, and a policy that learns from the log by it."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.serving.shop import PRODUCTS, make_model, running
from tests.serving.test_service import replayed
from zoosim.policies.model import Model
from zoosim.serving.bodies import DecideBody
from zoosim.serving.events import Kind
from zoosim.serving.folder import load_served_model
from zoosim.serving.fresh import FIRST_REQUESTS
from zoosim.serving.replica import Replica, origin_of
from zoosim.serving.service import Service
from zoosim.serving.snapshots import newest_replica, state_digest, write_snapshot
from zoosim.serving.store.address import LOG
from zoosim.serving.store.sqlite import SqliteStore
from zoosim.serving.unexpressed import MOST_BYTES

CANDIDATES: list[Any] = ["a", "b", "c"]


async def visits(service: Service, first: int, stop: int, growths: int = 0, **columns: Any) -> int:
    """Let visitors come of one of three segments, who like another product each; return how many saw theirs.

    The last ones wait until the service has another model for so many times.
    """
    right = 0
    for number in range(first, stop):
        segment = number * 7 % 3
        values: dict[str, Any] = {name: value(number) if callable(value) else value for name, value in columns.items()}
        if columns:
            values["segment"] = f"s{segment}"
        candidates: list[Any] = [{"id": name} for name in CANDIDATES]
        body = DecideBody(values, candidates, decision_id=f"visit {number}", visitor_id=f"v{number}")
        answer = await service.decide(body)
        is_right = answer.shown[0].product == CANDIDATES[segment]
        right += is_right
        await service.give_value(answer.decision_id, {0: float(is_right)})
        if number % 20 == 0:
            await service.tick()
    await service.tick()
    while service.start.turn < growths:
        await service.tick()
        await asyncio.sleep(0.02)
    await service.tick()
    return right


async def look(service: Service) -> None:
    """Let a service look at its log, if it wants to."""
    await service.tick()
    while service._watch.is_looking:
        await asyncio.sleep(0.01)


def names_of(model: Model) -> list[str]:
    return model.fitted.visitors.names


def test_a_column_that_comes_after_a_probe_is_learned_of_and_replayed_to_the_bit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The state of the grown policy is that of every replay, wherever in the log that begins."""

    async def run() -> None:
        async with running(tmp_path, None, wait=60.0) as service:
            await visits(service, 0, FIRST_REQUESTS, growths=1)
            assert names_of(service.model) == []
            await visits(service, 200, 400, growths=2, colour="red")
            assert names_of(service.model) == ["colour", "segment"]
            assert service.description()["unexpressed"] == {}
            assert service.counts["decisions with what the schema does not express"] == 200
            # Feedback to what an ancestor of the model decided is learned, too.
            body = DecideBody({"segment": "s0"}, [{"id": name} for name in CANDIDATES], decision_id="late")
            await service.decide(body)
            await visits(service, 400, 420, colour="red")

    with caplog.at_level(logging.WARNING, "zoosim.serving"):
        asyncio.run(run())
    assert "the schema grew: visitor: colour (category); visitor: segment (category)" in caplog.text
    whole = replayed(tmp_path)
    assert whole.counts["learned"] == 420
    assert whole.counts["of an earlier model"] == 0
    origin = origin_of(whole.model)
    assert origin is not None
    assert len(origin.ancestors) == 2
    store = SqliteStore(tmp_path / LOG, read_only=True)
    rows = store.read(0, 10_000)
    starts = [row.seq for row in rows if row.kind is Kind.START]
    for stop in (starts[1] - 1, starts[1], starts[2] - 2, starts[2], len(rows) - 3):
        for path in (tmp_path / "snapshots").iterdir():
            path.unlink()
        write_snapshot(tmp_path / "snapshots", replayed(tmp_path, stop=stop))
        replica = newest_replica(
            tmp_path / "snapshots", lambda digest: load_served_model(tmp_path, digest), store.row, pytest.fail
        )
        for row in rows[replica.position :]:
            replica.apply(row)
        assert state_digest(replica) == state_digest(whole)
    store.close()
    assert_learned_as_by_one_who_knew_the_column_from_the_start(whole, tmp_path)


def assert_learned_as_by_one_who_knew_the_column_from_the_start(whole: Replica, folder: Path) -> None:
    """What the grown policy believes is what its segments earn."""
    model = whole.model
    for segment, product in enumerate(CANDIDATES):
        believed = model.propensities({"segment": f"s{segment}"}, CANDIDATES)
        assert max(believed, key=lambda name: believed[name]) == product


def test_a_trained_model_grows_once_the_log_outweighs_its_training(tmp_path: Path) -> None:
    """The model of 400 rows grows at the second look, by 400 requests, and keeps policy and columns."""

    async def run() -> None:
        async with running(tmp_path, make_model(tmp_path), wait=60.0) as service:
            for number in range(400):
                values: dict[str, Any] = {
                    "country": ["de", "fr"][number % 2],
                    "device": ["app", "web", "till"][number % 3],
                }
                answer = await service.decide(DecideBody(values, list(PRODUCTS[:4])))
                await service.give_value(answer.decision_id, {0: float(number % 3 == 0)})
                if number == 300:
                    await look(service)
                    assert names_of(service.model) == ["country"]
            while service.start.turn == 0:
                await service.tick()
                await asyncio.sleep(0.02)
            assert names_of(service.model) == ["country", "device"]
            assert service.model.fitted.products.names == ["category"]
            assert sorted(service.model.catalogue.names) == sorted(PRODUCTS)
            await service.tick()

    asyncio.run(run())
    assert replayed(tmp_path).counts["learned"] == 400


def test_hostile_requests_neither_grow_the_schema_nor_fill_the_log(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, None, wait=60.0) as service:
            await visits(service, 0, FIRST_REQUESTS, growths=1, age=lambda number: number)
            assert names_of(service.model) == ["age", "segment"]
            digest = service.start.model
            rng = np.random.default_rng(0)
            for number in range(250):
                noise = {f"column {int(column)}": "x" * int(column % 300) for column in rng.integers(10_000, size=500)}
                values: dict[str, Any] = {**noise, "segment": f"s{number % 3}"}
                body = DecideBody(values, ["a", "b"], visitor_id=f"hostile {number % 19}")
                await service.decide(body)
            await look(service)
            assert service.start.model == digest
            assert len(service.description()["unexpressed"]) <= 1_000

    asyncio.run(run())
    store = SqliteStore(tmp_path / LOG, read_only=True)
    assert max(len(row.body) for row in store.read(0, 10_000) if row.kind is Kind.DECISION) < MOST_BYTES + 1_000
    store.close()
