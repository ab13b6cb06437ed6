"""The log in a file: whatever happens to the file is noticed."""

import errno
import os
from pathlib import Path

import apsw
import numpy as np
import pytest

from tests.serving.store.test_contract import row
from zoosim.core.errors import DataError, StoreError
from zoosim.serving.store import sqlite
from zoosim.serving.store.sqlite import SqliteStore


def test_no_flipped_bit_and_no_cut_of_the_file_goes_unnoticed(tmp_path: Path) -> None:
    """What can still be read is what was written."""
    whole = tmp_path / "log.db"
    store = SqliteStore(whole)
    store.append([row(f"{number}" * 20, number) for number in range(40)])
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


def test_the_write_ahead_log_stays_small_while_rows_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "PAGES_OF_WAL", 20)
    store = SqliteStore(tmp_path / "log.db")
    reader = SqliteStore(tmp_path / "log.db", read_only=True)
    for number in range(300):
        store.append([row(f"{number}" * 500, number)])
        store.sync()
        assert reader.read(number, 10)[0].seq == number + 1
    assert (tmp_path / "log.db-wal").stat().st_size < 40 * 4_096 < (tmp_path / "log.db").stat().st_size
    reader.close()
    store.close()


def test_a_key_that_comes_again_keeps_nothing_else_of_a_large_batch_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of several statements goes in whole, though the last one meets a known key."""
    monkeypatch.setattr(sqlite, "ROWS_PER_STATEMENT", 2)
    store = SqliteStore(tmp_path / "log.db")
    store.append([row("a")])
    assert store.append([row("b"), row("c"), row("d"), row("a"), row("e")]) == [2, 3, 4, None, 5]
    assert [each.key for each in store.read(0, 10)] == [b"a", b"b", b"c", b"d", b"e"]
    store.close()


def test_after_a_failed_sync_rows_are_moved_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second sync of pages that a failed one dropped would succeed, and store nothing."""

    def fail(handle: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    store = SqliteStore(tmp_path / "log.db")
    store.append([row("a")])
    with monkeypatch.context() as patched:
        patched.setattr(sqlite, "_sync", fail)
        with pytest.raises(StoreError, match="Input/output error"):
            store.sync()
    store.sync()  # by a checkpoint
    assert not (tmp_path / "log.db-wal").read_bytes(), "what the failed sync left on the disk would count"
    without_wal = tmp_path / "copy.db"
    without_wal.write_bytes((tmp_path / "log.db").read_bytes())
    assert [found.key for found in SqliteStore(without_wal).read(0, 10)] == [b"a"]
    store.close()


def test_a_failed_sync_waits_for_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path / "log.db")
    reader = apsw.Connection(str(tmp_path / "log.db"))
    reader.execute("BEGIN; SELECT * FROM log").fetchall()
    store.append([row("a")])
    with monkeypatch.context() as patched:
        patched.setattr(sqlite, "_sync", lambda handle: os.fsync(10**6))
        with pytest.raises(StoreError, match="Bad file descriptor"):
            store.sync()
    with pytest.raises(StoreError, match="somebody reads it now"):
        store.sync()
    reader.close()
    store.sync()
    store.close()


def test_a_log_that_was_replaced_is_not_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    store = SqliteStore(path)
    store.append([row("a")])
    path.rename(tmp_path / "away.db")
    path.write_bytes(b"")
    with pytest.raises(StoreError, match="was removed or replaced"):
        store.append([row("b")])
    (tmp_path / "away.db").replace(path)
    assert store.append([row("b")]) == [2]
    store.close()


def bytes_with(content: bytes, place: int, bit: int) -> bytes:
    """Return bytes of which one bit is another."""
    return content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :]


def test_rows_are_appended_now_unless_somebody_else_writes(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log")
    assert store.append_now([row("a")]) == [1]
    other = apsw.Connection(str(tmp_path / "log"))
    other.execute("BEGIN IMMEDIATE")
    assert store.append_now([row("b")]) is None
    other.execute("ROLLBACK")
    assert store.append_now([row("b"), row("a")]) == [2, None]
    assert store.append([row("c")]) == [3]
    assert [found.seq for found in store.read(0, 10)] == [1, 2, 3]
    other.close()
    store.close()
