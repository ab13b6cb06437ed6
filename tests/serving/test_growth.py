"""A schema that grows while its service goes on, and a policy that learns from the log by it."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.serving.shop import PRODUCTS, make_model, running
from tests.serving.state_digest import state_digest
from tests.serving.test_service import replayed
from zoosim.core.errors import DataError
from zoosim.policies.model import ID, Model, load_model
from zoosim.serving.arm_replica import GROWN_FROM, Origin, origin_of
from zoosim.serving.bodies import DecideBody, DeploymentBody
from zoosim.serving.events import Kind, ProductDecision, Start, decision_key, unpack
from zoosim.serving.folder import load_served_model
from zoosim.serving.fresh import FIRST_REQUESTS
from zoosim.serving.grown import ModelGrowth
from zoosim.serving.join import Join
from zoosim.serving.replica import Replica
from zoosim.serving.rules import Rules
from zoosim.serving.served_log import read_served_log
from zoosim.serving.service import Service
from zoosim.serving.snapshots import newest_replica, write_snapshot
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
    while service.start.number <= growths:
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
    assert whole.champion.counts["learned"] == 420
    assert whole.champion.counts["of an earlier model"] == 0
    origin = origin_of(whole.champion.model)
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
            tmp_path / "snapshots", lambda digest: load_served_model(tmp_path, digest), store.rows, pytest.fail
        )
        for row in rows[replica.position :]:
            replica.apply(row)
        assert state_digest(replica) == state_digest(whole)
    store.close()
    assert_learned_as_by_one_who_knew_the_column_from_the_start(whole, tmp_path)


def assert_learned_as_by_one_who_knew_the_column_from_the_start(whole: Replica, folder: Path) -> None:
    """What the grown policy believes is what its segments earn."""
    model = whole.champion.model
    for segment, product in enumerate(CANDIDATES):
        believed = model.propensities({"segment": f"s{segment}"}, CANDIDATES)
        assert max(believed, key=lambda name: believed[name]) == product


def test_a_log_reads_as_by_the_schema_that_grew_from_the_start(tmp_path: Path) -> None:
    """Of the probe, of visitors whom the schema lacked, and of those after it grew: all are one log."""
    ages = np.random.default_rng(0).integers(18, 80, 440).tolist()

    async def run() -> None:
        async with running(tmp_path, None, wait=0.3) as service:
            await visits(service, 0, FIRST_REQUESTS, growths=1, age=ages.__getitem__)
            await visits(
                service, 200, 400, growths=2, age=ages.__getitem__, colour=lambda number: ["red", "blue"][number % 2]
            )
            await visits(service, 400, 440, age=ages.__getitem__, colour="red")
            await asyncio.sleep(0.4)
            await service.tick()
            await service.tick()
            assert names_of(service.model) == ["age", "segment", "colour"]

    asyncio.run(run())
    served = read_served_log(tmp_path)
    log = served.log
    assert (len(log), log.skipped, len(set(served.models))) == (440, {}, 3)
    assert log.names == tuple(CANDIDATES)
    assert log.fitted is not None
    for number in range(440):
        values: dict[str, Any] = {"age": ages[number], "segment": f"s{number * 7 % 3}"}
        if number >= 200:
            values["colour"] = "red" if number >= 400 else ["red", "blue"][number % 2]
        np.testing.assert_allclose(log.features[number], log.fitted.visitors.encode_one(values), atol=1e-9)
    products = [log.fitted.products.encode_one({ID: name}) for name in CANDIDATES]
    np.testing.assert_array_equal(log.products, products)
    is_right = log.actions == np.arange(440) * 7 % 3
    np.testing.assert_array_equal(log.rewards, is_right.astype(float))


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
    assert replayed(tmp_path).champion.counts["learned"] == 400


def test_what_a_champion_decided_as_a_challenger_is_learned_of_when_it_grows(tmp_path: Path) -> None:
    """Of 400 decisions, as many as the model was trained on, 150 were made under another name."""

    async def decide(service: Service, first: int, stop: int) -> None:
        for number in range(first, stop):
            values: dict[str, Any] = {"country": "de", "device": ["app", "web", "till"][number % 3]}
            answer = await service.decide(DecideBody(values, list(PRODUCTS[:4]), decision_id=f"d{number}"))
            await service.give_value(answer.decision_id, {0: float(number % 3 == 0)})

    async def run() -> None:
        async with running(tmp_path, make_model(tmp_path), wait=60.0) as service:
            digest = service.keep_model(make_model(tmp_path / "rival"))
            await service.deploy(DeploymentBody("launch", "new", digest, share=1.0))
            await decide(service, 0, 150)
            await service.tick()
            await service.deploy(DeploymentBody("promote", "new"))
            await decide(service, 150, 400)
            await look(service)
            assert names_of(service.model) == ["country", "device"]
            # As of a service that has not read of the promotion yet, nor of the growth.
            store = SqliteStore(tmp_path / LOG, read_only=True)
            row = store.find(decision_key("d149"))
            assert row is not None
            late = unpack(row)
            assert late.arm == "new"
            assert service.current.arm_of(late) is service.current.champion
            store.close()
            await service.tick()

    asyncio.run(run())
    assert replayed(tmp_path).champion.counts["learned"] == 400


def test_ancestors_of_earlier_releases_are_the_champions_alone() -> None:
    made = ProductDecision(b"r", "a", 0, "v", b"", b"", b"", [0], [1.0], False, turn=3)
    by_digest, by_origin = Origin(["a"], 1, {}), Origin(["a/3"], 1, {})
    as_challenger = msgspec.structs.replace(made, arm="new")
    assert by_digest.includes(made)
    assert not by_digest.includes(as_challenger)
    assert by_origin.includes(as_challenger)
    assert not by_origin.includes(msgspec.structs.replace(made, turn=4))
    assert by_digest.follows(Start("a", b"{}", turn=3))
    assert by_origin.follows(Start("a", b"{}", turn=3))
    assert not by_origin.follows(Start("a", b"{}", turn=4))


def test_the_log_is_looked_at_again_after_more_requests_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Ids of sessions, which never become levels: of 1,500 requests three looks, however often time goes on."""
    looks: list[int] = []

    def nothing_grows(address: Any, parent: str, wanted: int) -> ModelGrowth:
        looks.append(wanted)
        return ModelGrowth(None, "", wanted)

    monkeypatch.setattr("zoosim.serving.growth.grown_model", nothing_grows)

    async def run() -> None:
        async with running(tmp_path, make_model(tmp_path), wait=60.0) as service:
            for number in range(1_500):
                await service.decide(DecideBody({"country": "de", "session": f"s{number}"}, list(PRODUCTS[:4])))
                if number % 20 == 0:
                    await look(service)
            for _ in range(20):
                await look(service)
            assert service.description()["unexpressed"] == {"visitor: session": 1_500}

    with caplog.at_level(logging.WARNING, "zoosim.serving"):
        asyncio.run(run())
    assert len(looks) == 3  # by 200 requests, 400 more and 800 more
    assert caplog.text.count("requests hold what the schema does not express") == 1


@pytest.mark.parametrize("settings", [{"grow": False}, {}])
def test_a_schema_that_is_to_stay_is_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, settings: dict[str, Any]
) -> None:
    """By the setting, or since the policy learns from logs alone: it is said once."""
    monkeypatch.setattr("zoosim.serving.growth.grown_model", lambda *_: pytest.fail("looked at the log"))
    model = make_model(tmp_path) if settings else make_model(tmp_path, policy="mixed-effects")

    async def run() -> None:
        async with running(tmp_path, model, wait=60.0, **settings) as service:
            for number in range(450):
                await service.decide(DecideBody({"country": "de", "device": "app"}, list(PRODUCTS[:4])))
                if number % 20 == 0:
                    await look(service)

    with caplog.at_level(logging.WARNING, "zoosim.serving"):
        asyncio.run(run())
    assert caplog.text.count("the schema does not grow: ") == 1


def test_junk_columns_hide_none_that_come_later(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, make_model(tmp_path), wait=60.0) as service:
            for number in range(40):
                junk = {f"junk {number} {column}": 1 for column in range(100)}
                await service.decide(DecideBody({"country": "de", **(junk if number < 20 else {"segment": "s1"})}))
            columns = service.description()["unexpressed"]
            assert len(columns) <= 1_000
            assert columns["visitor: segment"] == 20

    asyncio.run(run())


def test_products_of_a_grown_schema_stay_as_they_were_described(tmp_path: Path) -> None:
    """A request that names a product, or describes a part of it, wipes nothing of it."""

    async def run() -> None:
        async with running(tmp_path, None, wait=60.0) as service:
            for number in range(FIRST_REQUESTS):
                price, colour = number % 3 + 1.0, ["red", "blue"][number % 2]
                candidates: list[Any] = [
                    {"id": 5, "price": 2.0, "colour": "red"},
                    {"id": "b", "price": price, "colour": colour},
                ]
                await service.decide(DecideBody({"country": "de"}, candidates, visitor_id=f"v{number}"))
            while service.start.turn == 0:
                await service.tick()
                await asyncio.sleep(0.02)
            features = service.catalogue.features_of
            before = features(service.catalogue.version_of("5") or 0)
            encoder = service.model.fitted.products
            assert encoder.decode_one(before) == {"colour": "red", "price": 2.0}
            undescribed: list[Any] = [5, {"id": "5"}, {"id": 5}, {"id": 5, "weight": 3}]
            for candidate in undescribed:
                await service.decide(DecideBody({}, [candidate, "b"]))
                assert np.array_equal(features(service.catalogue.version_of("5") or 0), before)
            await service.decide(DecideBody({}, [{"id": 5, "price": 3.0}, "b", "new"]))
            after = features(service.catalogue.version_of("5") or 0)
            assert encoder.decode_one(after) == {"colour": "red", "price": 3.0}
            assert "new" not in service.catalogue.names()

    asyncio.run(run())


@pytest.mark.parametrize("broken", [{"ancestors": []}, {"position": "x"}, {"join": {"open": {"a": 1}}}, {"join": []}])
def test_a_model_whose_origin_is_damaged_is_refused(tmp_path: Path, broken: dict[str, Any]) -> None:
    join = Join(Rules(), {}).state()
    model = load_model(make_model(tmp_path))
    model.facts[GROWN_FROM] = {"ancestors": ["a"], "position": 1, "join": join, **broken}
    with pytest.raises(DataError, match="what it grew from cannot be read"):
        origin_of(model)
    model.facts[GROWN_FROM] = "the digest of its ancestor, as earlier releases kept it"
    assert origin_of(model) is None


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
