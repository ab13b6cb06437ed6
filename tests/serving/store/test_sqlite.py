"""The log in SQLite: in order, each key once, all or nothing, and nothing broken goes unnoticed."""

from pathlib import Path

import apsw
import numpy as np
import pytest

from zoosim.core.errors import DataError, StoreError
from zoosim.serving.events import Kind, NewRow
from zoosim.serving.store.sqlite import SqliteStore


def row(name: str | None, time: int = 1) -> NewRow:
    return NewRow(time, Kind.FEEDBACK, None if name is None else name.encode(), b"body of " + str(name).encode())


def test_rows_stand_in_their_order_and_each_key_once(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    assert store.append([row("a"), row("b"), row("a")], durable=True) == [1, 2, None]
    assert store.append([row("b"), row(None), row(None)], durable=False) == [None, 3, 4]
    assert [found.seq for found in store.read(0, 10)] == [1, 2, 3, 4]
    assert [found.key for found in store.read(1, 2)] == [b"b", None]
    found = store.find(b"b")
    assert found is not None
    assert (found.seq, found.body) == (2, b"body of b")
    assert store.find(b"c") is None


def test_another_process_reads_what_was_appended(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    reader = SqliteStore(tmp_path / "log.db", read_only=True)
    store.append([row("a")], durable=False)
    assert [found.key for found in reader.read(0, 10)] == [b"a"]


def test_positions_go_on_after_a_restart_and_after_old_rows_were_removed(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    store.append([row(None, time) for time in range(5)], durable=True)
    assert store.remove_before(3, limit=2) == 2
    assert store.remove_before(3, limit=10) == 1
    assert store.remove_before(100, limit=10) == 1
    store.close()
    assert SqliteStore(tmp_path / "log.db").append([row("new")], durable=True) == [6]


def test_a_changed_row_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    store.append([row("a"), row("b")], durable=True)
    apsw.Connection(str(tmp_path / "log.db")).execute("UPDATE log SET time = 2 WHERE seq = 2")
    assert len(store.read(0, 1)) == 1
    with pytest.raises(DataError, match="row 2 is broken"):
        store.read(0, 2)


def test_a_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.db").write_bytes(b"no database at all, " * 100)
    with pytest.raises(DataError, match="no log of a service"):
        SqliteStore(tmp_path / "log.db")


def test_no_flipped_bit_and_no_cut_of_the_file_goes_unnoticed(tmp_path: Path) -> None:
    """What can still be read is what was written."""
    whole = tmp_path / "log.db"
    store = SqliteStore(whole)
    store.append([row(f"{number}" * 20, number) for number in range(40)], durable=True)
    written = store.read(0, 100)
    store.close()
    content = whole.read_bytes()
    rng = np.random.default_rng(0)
    flips = [
        (int(place), 1 << int(bit)) for place, bit in zip(*rng.integers(0, (len(content), 8), (400, 2)).T, strict=True)
    ]
    broken = [bytes_with(content, place, bit) for place, bit in flips]
    broken += [content[:length] for length in rng.integers(0, len(content), 50)]
    noticed = 0
    for number, damaged in enumerate(broken):
        path = tmp_path / f"{number}.db"
        path.write_bytes(damaged)
        try:
            rows = SqliteStore(path, read_only=True).read(0, 100)
        except (DataError, StoreError):
            noticed += 1
        else:
            assert rows == written
        path.unlink()
    assert noticed > 50


def bytes_with(content: bytes, place: int, bit: int) -> bytes:
    """Return bytes of which one bit is another."""
    return content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :]
