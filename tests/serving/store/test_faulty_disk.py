"""A log in SQLite on a disk whose n-th write, sync or read fails, for every n: nothing that was acknowledged is lost.

After each failure the log is opened again twice: as it is, as after a killed process, and as the disk holds it, as
after a power cut. A sync that fails drops what it should have written, as Linux does (Rebello et al. 2020): only what
is written anew is on the disk by a later one.
"""

import contextlib
import gc
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from zoosim.core.errors import StoreError
from zoosim.serving.events import Kind, NewRow
from zoosim.serving.store import sqlite
from zoosim.serving.store.address import LOG
from zoosim.serving.store.sqlite import SqliteStore

STEPS = 8
ROWS_PER_STEP = 3


class Disk:
    """What a disk holds of each file, and what fails.

    Attributes:
        calls: How often each operation was called.
    """

    def __init__(self, operation: str = "", first: int = 0, times: int = 1) -> None:
        """Let the calls of an operation fail from the `first` one on, counted from 1, so many `times`."""
        self.calls = Counter[str]()
        self._operation = operation
        self._failing = range(first, first + times)
        self._safe: dict[str, bytearray] = {}
        self._pending: dict[str, list[tuple[int, bytes | None]]] = {}

    @property
    def has_failed(self) -> bool:
        return self._failing.start > 0 and self.calls[self._operation] >= self._failing.start

    def check(self, operation: str) -> None:
        """Count a call; raises `apsw.IOError` where it fails."""
        self.calls[operation] += 1
        if operation == self._operation and self.calls[operation] in self._failing:
            raise apsw.IOError(f"the disk fails at {operation} {self.calls[operation]}")

    def write(self, name: str, offset: int, content: bytes | None) -> None:
        """Note what is written, or that a file ends at an offset; it is on the disk once it was synced."""
        self._pending.setdefault(name, []).append((offset, content))

    def sync(self, name: str) -> None:
        """Keep what was written; drop it where that fails."""
        pending = self._pending.pop(name, [])
        self.check("sync")
        kept = self._safe.setdefault(name, bytearray())
        for offset, content in pending:
            if content is None:
                del kept[offset:]
            else:
                kept.extend(bytes(max(offset - len(kept), 0)))
                kept[offset : offset + len(content)] = content

    def delete(self, name: str) -> None:
        """Forget a file, at once for good."""
        self._safe.pop(name, None)
        self._pending.pop(name, None)

    def restore(self, folder: Path) -> None:
        """Write what a power cut leaves into a new folder."""
        folder.mkdir()
        for name, content in self._safe.items():
            (folder / Path(name).name).write_bytes(content)


class _File(apsw.VFSFile):
    """A file on the disk."""

    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        super().__init__("unix", name, flags)
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.check("write")
        super().xWrite(data, offset)
        self._disk.write(self._name, offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._disk.write(self._name, newsize, None)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.sync(self._name)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._disk.check("read")
        return super().xRead(amount, offset)


class _Files(apsw.VFS):
    """The files of SQLite on a disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        super().__init__("faulty", "unix", makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _File(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self._disk.delete(filename)


@contextlib.contextmanager
def mounted(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let logs lie on a disk within the block."""

    def sync(handle: int) -> None:
        try:
            disk.sync(os.readlink(f"/proc/self/fd/{handle}"))
        except apsw.IOError as error:
            raise OSError(5, str(error)) from None

    files = _Files(disk)
    with monkeypatch.context() as patched:
        patched.setattr(sqlite, "_sync", sync)
        patched.setattr(sqlite, "PAGES_OF_WAL", 12)  # so that checkpoints come soon
        try:
            yield
        finally:
            gc.collect()  # stores that could not be opened, whose files are closed by that
            files.unregister()


class Acknowledged:
    """Keys that were asked for, those whose append returned, and those for whom a sync returned after that."""

    def __init__(self) -> None:
        self.asked: set[bytes] = set()
        self.stored: set[bytes] = set()
        self.synced: set[bytes] = set()


def body_of(key: bytes) -> bytes:
    return key * 300


def live(folder: Path, disk: Disk, power_cut: Path) -> Acknowledged:
    """Append, sync and read for some steps; what fails is tried again, and a store that cannot be opened, too."""
    acknowledged = Acknowledged()
    store: SqliteStore | None = None
    for step in range(STEPS):
        rows = [
            NewRow(step, Kind.FEEDBACK, key, body_of(key))
            for key in (b"%d of %d" % (place, step) for place in range(ROWS_PER_STEP))
        ]
        keys = {row.key for row in rows if row.key is not None}
        for _ in range(2):
            with contextlib.suppress(StoreError):
                store = store or SqliteStore(folder / LOG)
                acknowledged.asked |= keys
                store.append(rows)
                acknowledged.stored |= keys
                store.sync()
                acknowledged.synced |= acknowledged.stored
                store.read(0, 100)
                break
    assert store is not None
    disk.restore(power_cut)
    with contextlib.suppress(apsw.IOError):
        store.close()
    return acknowledged


def check_kept(folder: Path, asked: set[bytes], expected: set[bytes], what: str) -> None:
    """Check that a log has what it must have, whole batches of it, in order, and nothing that nobody asked for."""
    store = SqliteStore(folder / LOG)
    rows = store.read(0, 1_000)
    keys = {row.key for row in rows if row.key is not None}
    assert expected <= keys <= asked, f"{what}: lacks {sorted(expected - keys)}"
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1)), what
    assert len(keys) == len(rows), what
    assert all(row.body == body_of(row.key or b"") for row in rows), what
    of_step = Counter(key.split()[-1] for key in keys)
    assert set(of_step.values()) <= {ROWS_PER_STEP}, what
    assert store.append([NewRow(0, Kind.TICK, None, b"")]) == [len(rows) + 1]
    store.close()


@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("operation", ["write", "sync", "read"])
def test_nothing_acknowledged_is_lost_at_any_failure_of_the_disk(
    operation: str, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = 0
    while True:
        number += 1
        disk = Disk(operation, number, times)
        folder, power_cut = tmp_path / f"{number}", tmp_path / f"{number} after a power cut"
        folder.mkdir()
        with mounted(disk, monkeypatch):
            acknowledged = live(folder, disk, power_cut)
        what = f"{operation} {number} fails"
        check_kept(folder, acknowledged.asked, acknowledged.stored, what)
        check_kept(power_cut, acknowledged.asked, acknowledged.synced, f"{what}, and the power")
        if not disk.has_failed:
            break
    assert number > 10
    assert len(acknowledged.synced) == STEPS * ROWS_PER_STEP
