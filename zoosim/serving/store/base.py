"""The contract of a store: an ordered log to which rows are appended, each key once."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

from zoosim.core.errors import DataError
from zoosim.serving.events import NewRow, Row


class LostRows(DataError):
    """The log lacks rows that it had: the server of the log has lost them."""

    def __init__(self, position: int) -> None:
        super().__init__(
            f"log of the service: lacks row {position:,}, which it had, so the server has lost rows; start the service "
            "again, and set appendfsync always to lose none"
        )


def place(rows: Sequence[NewRow], last: int, time: int, known: Collection[bytes]) -> tuple[list[Row], list[int | None]]:
    """Return which rows to append to a log, and the position of each row.

    Args:
        rows: Rows that are to be appended.
        last, time: The position and the time of the newest row of the log.
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
            # A batch may hold one key twice, as where a client sends a request again while the first still waits for
            # its commit.
            taken.add(row.key)
        # Joins and retention rely on times that never go back, so the log itself sees to it, whatever clocks its
        # writers go by.
        time = max(time, row.time)
        new.append(Row(last + len(new) + 1, time, row.kind, row.key, row.body))
        positions.append(new[-1].seq)
    return new, positions


class Store(Protocol):
    """An ordered log: the end of this process takes back nothing that `append` returned.

    `sync` may be called by one thread while another calls the rest. Several services may append to a log on a server.
    """

    @property
    def leads(self) -> bool:
        """True if this service leads: it does for all what needs doing once."""
        ...

    def keep_time(self, now: Callable[[], int]) -> None:
        """Give the time that `now` returns, in any thread, to other services of the log while this one leads."""
        ...

    def common_time(self) -> int | None:
        """Return the time by the service that leads, in microseconds; None where this one does, or nobody says."""
        ...

    def append(self, rows: Sequence[NewRow]) -> list[int | None]:
        """Append rows, all or none, in their order.

        Returns:
            The position of each; None for one whose key is in the log already, which is not appended again. Rows whose
            time is before that of the row in front of them get its time.

        Raises:
            StoreError: the rows could not be stored, or nobody knows whether they are: all of them, or none.
            LostRows: the log lacks what this appended last.
            DataError: the log is broken.
        """
        ...

    def append_now(self, rows: Sequence[NewRow]) -> list[int | None] | None:
        """Append rows as `append` does where nobody else has to be waited for; None where one has: nothing is tried."""
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

    def rows(self, seqs: Sequence[int]) -> dict[int, Row]:
        """Return rows by their positions; those that are gone are left out."""
        ...

    def last(self) -> Row | None:
        """Return the newest row, None in an empty log."""
        ...

    def remove_before(self, time: int, limit: int) -> int:
        """Remove up to `limit` of the oldest rows that came before a time; return how many.

        Only the service that leads may do so.
        """
        ...

    def replace(self, rows: Sequence[Row]) -> None:
        """Put other keys and bodies into rows of the log, so that nothing is left of what they held.

        Raises:
            StoreError: not all of it could be done; do it again.
        """
        ...

    def agree(self, name: str, content: bytes) -> bytes:
        """Return what all services of the log take a shared file to be: the first content that one of them gave."""
        ...

    def share(self, folder: Path, names: Sequence[str]) -> None:
        """Keep copies of files of a folder where a service on another machine finds them."""
        ...

    def shared(self) -> list[str]:
        """Return the names of the files that are shared."""
        ...

    def unshare(self, names: Sequence[str]) -> None:
        """Keep no copies of these files any more; only the service that leads may do so."""
        ...

    def fetch(self, folder: Path, name: str = "") -> None:
        """Bring into a folder what it lacks of the files that are shared: of all, or one."""
        ...

    def resign(self) -> None:
        """Lead no more: another service is to do so."""
        ...

    def close(self) -> None:
        """Release files and connections."""
        ...
