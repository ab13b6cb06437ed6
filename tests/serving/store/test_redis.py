"""A log on a server that fails, and several services that want it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.serving.shop import PRODUCTS, make_model, running
from tests.serving.store.test_contract import row
from tests.serving.test_service import replayed, visit
from tests.serving.valkey import ValkeyServer, valkey_server
from zoosim.core.errors import ConfigError, DataError, StoreError
from zoosim.serving.bodies import DecideBody, ProductBody
from zoosim.serving.snapshots import state_digest, write_snapshot
from zoosim.serving.store import redis as redis_module
from zoosim.serving.store.address import parse_address
from zoosim.serving.store.base import StoredAfterAll
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


def test_rows_whose_answer_was_lost_are_not_taken_for_lost(
    server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(server)
    store.append([row("a")])
    append = store._append

    def lose_the_answer(*values: Any) -> None:
        append(*values)
        raise redis.TimeoutError("lost")

    monkeypatch.setattr(store, "_append", lose_the_answer)
    with pytest.raises(StoreError, match="lost"):
        store.append([row("b"), row(None)])
    monkeypatch.setattr(store, "_append", append)
    with pytest.raises(StoredAfterAll) as error:
        store.append([row("c")])
    assert [(stored.seq, stored.key) for stored in error.value.rows] == [(2, b"b"), (3, None)]
    assert store.append([row("b"), row("c")]) == [None, 4]
    store.close()


def test_a_server_that_lost_rows_is_noticed(server: ValkeyServer) -> None:
    store = opened(server)
    store.append([row("a"), row("b")])
    lose_newest(server)
    with pytest.raises(StoreError, match="not as it was left"):
        store.append([row("c")])
    for _ in range(2):
        with pytest.raises(DataError, match="ends at row 1, expected row 2"):
            store.append([row("c")])
    store.close()


def test_one_service_at_a_time_appends(server: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_module, "LEASE_SECONDS", 1.0)
    first = opened(server)
    first.append([row("a")])
    with pytest.raises(ConfigError, match="another service"):
        opened(server)
    assert opened(server, read_only=True).find(b"a") is not None
    die(first)
    second = opened(server)
    assert second.append([row("b")]) == [2]
    for attempt in (
        lambda: first.append([row("c")]),
        lambda: first.remove_before(10, 10),
        lambda: first.share(Path(__file__).parent, [Path(__file__).name]),
    ):
        with pytest.raises(StoreError, match="taken it over"):
            attempt()
    assert second.append([row("c")]) == [3]
    second.close()
    opened(server).close()


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
