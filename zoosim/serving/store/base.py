"""The contract of a store: an ordered log to which rows are appended, each key once."""

from collections.abc import Sequence
from typing import Protocol

from zoosim.serving.events import NewRow, Row


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
            StoreError: the rows could not be stored; none of them is.
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

    def close(self) -> None:
        """Let go of files and connections."""
        ...
