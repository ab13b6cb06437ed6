"""What every store does: rows in order, each key once, all or nothing, and nothing broken goes unnoticed."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tests.serving.valkey import ValkeyServer, valkey_server
from zoosim.core.errors import ConfigError, DataError
from zoosim.serving.events import Kind, NewRow
from zoosim.serving.store.address import LOG, Address, open_store, parse_address
from zoosim.serving.store.base import Store


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    with valkey_server(tmp_path_factory.mktemp("server") / "valkey") as running:
        yield running


class Place:
    """An empty log of a test, which may be opened any number of times."""

    def __init__(self, address: Address, server: ValkeyServer) -> None:
        self._address = address
        self._server = server
        self._opened = contextlib.ExitStack()

    def open(self, read_only: bool = False) -> Store:
        return self._opened.enter_context(contextlib.closing(open_store(self._address, read_only)))

    def damage_second_row(self) -> None:
        """Change the time of the second of two rows."""
        if not self._address.server:
            apsw.Connection(str(self._address.folder / LOG)).execute("UPDATE log SET time = 2 WHERE seq = 2")
            return
        with self._server.client() as client:
            log = f"{{{self._address.loop}}}:log"
            (_, fields), *_ = client.execute_command("XRANGE", log, "2-0", "2-0")
            client.execute_command("XDEL", log, "2-0")
            values = [part for field in {**fields, b"time": b"2"}.items() for part in field]
            client.execute_command("XADD", log, "2-1", *values)

    def overwrite(self) -> None:
        """Put something else where the log should be."""
        if not self._address.server:
            (self._address.folder / LOG).write_bytes(b"no database at all, " * 100)
            return
        with self._server.client() as client:
            client.execute_command("XADD", f"{{{self._address.loop}}}:log", "1-0", "key", "value")

    def close(self) -> None:
        self._opened.close()


@pytest.fixture(params=["sqlite", "valkey"])
def place(request: pytest.FixtureRequest, tmp_path: Path, server: ValkeyServer) -> Iterator[Place]:
    store = f"sqlite:{tmp_path}" if request.param == "sqlite" else server.store(tmp_path.name, tmp_path)
    place = Place(parse_address(store), server)
    yield place
    place.close()


def row(name: str | None, time: int = 1) -> NewRow:
    return NewRow(time, Kind.FEEDBACK, None if name is None else name.encode(), b"body of " + str(name).encode())


def test_rows_stand_in_their_order_and_each_key_once(place: Place) -> None:
    store = place.open()
    assert store.append([row("a"), row("b"), row("a")]) == [1, 2, None]
    assert store.append([row("b"), row(None), row(None)]) == [None, 3, 4]
    assert store.append([row("b"), row("c"), row("a"), row("c")]) == [None, 5, None, None]
    assert [found.seq for found in store.read(0, 10)] == [1, 2, 3, 4, 5]
    assert [found.key for found in store.read(1, 2)] == [b"b", None]
    found = store.find(b"b")
    assert found is not None
    assert (found.seq, found.body) == (2, b"body of b")
    assert store.find(b"d") is None
    assert store.row(2) == found
    assert store.row(6) is None
    assert store.rows([5, 6, 2]) == {2: found, 5: store.find(b"c")}
    assert store.rows([]) == {}
    assert store.append([]) == []


def test_bytes_come_back_as_they_were(place: Place) -> None:
    every_byte = bytes(range(256)) * 300
    store = place.open()
    new = NewRow(2**53 + 1, Kind.DECISION, every_byte[:300], every_byte)
    store.append([new])
    newest = store.last()
    assert newest is not None
    assert newest[1:] == new
    assert store.find(every_byte[:300]) == newest


def test_another_process_reads_what_was_appended(place: Place) -> None:
    store = place.open()
    reader = place.open(read_only=True)
    assert reader.last() is None
    store.append([row("a")])
    assert [found.key for found in reader.read(0, 10)] == [b"a"]


def test_positions_go_on_after_a_restart_and_after_old_rows_were_removed(place: Place) -> None:
    store = place.open()
    store.append([row(f"{time}", time) for time in range(5)])
    assert store.remove_before(3, limit=2) == 2
    assert store.remove_before(3, limit=10) == 1
    assert store.remove_before(3, limit=10) == 0
    assert store.remove_before(100, limit=10) == 1
    assert store.row(4) is None
    assert store.find(b"3") is None
    store.close()
    assert place.open().append([row("0"), row("4")]) == [6, None]


def test_time_never_goes_back(place: Place) -> None:
    store = place.open()
    store.append([row("a", 5), row("b", 3)])
    store.append([row("c", 4), row("d", 6)])
    store.close()
    store = place.open()
    store.append([row("e", 2)])
    assert [found.time for found in store.read(0, 10)] == [5, 5, 5, 6, 6]


def test_rows_get_other_bodies_while_others_are_appended(place: Place) -> None:
    """The newest row is replaced, too: who stored it goes on behind it."""
    store, other = place.open(), place.open()
    store.append([row(f"{number}", number) for number in range(1_200)])
    store.remove_before(100, limit=100)
    before = store.read(0, 2_000)
    places = (0, 7, 700, len(before) - 1)
    replaced = [before[number]._replace(body=b"other") for number in places]
    other.replace(replaced)
    other.replace([])
    after = store.read(0, 2_000)
    assert [after[number] for number in places] == replaced
    assert [found[:4] for found in after] == [found[:4] for found in before]
    assert sum(new != old for new, old in zip(after, before, strict=True)) == len(places)
    assert store.find(replaced[1].key or b"") == replaced[1]
    assert store.append([row("7"), row("700"), row("new", 2_000)]) == [1201, None, 1202]
    other.replace([store.read(1_200, 1)[0]._replace(body=b"other")])
    assert store.append([row("newer", 2_000)]) == [1203]


def test_a_changed_row_is_refused(place: Place) -> None:
    store = place.open()
    store.append([row("a"), row("b")])
    place.damage_second_row()
    assert len(store.read(0, 1)) == 1
    with pytest.raises(DataError, match=r"row 2.* is broken"):
        store.read(0, 2)


def test_what_is_no_log_is_refused(place: Place) -> None:
    place.overwrite()
    with pytest.raises(DataError, match=r"no log of a service|is broken"):
        place.open()


@pytest.mark.parametrize(
    "text",
    [
        "sqlite:",
        "file:x",
        "redis:",
        "redis://",
        "redis://host:port/0",
        "redis://host/zero",
        "redis://host/0?nam=x",
        "redis://host/0?name={x}",
    ],
)
def test_addresses_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"store: .*(expected|did you mean)"):
        parse_address(text)


def test_passwords_are_not_shown() -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_address("redis://user:secret@host/zero")
    assert "secret" not in str(refusal.value)
    assert parse_address("rediss://:secret@host:6380/2?name=shop&folder=/data") == Address(
        Path("/data"), "rediss://:secret@host:6380/2", "shop"
    )
