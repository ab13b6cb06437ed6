"""Any order of operations on a log, with restarts between them, gives what a list of rows gives."""

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.serving.valkey import ValkeyServer, valkey_server
from zoosim.serving.events import Kind, NewRow, Row
from zoosim.serving.store.address import open_store, parse_address

KEYS = st.none() | st.sampled_from([b"a", b"b", b"c", b"d", b"e", b"f\0g"])
NEW_ROWS = st.builds(
    NewRow, st.integers(0, 30), st.sampled_from([Kind.FEEDBACK, Kind.DECISION]), KEYS, st.binary(max_size=9)
)

_numbers = itertools.count()


class StoreMachine(RuleBasedStateMachine):
    """A log, and the rows that it should have."""

    def __init__(self, store: str) -> None:
        super().__init__()
        number = next(_numbers)
        self._address = parse_address(store.format(number=number))
        self._address.folder.mkdir(parents=True, exist_ok=True)
        self._store = open_store(self._address)
        self._reader = open_store(self._address, read_only=True)
        self._rows: list[Row] = []
        self._newest = 0

    @rule(rows=st.lists(NEW_ROWS, max_size=5))
    def append(self, rows: list[NewRow]) -> None:
        expected: list[int | None] = []
        for row in rows:
            if row.key is not None and any(row.key == other.key for other in self._rows):
                expected.append(None)
                continue
            self._newest += 1
            time = max([row.time, *(other.time for other in self._rows[-1:])])
            self._rows.append(Row(self._newest, time, *row[1:]))
            expected.append(self._newest)
        assert self._store.append(rows) == expected
        self._store.sync()

    @rule(time=st.integers(0, 30), limit=st.integers(1, 5))
    def remove_before(self, time: int, limit: int) -> None:
        old = list(itertools.takewhile(lambda row: row.time < time, self._rows[:-1]))[:limit]
        assert self._store.remove_before(time, limit) == len(old)
        del self._rows[: len(old)]

    @rule(place=st.integers(0, 20), body=st.binary(max_size=9))
    def replace(self, place: int, body: bytes) -> None:
        if self._rows:
            place %= len(self._rows)
            self._rows[place] = self._rows[place]._replace(body=body)
            self._store.replace([self._rows[place]])

    @rule()
    def start_again(self) -> None:
        self._store.close()
        self._store = open_store(self._address)

    @rule(after=st.integers(0, 20), limit=st.integers(1, 9))
    def read(self, after: int, limit: int) -> None:
        assert self._reader.read(after, limit) == [row for row in self._rows if row.seq > after][:limit]

    @rule(key=st.sampled_from([b"a", b"b", b"c", b"d", b"e", b"f\0g", b"nobody's"]))
    def find(self, key: bytes) -> None:
        assert self._reader.find(key) == next((row for row in self._rows if row.key == key), None)

    @invariant()
    def ends_alike(self) -> None:
        assert self._store.last() == (self._rows[-1] if self._rows else None)
        assert self._reader.row(self._newest) == self._store.last()

    def teardown(self) -> None:
        self._store.close()
        self._reader.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    with valkey_server(tmp_path_factory.mktemp("server") / "valkey") as running:
        yield running


@pytest.mark.parametrize(("kind", "examples"), [("sqlite", 25), ("valkey", 8)])
def test_operations_in_any_order_give_what_a_list_gives(
    kind: str, examples: int, tmp_path: Path, server: ValkeyServer
) -> None:
    folder = tmp_path / "{number}"
    store = f"sqlite:{folder}" if kind == "sqlite" else server.store("loop{number}", folder)
    few = settings(max_examples=examples, stateful_step_count=20, deadline=None, derandomize=True, database=None)
    machine: Any = partial(StoreMachine, store)
    run_state_machine_as_test(machine, settings=few)
