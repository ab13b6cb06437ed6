"""A log in an SQLite file: one process appends to it, any number read it."""

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw

from zoosim.core.errors import ConfigError, DataError, StoreError
from zoosim.serving.events import Kind, NewRow, Row, row_checksum
from zoosim.serving.store.base import place

LEAST_SQLITE = (3, 51, 3)
"""Before this version a reset of the write-ahead log could lose commits."""

PAGES_OF_WAL = 4_000
"""Pages (16 MB) after which a sync moves the write-ahead log into the file, where it is not moved by itself."""

BUSY_WAITS = 5_000
"""Milliseconds for which rows wait for others who write, at most."""

CHECKPOINT_WAITS = 200
"""Milliseconds for which a checkpoint, which keeps rows waiting, waits for readers."""

ROWS_PER_STATEMENT = 1_000
"""Rows that one statement appends, and keys that one looks for, at most."""

_sync = getattr(os, "fdatasync", os.fsync)

COLUMNS = "seq, time, kind, key, body, checksum"
# A column that is UNIQUE may be NULL in any number of rows, as the key is of those that may come again.
TABLE = """
CREATE TABLE IF NOT EXISTS log (
    seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, kind INTEGER NOT NULL,
    key BLOB UNIQUE, body BLOB NOT NULL, checksum BLOB NOT NULL
)
"""


class SqliteStore:
    """A log in one file. Of all its users only one may append: the service holds a lock on the folder for that."""

    def __init__(self, path: Path, read_only: bool = False) -> None:
        """Open a log, making it where it is not there.

        Args:
            path: The file.
            read_only: Read it alone, while another process may append to it.

        Raises:
            ConfigError: SQLite is too old.
            DataError: the file is no log.
            StoreError: it cannot be opened.
        """
        if tuple(int(part) for part in apsw.sqlite_lib_version().split(".")) < LEAST_SQLITE:
            raise ConfigError(f"SQLite {apsw.sqlite_lib_version()}: expected 3.51.3 or newer; install a newer apsw")
        self._path = path
        self._name = os.fspath(path)
        self._opened = contextlib.ExitStack()
        self._has_failed_to_sync = False
        flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        try:
            self._connection = self._connect(flags)
            self._connection.set_busy_timeout(BUSY_WAITS)
            if read_only:
                self._check_pages()
            else:
                self._prepare()
            newest = self.last()
        except apsw.NotADBError:
            raise DataError(f"{path}: is no log of a service, or broken; name another folder") from None
        except apsw.Error as error:
            raise _failure(path, error) from None
        self._inode = path.stat().st_ino
        # Kept in memory, as nobody else appends: `zoosim forget` writes from another process, but changes neither
        # positions nor times.
        self._last = 0 if newest is None else newest.seq
        self._time = 0 if newest is None else newest.time

    def append(self, rows: Sequence[NewRow]) -> list[int | None]:
        """Append rows in one transaction; see `Store`."""
        try:
            return self._append(rows)
        except apsw.Error as error:
            raise _failure(self._path, error) from None

    def append_now(self, rows: Sequence[NewRow]) -> list[int | None] | None:
        """Append rows unless another process or thread writes to the file; see `Store`."""
        self._connection.set_busy_timeout(0)
        try:
            return self._append(rows)
        except apsw.BusyError:
            return None
        except apsw.Error as error:
            raise _failure(self._path, error) from None
        finally:
            self._connection.set_busy_timeout(BUSY_WAITS)

    def _append(self, rows: Sequence[NewRow]) -> list[int | None]:
        # SQLite would go on to write to the file that it has open, so rows would be acknowledged that no later start
        # finds.
        if not self._is_in_place():
            raise StoreError(f"{self._path}: was removed or replaced; put it back, and start the service again")
        new, positions = place(rows, self._last, self._time, ())
        try:
            self._insert_all(new)
        except apsw.ConstraintError:
            # Few keys come again, so they are looked for only once one has. Nothing of the batch, which belongs to
            # several requests, is in the log then.
            known_keys = self._known([row.key for row in rows if row.key is not None])
            new, positions = place(rows, self._last, self._time, known_keys)
            self._insert_all(new)
        # Only once the transaction is committed: where it fails, the next rows take the same positions.
        if new:
            self._last = new[-1].seq
            self._time = new[-1].time
        return positions

    def sync(self) -> None:
        """Sync the write-ahead log, and move it into the file where it has grown; see `Store`.

        SQLite would sync within a transaction, and let everybody wait for the disk.
        """
        try:
            # Linux reports a failed fsync once, and marks the pages as clean: a second fsync would succeed, and the
            # rows would be lost with the power. So the flag is set before the call, and after a failure pages are
            # written anew, by a checkpoint that copies them from the write-ahead log into the file and syncs that.
            # Until that has left nothing behind, no sync counts.
            if not self._has_failed_to_sync:
                self._has_failed_to_sync = True
                _sync(self._wal)
            else:
                self._leave_log()
        except OSError as error:
            raise StoreError(f"{self._path}: cannot be synced ({error.strerror})") from None
        except apsw.Error as error:
            raise _failure(self._path, error) from None
        self._has_failed_to_sync = False
        # Here, in the thread that syncs: SQLite's own checkpoints run, with their syncs, in the commit that reaches the
        # limit. A log that only PASSIVE checkpoints move need never be written from its beginning again while commits
        # keep coming, and would grow without end.
        with contextlib.suppress(apsw.Error):  # the next sync tries again
            _, pages, _ = self._checkpoint("NOOP")
            if pages >= PAGES_OF_WAL:
                self._checkpoint("PASSIVE")
                self._checkpoint("RESTART")  # which keeps rows waiting, but has little left to move

    def _prepare(self) -> None:
        """Make the table, and be ready to append and to sync."""
        with contextlib.suppress(PermissionError):  # it is another account's, which lets this one write
            self._path.chmod(0o600)  # so that SQLite gives it to the files beside it
        # A write-ahead log lets the learner and tools read while rows are appended, and lets a commit do without a
        # sync.
        self._rows("PRAGMA journal_mode=WAL")
        self._rows("PRAGMA secure_delete=ON")  # else pages keep copies of what was removed or moved
        # A commit does not sync then; `sync` does, for those who wait for the disk.
        self._rows("PRAGMA synchronous=NORMAL")
        self._rows(TABLE)
        self._connection.wal_autocheckpoint(0)  # `sync` does it
        # A sync by any descriptor writes all that the system holds of a file. SQLite resets the log in place, so that
        # the descriptor stays that of the log while a connection is open; and it keeps no locks on that file, which
        # closing this descriptor would drop.
        self._wal: int = os.open(f"{self._path}-wal", os.O_RDONLY)
        self._opened.callback(os.close, self._wal)
        # A connection is for one thread at a time, and another thread appends while this one moves the log.
        self._checkpointer = self._connect(apsw.SQLITE_OPEN_READWRITE)
        self._checkpointer.set_busy_timeout(CHECKPOINT_WAITS)
        self._has_failed_to_sync = True  # for all that this knows of what was left there
        # A service that was killed may have left rows that it never synced, and whose readers have learned from them. A
        # full disk is no reason not to start: what is logged can still be read, and the first sync tries again.
        with contextlib.suppress(apsw.FullError, apsw.IOError, OSError, StoreError):
            self._leave_log()
            self._has_failed_to_sync = False

    def _leave_log(self) -> None:
        """Move all of a write-ahead log that is not trusted into the file, and leave an empty one on the disk."""
        # Emptied, as the disk may hold the log as it was before a failed sync: after a power cut its older pages would
        # count, and not the newer ones in the file.
        is_busy, pages, moved = self._checkpoint("TRUNCATE")
        if is_busy or moved < pages:
            raise StoreError(f"{self._path}: could not be synced before, and somebody reads it now")
        _sync(self._wal)

    def _checkpoint(self, mode: str) -> tuple[int, int, int]:
        """Move the write-ahead log into the file, both synced; return (is busy, its pages, those that are moved)."""
        is_busy, pages, moved = map(int, *self._checkpointer.execute(f"PRAGMA wal_checkpoint({mode})"))
        return is_busy, pages, moved

    def _known(self, keys: Sequence[bytes]) -> set[bytes]:
        """Return which keys the log has."""
        known_keys: set[bytes] = set()
        # SQLite bounds the number of values that one statement binds.
        for start in range(0, len(keys), ROWS_PER_STATEMENT):
            some = tuple(keys[start : start + ROWS_PER_STATEMENT])
            marks = ",".join("?" * len(some))
            known_keys.update(key for (key,) in self._rows(f"SELECT key FROM log WHERE key IN ({marks})", some))
        return known_keys

    def _insert_all(self, rows: Sequence[Row]) -> None:
        """Append rows, all or none."""
        if len(rows) <= ROWS_PER_STATEMENT:
            self._insert(rows)  # a statement is a transaction where it stands alone
            return
        with self._connection:
            for start in range(0, len(rows), ROWS_PER_STATEMENT):
                self._insert(rows[start : start + ROWS_PER_STATEMENT])

    def _insert(self, rows: Sequence[Row]) -> None:
        """Append rows by one statement: others may take the interpreter from this thread after each."""
        values: list[Any] = []
        for row in rows:
            values += (row.seq, row.time, row.kind, row.key, row.body, row_checksum(row))
        if values:
            self._rows("INSERT INTO log VALUES " + ",".join(["(?, ?, ?, ?, ?, ?)"] * len(rows)), values)

    def _is_in_place(self) -> bool:
        """Return whether the file is still the one that was opened."""
        try:
            return os.stat(self._name).st_ino == self._inode
        except OSError:
            return False

    def find(self, key: bytes) -> Row | None:
        """Return the row with a key."""
        return self._one(f"SELECT {COLUMNS} FROM log WHERE key = ?", (key,))

    def row(self, seq: int) -> Row | None:
        """Return the row at a position."""
        return self._one(f"SELECT {COLUMNS} FROM log WHERE seq = ?", (seq,))

    def rows(self, seqs: Sequence[int]) -> dict[int, Row]:
        """Return rows by their positions."""
        query = f"SELECT {COLUMNS} FROM log WHERE seq IN (SELECT value FROM json_each(?))"
        return {row.seq: row for row in self._read(query, (json.dumps(list(seqs)),))}

    def last(self) -> Row | None:
        """Return the newest row."""
        return self._one(f"SELECT {COLUMNS} FROM log ORDER BY seq DESC LIMIT 1", ())

    def read(self, after: int, limit: int) -> list[Row]:
        """Return rows behind a position."""
        return self._read(f"SELECT {COLUMNS} FROM log WHERE seq > ? ORDER BY seq LIMIT ?", (after, limit))

    def remove_before(self, time: int, limit: int) -> int:
        """Remove old rows, but never the newest; their room in the file is used again."""
        # By position, which the table is sorted by: times never go back, so the oldest rows stand first, and the time
        # needs no index. The newest row stays, since a restart takes up position and time from it, and positions must
        # not come again: snapshots and versions of products name rows by them.
        oldest = "SELECT seq FROM log WHERE seq < (SELECT max(seq) FROM log) ORDER BY seq LIMIT ?"
        query = f"DELETE FROM log WHERE seq IN ({oldest}) AND time < ?"
        try:
            self._rows(query, (limit, time))
            return self._connection.changes()
        except apsw.Error as error:
            raise _failure(self._path, error) from None

    @property
    def leads(self) -> bool:
        """True: there is no other service that appends."""
        return True

    def keep_time(self, now: Callable[[], int]) -> None:
        """Do nothing: there is no other."""

    def common_time(self) -> int | None:
        """Return None: there is no other."""
        return None

    def agree(self, name: str, content: bytes) -> bytes:
        """Return the content: nobody else has another."""
        return content

    def share(self, folder: Path, names: Sequence[str]) -> None:
        """Do nothing: the log lies in the folder, too."""

    def shared(self) -> list[str]:
        """Return nothing."""
        return []

    def unshare(self, names: Sequence[str]) -> None:
        """Do nothing."""

    def fetch(self, folder: Path, name: str = "") -> None:
        """Do nothing."""

    def replace(self, rows: Sequence[Row]) -> None:
        """Put other keys and bodies into rows; what they held is overwritten, in the write-ahead log, too."""
        change = "UPDATE log SET key = ?, body = ?, checksum = ? WHERE seq = ?"
        has_other_keys = False
        try:
            for start in range(0, len(rows), ROWS_PER_STATEMENT):
                # Some rows per transaction: the service, which waits 5 seconds for the lock at most, appends between
                # two of them.
                with self._connection:
                    for row in rows[start : start + ROWS_PER_STATEMENT]:
                        has_other_keys |= self._rows("SELECT key FROM log WHERE seq = ?", (row.seq,)) != [(row.key,)]
                        self._rows(change, (row.key, row.body, row_checksum(row), row.seq))
            if has_other_keys:
                self._rows("REINDEX log")  # pages of an index keep copies of keys that moved to other ones
            self._rows("PRAGMA wal_checkpoint(TRUNCATE)")  # as soon as nobody reads it
        except apsw.Error as error:
            raise _failure(self._path, error) from None

    def resign(self) -> None:
        """Do nothing: there is no other."""

    def close(self) -> None:
        """Close the file."""
        self._opened.close()

    def _check_pages(self) -> None:
        """Raise `DataError` for a damaged tree of pages: rows that it no longer leads to would be missed by nobody."""
        # The checksum of a row says nothing of rows that are missing. A service, which opens the log to read it, too,
        # thus finds such damage before it appends.
        [(finding,)] = self._connection.execute("PRAGMA quick_check(1)").fetchall()
        if finding != "ok":
            raise DataError(f"{self._path}: is broken ({finding}); restore a backup, or name another folder")

    def _connect(self, flags: int) -> apsw.Connection:
        return self._opened.enter_context(contextlib.closing(apsw.Connection(self._name, flags=flags)))

    def _one(self, query: str, values: tuple[Any, ...]) -> Row | None:
        rows = self._read(query, values)
        return rows[0] if rows else None

    def _read(self, query: str, values: tuple[Any, ...]) -> list[Row]:
        try:
            return [self._checked(row) for row in self._rows(query, values)]
        except apsw.Error as error:
            raise _failure(self._path, error) from None

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            return self._connection.execute(query, values).fetchall()
        except UnicodeDecodeError:  # words where there should be bytes
            raise DataError(f"{self._path}: a row is broken: it is not what was written; restore a backup") from None

    def _checked(self, values: tuple[Any, ...]) -> Row:
        """Return a row of the table; raises `DataError` where it is not what was written."""
        try:
            row = Row(values[0], values[1], Kind(values[2]), values[3], values[4])
            if row_checksum(row) == values[5]:
                return row
        except (TypeError, ValueError):
            pass
        raise DataError(f"{self._path}: row {values[0]!r} is broken: it is not what was written; restore a backup")


def _failure(path: Path, error: Exception) -> Exception:
    """Return the error to raise for one of SQLite's."""
    if isinstance(error, apsw.SQLError) and "no such table" in str(error):  # such as an empty file
        return DataError(f"{path}: is no log of a service; name another folder")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return DataError(f"{path}: is broken ({error}); restore a backup, or name another folder")
    return StoreError(f"{path}: cannot be read or written ({error})")
