"""Several services that share one log: what one of them was told, each of them goes by, and none of it is lost."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from tests.serving.process import ServiceProcess, serving
from tests.serving.shop import PRODUCTS, make_model, running
from tests.serving.state_digest import state_digest
from tests.serving.test_faults import Shop
from tests.serving.test_service import replayed, visit
from tests.serving.valkey import ValkeyServer, valkey_server
from tests.waiting import eventually
from zoosim.serving.bodies import DecideBody, FeedbackBody, ProductBody
from zoosim.serving.client import Client
from zoosim.serving.events import Kind, Row, decision_key, feedback_key
from zoosim.serving.folder import SNAPSHOTS, load_served_model
from zoosim.serving.refusals import Conflict
from zoosim.serving.service import Service
from zoosim.serving.snapshots import newest_replica
from zoosim.serving.store.address import Address, open_store, parse_address

ADMIN = "/personalizer/v1.1-preview.3"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    with valkey_server(tmp_path_factory.mktemp("server") / "valkey") as running_server:
        yield running_server


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


class Pair(NamedTuple):
    """Two services without HTTP and without learners."""

    first: Service
    second: Service


@contextlib.asynccontextmanager
async def pair(server: ValkeyServer, folder: Path, model: Path | None, **settings: Any) -> AsyncIterator[Pair]:
    name = folder.name
    async with (
        running(folder / "a", model, store=server.store(name, folder / "a"), **settings) as first,
        running(folder / "b", None, store=server.store(name, folder / "b"), **settings) as second,
    ):
        yield Pair(first, second)


def test_either_service_answers_for_both(server: ValkeyServer, tmp_path: Path, model: Path) -> None:
    async def use() -> None:
        async with pair(server, tmp_path, model) as (first, second):
            body = DecideBody(visitor={"country": "fr"}, decision_id="visit 1", count=3)
            answer = await first.decide(body)
            assert await second.decide(body) == answer == await second.answer("visit 1")
            with pytest.raises(Conflict, match="visit 1"):
                await second.decide(DecideBody(visitor={"country": "it"}, decision_id="visit 1", count=3))
            both = DecideBody(decision_id="both")
            assert (await first.decide(both)).shown == (await second.decide(both)).shown
            feedback = FeedbackBody({"click": 1.0}, feedback_id="f")
            assert (await second.give_feedback("visit 1", feedback)).status == "accepted"
            assert (await first.give_feedback("visit 1", feedback)).status == "duplicate"
            await second.tick()

    asyncio.run(use())
    address = parse_address(server.store(tmp_path.name, tmp_path / "a"))
    assert replayed(tmp_path / "a", address=address).champion.counts["learned"] == 1


def test_the_same_id_at_once_is_one_decision(server: ValkeyServer, tmp_path: Path, model: Path) -> None:
    async def use() -> None:
        async with pair(server, tmp_path, model) as services:
            for number in range(20):
                body = DecideBody(decision_id=f"{number}")
                first, second = await asyncio.gather(*(service.decide(body) for service in services))
                assert first == second

    asyncio.run(use())


def test_products_that_both_add_at_once_are_one(server: ValkeyServer, tmp_path: Path, model: Path) -> None:
    async def use() -> None:
        async with pair(server, tmp_path, model) as (first, second):
            new = DecideBody({"country": "de"}, [{"id": "q1", "category": "c1"}, "p1"])
            answers = await asyncio.gather(first.decide(new), second.decide(new))
            assert [set(answer.propensities) for answer in answers] == [{"q1", "p1"}] * 2
            names = await first.answer(answers[1].decision_id)  # with a version of which it has not read
            assert names == answers[1]
            changes = [ProductBody(features={"category": f"c{number}"}) for number in range(2)]
            await asyncio.gather(first.change_product("q1", changes[0]), second.change_product("q1", changes[1]))
            await first.current.catch_up()
            await second.current.catch_up()
            everything = [service.catalogue.everything() for service in (first, second)]
            assert everything[0].names == everything[1].names == (*PRODUCTS, "q1")
            assert everything[0].versions.tolist() == everything[1].versions.tolist()
            assert everything[0].features.tolist() == everything[1].features.tolist()

    asyncio.run(use())


def test_a_model_that_one_switches_to_is_that_of_both(
    server: ValkeyServer, tmp_path: Path, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = make_model(tmp_path_factory.mktemp("other"), names=[f"q{number}" for number in range(8)])

    async def use() -> None:
        async with pair(server, tmp_path, model) as (first, second):
            await second.change_product("p1", ProductBody(available=False))
            await first.switch_model(first.keep_model(other))
            before = await second.decide(DecideBody())  # it has not read of that yet
            await second.change_product("q9", ProductBody(features={"category": "c1"}))  # now it has
            assert second.start == first.start
            after = await second.decide(DecideBody())
            assert {name[0] for name in before.propensities} == {"p"}
            assert {name[0] for name in after.propensities} == {"q"}
            assert set((await first.decide(DecideBody(candidates=["q1"]))).propensities) == {"q1"}
            starts = [first.switch_model(first.start.model), second.switch_model(first.start.model)]
            await asyncio.gather(*starts, second.change_settings({"wait": 2.0, "exploration": 0.5}))
            await first.current.catch_up()
            await second.current.catch_up()
            assert first.start == second.start
            assert (first.settings.wait, first.settings.exploration) == (2.0, 0.5)

    asyncio.run(use())
    address = parse_address(server.store(tmp_path.name, tmp_path / "a"))
    replica = replayed(tmp_path / "a", address=address)
    assert replica.champion.counts["of an earlier model"] == 1
    assert replica.start is not None
    assert replica.start.number == 1 + 1 + 2 + 1


def test_a_schema_that_one_lets_grow_is_that_of_both(server: ValkeyServer, tmp_path: Path) -> None:
    """The first schema grows in the first service, a second one in the second; what lags behind is learned, too."""

    async def decide(service: Service, first: int, stop: int, **columns: Any) -> None:
        for number in range(first, stop):
            values = {name: value[number % 2] for name, value in columns.items()}
            answer = await service.decide(DecideBody(values, ["a", "b"], decision_id=f"visit {number}"))
            await service.give_value(answer.decision_id, {0: float(number % 3 == 0)})

    async def grow(service: Service, growths: int) -> None:
        while service.start.number <= growths:
            await service.tick()
            await asyncio.sleep(0.02)

    async def use() -> None:
        async with pair(server, tmp_path, None, wait=60.0) as both:
            await decide(both.first, 0, 190, country=["de", "fr"])
            await decide(both.second, 190, 200, country=["de", "fr"])
            await grow(both.first, 1)
            await decide(both.second, 200, 210, country=["de", "fr"])
            assert both.second.is_warming_up
            await both.second.current.catch_up()
            await decide(both.second, 210, 410, country=["de", "fr"], device=["app", "web"])
            await grow(both.second, 2)
            await both.first.current.catch_up()
            await decide(both.first, 410, 420, country=["de", "fr"], device=["app", "web"])
            await both.first.tick()
            assert both.first.start == both.second.start
            assert both.first.model.fitted.visitors.names == ["country", "device"]

    asyncio.run(use())
    address = parse_address(server.store(tmp_path.name, tmp_path / "b"))
    replicas = [replayed(tmp_path / folder, address=address) for folder in "ab"]
    assert [replica.champion.counts["learned"] for replica in replicas] == [420, 420]
    assert state_digest(replicas[0]) == state_digest(replicas[1])


def test_services_that_begin_at_once_begin_alike(server: ValkeyServer, tmp_path: Path) -> None:
    """Each makes a secret and a model that stands in; both go by those of the first."""
    services = []

    def begin(name: str) -> None:
        async def use() -> None:
            async with running(tmp_path / name, None, store=server.store(tmp_path.name, tmp_path / name)) as service:
                answer = await service.decide(DecideBody(candidates=[{"id": "a"}, {"id": "b"}], decision_id="one"))
                services.append((service.start, answer, (tmp_path / name / "secret").read_bytes()))

        asyncio.run(use())

    threads = [threading.Thread(target=begin, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert services[0] == services[1]


def test_a_server_that_is_slow_keeps_nobody_else_waiting(
    server: ValkeyServer, tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use() -> None:
        async with pair(server, tmp_path, model) as (first, _):
            find = first._reader.find

            def find_slowly(key: bytes) -> Row | None:
                time.sleep(0.5)
                return find(key)

            monkeypatch.setattr(first._reader, "find", find_slowly)
            slow = asyncio.create_task(first.decide(DecideBody(decision_id="slow")))
            await asyncio.sleep(0.01)
            began = time.monotonic()
            await first.decide(DecideBody())
            assert time.monotonic() - began < 0.4
            assert not slow.done()
            await slow

    asyncio.run(use())


@pytest.fixture(scope="module")
def processes(
    server: ValkeyServer, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ServiceProcess, ServiceProcess]]:
    folder = tmp_path_factory.mktemp("two")
    settings = {"snapshot": 0.3, "wait": 600.0}
    with (
        serving(folder / "a", model, server.store("two", folder / "a"), **settings) as first,
        serving(folder / "b", None, server.store("two", folder / "b"), **settings) as second,
    ):
        yield first, second


def has_learned(service: ServiceProcess, decisions: int) -> bool:
    return bool(description(service)["learned"].get("learned") == decisions)


def description(service: ServiceProcess) -> dict[str, Any]:
    return dict(httpx2.get(f"{service.url}/v1/model").json())


@pytest.mark.timeout(200)
def test_what_one_is_told_both_go_by_within_a_second(processes: tuple[ServiceProcess, ServiceProcess]) -> None:
    first, second = processes
    with Client(first.url) as a, Client(second.url) as b:
        for number in range(20):
            decision = a.decide({"country": "de"}, decision_id=f"visit {number}")
            assert b.decide({"country": "de"}, decision_id=f"visit {number}") == decision
            assert b.give_feedback(decision.id, {"click": 1.0}) == "accepted"
        for service in processes:
            eventually(partial(has_learned, service, 20))
        assert httpx2.put(f"{first.url}/v1/products/new", json={"features": {"category": "c1"}}).status_code == 204
        eventually(lambda: "new" in httpx2.get(f"{second.url}/v1/products").json()["products"])
        assert set(b.decide({}, ["new", "p1"]).propensities) == {"new", "p1"}
        policy = {"name": "several", "arguments": "--ccb_explore_adf"}
        assert httpx2.put(f"{second.url}{ADMIN}/configurations/policy", json=policy).status_code == 200
        eventually(lambda: httpx2.get(f"{first.url}{ADMIN}/configurations/policy").json() == policy)
        exported = httpx2.get(f"{first.url}{ADMIN}/model").content
        assert httpx2.put(f"{first.url}{ADMIN}/model", content=exported).status_code == 204
        switched = description(first)["model"]
        eventually(lambda: description(second)["model"] == switched)
        assert httpx2.post(f"{second.url}/v1/decisions", json={}).json()["model"] == switched
    for service in processes:
        assert "Traceback" not in service.output


def check_learned(service: ServiceProcess, address: Address) -> None:
    """Compare the last snapshot of a service with its log read anew."""
    folder = service.folder
    store = open_store(address, read_only=True)
    kept = newest_replica(folder / SNAPSHOTS, lambda digest: load_served_model(folder, digest), store.rows, pytest.fail)
    assert state_digest(kept) == state_digest(replayed(folder, stop=kept.position, address=address))


@pytest.mark.timeout(280)
def test_nothing_is_lost_when_one_is_killed(server: ValkeyServer, model: Path, tmp_path: Path) -> None:
    """The one that leads is killed under load; the other ticks for what it had taken in."""
    stores = [server.store("killed", tmp_path / name) for name in ("a", "b")]
    address = parse_address(stores[1])
    settings = {"snapshot": 0.3, "wait": 2.0}
    stop = threading.Event()
    with (
        serving(tmp_path / "a", model, stores[0], **settings) as first,
        serving(tmp_path / "b", None, stores[1], **settings) as second,
    ):
        shops = [Shop(service.url, number, stop) for number, service in enumerate((first, first, second, second))]
        for shop in shops:
            shop.start()
        eventually(lambda: all(len(shop.feedback) > 3 for shop in shops), 60.0)
        first.kill()
        before = len(shops[2].decisions)
        eventually(lambda: len(shops[2].decisions) > before + 5)
        stop.set()
        for shop in shops:
            shop.join()
        eventually(lambda: description(second)["learned"].get("open") == 0)
        assert second.stop() == 0
    store = open_store(address, read_only=True)
    for shop in shops:
        assert len(shop.feedback) > 3
        assert all(store.find(decision_key(name)) is not None for name in shop.decisions)
        assert all(store.find(feedback_key(name, feedback_id)) is not None for name, feedback_id in shop.feedback)
    rows = store.read(0, 1_000_000)
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    decisions = sum(row.kind is Kind.DECISION for row in rows)
    replica = replayed(second.folder, address=address)
    assert replica.champion.counts == {"learned": decisions}
    assert "Traceback" not in second.output
    check_learned(second, address)


@pytest.mark.timeout(100)
def test_both_learners_come_to_what_the_log_says(
    processes: tuple[ServiceProcess, ServiceProcess], server: ValkeyServer
) -> None:
    for service in processes:
        assert service.stop() == 0
        check_learned(service, parse_address(server.store("two", service.folder)))


def test_cleaning_is_for_the_one_that_leads(server: ValkeyServer, tmp_path: Path, model: Path) -> None:
    async def use() -> None:
        async with pair(server, tmp_path, model) as (first, second):
            await visit(second, 1)
            assert (first._store.leads, second._store.leads) == (True, False)
            assert await second.upkeep.clean() == 0
            await first.upkeep.delete_log()
            await second.current.catch_up()
            assert await second.upkeep.log_reach() is None

    asyncio.run(use())
