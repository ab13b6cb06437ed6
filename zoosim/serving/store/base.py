"""The contract of a store: an ordered log to which rows are appended, each key once."""

from collections.abc import Sequence
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


class Store(Protocol):
    """An ordered log; what `append` returned is in it for good."""

    def append(self, rows: Sequence[NewRow], durable: bool) -> list[int | None]:
        """Append rows, all or none, in their order.

        Args:
            rows: The rows.
            durable: Whether they must be on the disk when this returns, so that a power cut cannot undo them.

        Returns:
            The position of each; None for one whose key is in the log already, which is not appended again.

        Raises:
            StoreError: the rows could not be stored. None of them is, unless the next append raises `StoredAfterAll`.
            DataError: the log is not what it was.
        """
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
