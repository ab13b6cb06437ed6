"""A log in an SQLite file: one process appends to it, any number read it."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

from zoosim.core.errors import ConfigError, DataError, StoreError
from zoosim.serving.events import Kind, NewRow, Row, row_checksum

LEAST_SQLITE = (3, 51, 3)
"""Before this version a reset of the write-ahead log could lose commits."""

PAGES_OF_WAL = 4_000
"""Pages after which the write-ahead log goes back into the file: at most some 16 MB lie in it."""

COLUMNS = "seq, time, kind, key, body, checksum"
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
        self._durable: bool | None = None
        flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        try:
            self._connection = apsw.Connection(os.fspath(path), flags=flags)
            self._connection.set_busy_timeout(5_000)
            if not read_only:
                self._rows("PRAGMA journal_mode=WAL")
                self._rows("PRAGMA secure_delete=ON")  # else pages keep copies of what was removed or moved
                self._rows(f"PRAGMA wal_autocheckpoint={PAGES_OF_WAL}")
                self._rows(TABLE)
            newest = self.last()
        except apsw.NotADBError:
            raise DataError(f"{path}: is no log of a service, or broken; name another folder") from None
        except apsw.Error as error:
            raise _failure(path, error) from None
        self._inode = path.stat().st_ino
        self._next = 1 if newest is None else newest.seq + 1

    def append(self, rows: Sequence[NewRow], durable: bool) -> list[int | None]:
        """Append rows in one transaction; see `Store`."""
        positions: list[int | None] = []
        next_position = self._next
        if not self._is_in_place():
            raise StoreError(f"{self._path}: was removed or replaced; put it back, and start the service again")
        try:
            if durable is not self._durable:
                self._rows(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                self._durable = durable
            with self._connection:
                for new in rows:
                    row = Row(next_position, *new)
                    values = (row.seq, row.time, int(row.kind), row.key, row.body, row_checksum(row))
                    self._rows("INSERT OR IGNORE INTO log VALUES (?, ?, ?, ?, ?, ?)", values)
                    is_new = self._connection.changes() == 1
                    positions.append(row.seq if is_new else None)
                    next_position += is_new
        except apsw.Error as error:
            raise _failure(self._path, error) from None
        self._next = next_position
        return positions

    def _is_in_place(self) -> bool:
        """Tell whether the file is still the one that was opened."""
        try:
            return self._path.stat().st_ino == self._inode
        except OSError:
            return False

    def find(self, key: bytes) -> Row | None:
        """Return the row with a key."""
        return self._one(f"SELECT {COLUMNS} FROM log WHERE key = ?", (key,))

    def row(self, seq: int) -> Row | None:
        """Return the row at a position."""
        return self._one(f"SELECT {COLUMNS} FROM log WHERE seq = ?", (seq,))

    def last(self) -> Row | None:
        """Return the newest row."""
        return self._one(f"SELECT {COLUMNS} FROM log ORDER BY seq DESC LIMIT 1", ())

    def read(self, after: int, limit: int) -> list[Row]:
        """Return rows behind a position."""
        query = f"SELECT {COLUMNS} FROM log WHERE seq > ? ORDER BY seq LIMIT ?"
        try:
            return [self._checked(values) for values in self._rows(query, (after, limit))]
        except apsw.Error as error:
            raise _failure(self._path, error) from None

    def remove_before(self, time: int, limit: int) -> int:
        """Remove old rows, but never the newest; their room in the file is used again."""
        oldest = "SELECT seq FROM log WHERE seq < (SELECT max(seq) FROM log) ORDER BY seq LIMIT ?"
        query = f"DELETE FROM log WHERE seq IN ({oldest}) AND time < ?"
        try:
            self._rows(query, (limit, time))
            return self._connection.changes()
        except apsw.Error as error:
            raise _failure(self._path, error) from None

    def share(self, folder: Path, names: Sequence[str]) -> None:
        """Do nothing: the log lies in the folder, too."""

    def fetch(self, folder: Path) -> None:
        """Do nothing."""

    def replace(self, rows: Sequence[Row]) -> None:
        """Put other bodies into rows; what they held is overwritten, not only let go of."""
        try:
            with self._connection:
                for row in rows:
                    self._rows(
                        "UPDATE log SET body = ?, checksum = ? WHERE seq = ?", (row.body, row_checksum(row), row.seq)
                    )
        except apsw.Error as error:
            raise _failure(self._path, error) from None

    def wipe(self) -> None:
        """Empty the write-ahead log, which keeps copies of what was replaced, as soon as nobody reads it."""
        try:
            self._rows("PRAGMA wal_checkpoint(TRUNCATE)")
        except apsw.Error as error:
            raise _failure(self._path, error) from None

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _one(self, query: str, values: tuple[Any, ...]) -> Row | None:
        try:
            rows = self._rows(query, values)
        except apsw.Error as error:
            raise _failure(self._path, error) from None
        return self._checked(rows[0]) if rows else None

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        try:
            return self._connection.execute(query, values).fetchall()
        except UnicodeDecodeError:  # words where there should be bytes
            raise DataError(f"{self._path}: a row is broken: it is not what was written; restore a backup") from None

    def _checked(self, values: tuple[Any, ...]) -> Row:
        """Return a row of the table; raises `DataError` where it is not what was written."""
        broken = DataError(f"{self._path}: row {values[0]!r} is broken: it is not what was written; restore a backup")
        try:
            row = Row(values[0], values[1], Kind(values[2]), values[3], values[4])
            if row_checksum(row) != values[5]:
                raise broken
        except (TypeError, ValueError):
            raise broken from None
        return row


def _failure(path: Path, error: Exception) -> Exception:
    """Return the error to raise for one of SQLite's."""
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return DataError(f"{path}: is broken ({error}); restore a backup, or name another folder")
    return StoreError(f"{path}: cannot be read or written ({error})")
