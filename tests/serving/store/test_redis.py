"""A log on a server that fails, and several services that want it."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.serving.shop import PRODUCTS, make_model, running
from tests.serving.state_digest import state_digest
from tests.serving.store.test_contract import row
from tests.serving.test_service import replayed, visit
from tests.serving.valkey import ValkeyServer, valkey_server
from tests.waiting import eventually
from zoosim.core.errors import ConfigError, DataError, StoreError
from zoosim.serving.bodies import DecideBody, ProductBody
from zoosim.serving.learner import LearnerJob, LogLearner
from zoosim.serving.machine import Machine
from zoosim.serving.snapshots import write_snapshot
from zoosim.serving.store import redis as redis_module
from zoosim.serving.store.address import parse_address
from zoosim.serving.store.base import LostRows
from zoosim.serving.store.redis import RedisStore


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ValkeyServer]:
    with valkey_server(tmp_path / "valkey") as running_server:
        yield running_server


def opened(server: ValkeyServer, read_only: bool = False) -> RedisStore:
    address = parse_address(server.store("loop", Path()))
    return RedisStore(address.server, address.loop, read_only)


def die(store: RedisStore) -> None:
    """Let a store no longer renew its lease, as if its process were stopped."""
    store._closing.set()


def lose_newest(server: ValkeyServer) -> None:
    """Let the server forget its newest row, as after a power cut."""
    with server.client() as client:
        entries = client.execute_command("XRANGE", "{loop}:log", "-", "+")
        client.delete("{loop}:log")
        for name, fields in entries[:-1]:
            values = [part for field in fields.items() for part in field]
            client.execute_command("XADD", "{loop}:log", name, *values)


def test_it_goes_on_when_the_server_is_back(server: ValkeyServer) -> None:
    store = opened(server)
    assert store.append([row("a")]) == [1]
    server.kill()
    for _ in range(2):
        with pytest.raises(StoreError, match="cannot be read or written"):
            store.append([row("b")])
    with pytest.raises(StoreError, match="cannot be read or written"):
        store.find(b"a")
    server.start()
    assert store.append([row("b"), row("a")]) == [2, None]
    store.close()


def test_rows_whose_answer_was_lost_are_stored_once(server: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(server)
    store.append([row("a")])
    append = store._append
    lost = [redis.TimeoutError("lost")]

    def lose_an_answer(*values: Any) -> Any:
        answer = append(*values)
        if lost:
            raise lost.pop()
        return answer

    monkeypatch.setattr(store, "_append", lose_an_answer)
    assert store.append([row("b"), row("a"), row(None)]) == [2, None, 3]
    lost += [redis.TimeoutError("lost")] * 2
    with pytest.raises(StoreError, match="lost"):
        store.append([row("c"), row(None)])
    assert store.append([row("c"), row("d")]) == [None, 6]
    assert [found.key for found in store.read(0, 10)] == [b"a", b"b", None, b"c", None, b"d"]
    store.close()


def test_a_server_that_lost_rows_is_noticed(server: ValkeyServer) -> None:
    store = opened(server)
    store.append([row("a"), row("b")])
    lose_newest(server)
    for _ in range(2):
        with pytest.raises(DataError, match="lacks row 2"):
            store.append([row("c")])
    other = opened(server)
    assert other.append([row("c"), row("d")]) == [2, 3]
    with pytest.raises(DataError, match="lacks row 2"):
        store.append([row("e")])
    other.close()
    store.close()


class Nobody:
    """Who a learner works for, to whom nothing matters."""

    wants_whole = False

    def send(self, content: bytes) -> None: ...

    def wants_stop(self) -> bool:
        return False

    def wait(self, seconds: float) -> None: ...


def test_a_learner_notices_that_what_it_learned_from_is_lost(server: ValkeyServer, tmp_path: Path) -> None:
    folder = tmp_path / "service"

    async def use() -> None:
        async with running(folder, make_model(tmp_path), store=server.store("loop", folder)) as service:
            learner = LogLearner(LearnerJob(service.address, 60.0), Nobody(), Machine())
            await visit(service, 1)
            assert learner.catch_up() > 0
            assert learner.catch_up() == 0
            lose_newest(server)
            for _ in range(2):
                with pytest.raises(LostRows, match="the server has lost rows"):
                    learner.catch_up()
                opened(server).append([row("a"), row("b")])
            service.refuse_to_write("lost")
            with pytest.raises(StoreError, match="lost"):
                await service.decide(DecideBody())
            assert await service.upkeep.check_writing() == "lost"
            assert not await service._writer.run(lambda store: store.leads)

    asyncio.run(use())


def test_rows_of_several_services_stand_in_one_order(server: ValkeyServer) -> None:
    """Each sends some rows again that another sent, too."""
    stores = [opened(server) for _ in range(3)]
    positions: list[list[int | None]] = [[], [], []]

    def append(number: int) -> None:
        for step in range(100):
            shared = row(f"shared {step}")
            positions[number] += stores[number].append([row(f"{number} {step}"), shared, row(None, time=step)])

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(append, range(3)))
    rows = stores[0].read(0, 10_000)
    assert [found.seq for found in rows] == list(range(1, 701))
    assert len({found.key for found in rows if found.key}) == 400
    stored = [position for each in positions for position in each if position is not None]
    assert sorted(stored) == list(range(1, 701))
    times = [found.time for found in rows]
    assert times == sorted(times)
    for store in stores:
        store.close()


def test_one_service_leads_until_it_is_gone(server: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_module, "LEASE_SECONDS", 1.0)
    first, second = opened(server), opened(server)
    first.append([row("a", 1), row("b", 2)])
    assert second.append([row("c", 3)]) == [3]
    assert (first.leads, second.leads) == (True, False)
    first.share(Path(__file__).parent, [Path(__file__).name])
    for attempt in (lambda: second.remove_before(10, 10), lambda: second.unshare(second.shared())):
        with pytest.raises(StoreError, match="another service leads"):
            attempt()
    die(first)
    eventually(lambda: second.leads)
    assert not first.leads
    with pytest.raises(StoreError, match="another service leads"):
        first.remove_before(10, 10)
    assert second.remove_before(10, 1) == 1
    second.unshare(second.shared())
    assert second.shared() == []
    second.close()
    third = opened(server)
    assert third.leads
    third.close()


def test_a_machine_that_slept_leads_no_more(server: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the time of the service that leads has gone on meanwhile. The monotonic clock stood still."""
    sleep = 3_600 * 10**9
    leader, other = opened(server), opened(server)
    leader.keep_time(lambda: 1_000_000)
    other.keep_time(lambda: 0)
    before = other.common_time()
    die(leader)
    die(other)
    clock = time.clock_gettime_ns
    monkeypatch.setattr(time, "clock_gettime_ns", lambda which: clock(which) + sleep * (which == time.CLOCK_BOOTTIME))
    assert not leader.leads
    after = other.common_time()
    assert before is not None
    assert after is not None
    assert 0 <= after - before - sleep // 1_000 < 60 * 10**6
    leader.close()
    other.close()


def test_who_knows_rows_that_are_lost_leads_no_more(server: ValkeyServer) -> None:
    first, second = opened(server), opened(server)
    first.append([row("a"), row("b")])
    assert (first.leads, second.leads) == (True, False)
    lose_newest(server)
    with pytest.raises(LostRows):
        first.append([row("c")])
    assert not first.leads
    eventually(lambda: second.leads, redis_module.LEASE_SECONDS / 2)
    first.close()
    second.close()


def test_rows_that_come_while_others_are_replaced_are_kept(server: ValkeyServer) -> None:
    """Two visitors are forgotten at once, old rows are removed, and somebody appends."""
    store = opened(server)
    store.append([row(f"{number}", number) for number in range(3_000)])
    rows = store.read(0, 3_000)

    def replace(number: int) -> None:
        forgetting = opened(server)
        forgetting.replace([row._replace(body=b"gone") for row in rows[500 + number :: 700]])
        forgetting.close()

    with ThreadPoolExecutor(2) as pool:
        replacing = [pool.submit(replace, number) for number in range(2)]
        step = 0
        while not all(each.done() for each in replacing):
            assert store.append([row(f"while {step}", 3_000)]) == [3_001 + step]
            step += 1
            if step == 3:
                assert store.remove_before(400, limit=400) == 400
    for each in replacing:
        each.result()
    after = store.read(0, 100_000)
    assert [found.seq for found in after] == list(range(401, 3_001 + step))
    gone = [found.seq for found in after if found.body == b"gone"]
    assert gone == sorted(row.seq for number in range(2) for row in rows[500 + number :: 700])
    with server.client() as client:
        assert not client.keys("*:copy:*")
        client.config_set("maxmemory", client.info("memory")["used_memory"] + 100_000)
    with pytest.raises(StoreError, match="hold the log twice"):
        store.replace(rows[500:501])
    store.close()


def test_a_copy_that_expired_while_it_was_made_takes_no_place(
    server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_module, "COPIED_TOGETHER", 100)
    store = opened(server)
    store.append([row(f"{number}", number) for number in range(300)])
    rows = store.read(0, 300)
    run = store._run
    parts = []

    def run_and_expire(call: Any, *arguments: Any) -> Any:
        if call is store._copy_rows:
            parts.append(arguments)
            if len(parts) == 2:
                with server.client() as client:
                    client.delete(store._copy)
        return run(call, *arguments)

    monkeypatch.setattr(store, "_run", run_and_expire)
    store.replace([rows[250]._replace(body=b"gone")])
    assert len(parts) == 6
    after = store.read(0, 300)
    assert [found.seq for found in after] == [row.seq for row in rows]
    assert [found.seq for found in after if found.body == b"gone"] == [rows[250].seq]
    store.close()


def test_the_first_content_of_a_file_is_that_of_all(server: ValkeyServer) -> None:
    first, second = opened(server), opened(server)
    assert first.agree("secret", b"one") == second.agree("secret", b"two") == b"one"
    first.close()
    second.close()


def test_servers_that_drop_keys_are_refused_and_those_without_a_disk_named(
    server: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    with server.client() as client:
        client.config_set("appendonly", "no")
        opened(server).close()
        assert "appendonly is no" in caplog.text
        client.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(ConfigError, match="allkeys-lru"):
        opened(server)


def test_a_service_on_another_machine_takes_over(server: ValkeyServer, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"

    async def use() -> None:
        async with running(here, make_model(tmp_path), store=server.store("loop", here)) as service:
            for number in range(30):
                await visit(service, number)
            await service.change_product("new", ProductBody(features={"category": "c1"}))
            await service.tick()
            write_snapshot(here / "snapshots", replayed(here, address=service.address))
            first = await service.decide(DecideBody(decision_id="same"))
        async with running(there, None, store=server.store("loop", there)) as service:
            assert await service.decide(DecideBody(decision_id="same")) == first
            assert service.catalogue.names() == [*PRODUCTS, "new"]
            await service.decide(DecideBody())
            assert state_digest(replayed(there, address=service.address)) == state_digest(
                replayed(here, address=service.address)
            )

    asyncio.run(use())
    for name in ("secret", *(f"snapshots/{path.name}" for path in (here / "snapshots").iterdir())):
        assert (there / name).read_bytes() == (here / name).read_bytes()


def test_snapshots_of_rows_that_the_server_lost_are_left_out(
    server: ValkeyServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "service"
    store = server.store("loop", folder)

    async def use() -> None:
        async with running(folder, make_model(tmp_path), store=store) as service:
            for number in range(20):
                await visit(service, number)
            write_snapshot(folder / "snapshots", replayed(folder, address=service.address))
        lose_newest(server)
        async with running(folder, None, store=store) as service:
            assert "which is not in the log" in caplog.text
            await visit(service, 1)

    asyncio.run(use())
