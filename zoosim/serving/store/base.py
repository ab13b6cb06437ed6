"""The contract of a store: an ordered log to which rows are appended, each key once."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from zoosim.core.errors import StoreError
from zoosim.serving.events import NewRow, Row


class StoredAfterAll(StoreError):
    """Rows are in the log after all that an earlier `append` had failed to store; nothing else was appended.

    An answer that gets lost leaves it open whether the server stored what it was sent. The next append finds out.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__("the log holds what could not be acknowledged before; send the request again")
        self.rows = rows


def place(rows: Sequence[NewRow], last: int, known: Collection[bytes]) -> tuple[list[Row], list[int | None]]:
    """Return which rows to append behind the position `last`, and the position of each row.

    Args:
        rows: Rows that are to be appended.
        last: The position of the newest row of the log.
        known: The keys among theirs that the log has already.

    Returns:
        The rows whose keys are new, and the position of each that was given; None for those that are not appended.
    """
    new: list[Row] = []
    positions: list[int | None] = []
    taken = set(known)
    for row in rows:
        if row.key is not None and row.key in taken:
            positions.append(None)
            continue
        if row.key is not None:
            taken.add(row.key)
        new.append(Row(last + len(new) + 1, *row))
        positions.append(new[-1].seq)
    return new, positions


class Store(Protocol):
    """An ordered log: the end of this process takes back nothing that `append` returned.

    `sync` may be called by one thread while another calls the rest.
    """

    def append(self, rows: Sequence[NewRow]) -> list[int | None]:
        """Append rows, all or none, in their order.

        Returns:
            The position of each; None for one whose key is in the log already, which is not appended again.

        Raises:
            StoreError: the rows could not be stored. None of them is, unless the next append raises `StoredAfterAll`.
            DataError: the log is not what it was.
        """
        ...

    def sync(self) -> None:
        """Return once a power cut can undo nothing that was appended before; raises `StoreError` where it might."""
        ...

    def find(self, key: bytes) -> Row | None:
        """Return the row with a key, None where there is none."""
        ...

    def read(self, after: int, limit: int) -> list[Row]:
        """Return up to `limit` rows behind the position `after`, in order; raises `DataError` for a broken one."""
        ...

    def row(self, seq: int) -> Row | None:
        """Return the row at a position, None where it is gone."""
        ...

    def last(self) -> Row | None:
        """Return the newest row, None in an empty log."""
        ...

    def remove_before(self, time: int, limit: int) -> int:
        """Remove up to `limit` of the oldest rows that came before a time; return how many were removed."""
        ...

    def share(self, folder: Path, names: Sequence[str]) -> None:
        """Keep copies of these files of a folder, and of no others, where a service on another machine finds them."""
        ...

    def fetch(self, folder: Path) -> None:
        """Bring files into a folder that were shared and are not in it."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...
