"""A log on a simulated server: as `zoosim.serving.store.redis` keeps one, with the faults of a server and its network.

The server syncs when it is asked to. What nobody synced is gone after some of its restarts, and who stored a row that
is gone is told so, as `Store` says.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.simulation.faults import Fault, Faults
from tests.simulation.loop import Process, SimulatedLoop
from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import StoreError
from zoosim.serving.events import NewRow, Row
from zoosim.serving.store.base import LostRows, place

LEASE_SECONDS = 900.0
"""Seconds for which a service leads after it has renewed its lease, which it does twice in them."""


class MemoryLog:
    """The server of a log.

    Attributes:
        rows: The rows that it has.
        archive: All rows that it ever had, but for those that were lost, by position.
        lost: Rows that it lost.
        removed: The first row that was left, and the newest one, each time that rows were removed.
        files: The files that it shares.
        on_append: Called after each append.
        is_away: Whether it answers nobody.
        opened: How often it was opened.
    """

    def __init__(self, loop: SimulatedLoop, faults: Faults) -> None:
        self.loop = loop
        self.faults = faults
        self.rows: list[Row] = []
        self.archive: dict[int, Row] = {}
        self.lost: list[Row] = []
        self.removed: list[tuple[int, int]] = []
        self.files: dict[str, bytes] = {}
        self.on_append: Callable[[], None] = lambda: None
        self.is_away = False
        self.opened = 0
        self._by_key: dict[bytes, Row] = {}
        self._first = 1
        self._synced = 0
        self._leader = 0
        self._leads_until = 0.0
        self._leader_time = 0
        self._said_at = 0.0

    def append(self, rows: Sequence[NewRow], newest: Row | None) -> list[int | None]:
        """Append rows for who stored `newest` last."""
        self.check(newest)
        last = self.rows[-1] if self.rows else Row(0, 0, rows[0].kind, None, b"")
        keys = [row.key for row in rows if row.key is not None and row.key in self._by_key]
        new, positions = place(rows, last.seq, last.time, keys)
        for row in new:
            self.rows.append(row)
            self.archive[row.seq] = row
            if row.key is not None:
                self._by_key[row.key] = row
        self.on_append()
        return positions

    def check(self, newest: Row | None) -> None:
        """Raise `LostRows` where the row is gone that somebody stored last, but not for its age."""
        if newest is not None:
            is_removed = bool(self.rows) and self.rows[0].seq > newest.seq
            if self.row(newest.seq) != newest and not is_removed:
                raise LostRows(newest.seq)

    def sync(self) -> None:
        """Keep all rows for good."""
        self._synced = self.rows[-1].seq if self.rows else 0

    def restart(self) -> None:
        """Lose what nobody synced."""
        while self.rows and self.rows[-1].seq > self._synced:
            row = self.rows.pop()
            self.lost.append(self.archive.pop(row.seq))
            if row.key is not None:
                del self._by_key[row.key]

    def synced(self, after: int) -> list[Row]:
        """Return the rows behind a position that no restart loses."""
        return [row for row in self.read(after, len(self.rows)) if row.seq <= self._synced]

    def unsynced(self) -> int:
        """Return how many rows a restart would lose."""
        return self.rows[-1].seq - self._synced if self.rows else 0

    def row(self, seq: int) -> Row | None:
        """Return the row at a position."""
        number = seq - self._first
        return self.rows[number] if 0 <= number < len(self.rows) else None

    def rows_at(self, seqs: Sequence[int]) -> dict[int, Row]:
        """Return rows by their positions."""
        return {seq: row for seq in seqs if (row := self.row(seq)) is not None}

    def find(self, key: bytes) -> Row | None:
        """Return the row with a key."""
        return self._by_key.get(key)

    def read(self, after: int, limit: int) -> list[Row]:
        """Return rows behind a position."""
        start = max(after + 1 - self._first, 0)
        return self.rows[start : start + limit]

    def remove_before(self, time: int, limit: int) -> int:
        """Remove old rows, but never the newest."""
        count = 0
        while count < min(limit, len(self.rows) - 1) and self.rows[count].time < time:
            key = self.rows[count].key
            if key is not None:
                del self._by_key[key]
            count += 1
        del self.rows[:count]
        self._first += count
        if count:
            self.removed.append((self._first, self.rows[-1].seq))
        return count

    def was_removed(self, seq: int, before: int) -> bool:
        """Return whether a row was removed before that of another position came."""
        return any(seq < first and newest < before for first, newest in self.removed)

    def lead(self, who: int, now: int) -> tuple[bool, int]:
        """Take the lease, or renew it; return whether that could be, and the time by who leads, 0 for none."""
        moment = self.loop.time()
        is_taken = self._leads_until > moment and self._leader != who
        is_known = self._said_at + LEASE_SECONDS > moment and self._leader_time
        said = self._leader_time + round((moment - self._said_at) * MICROSECONDS) if is_known else 0
        if is_taken:
            return False, said
        self._leader = who
        self._leads_until = moment + LEASE_SECONDS
        if now:
            self._leader_time = now
            self._said_at = moment
        return True, said

    def leader(self) -> int:
        """Return who has the lease."""
        return self._leader if self._leads_until > self.loop.time() else 0

    def give_up(self, who: int) -> None:
        """Let a lease end."""
        if self._leader == who:
            self._leads_until = 0.0


class MemoryStore:
    """What one process has of the log."""

    def __init__(self, log: MemoryLog, process: Process, read_only: bool) -> None:
        """Open the log for a process, to append to it or to read it alone."""
        self._log = log
        self._faults = log.faults
        self._process = process
        log.opened += 1
        self._number = log.opened
        self._newest: Row | None = None
        self._appends = 0
        self._leads_until = 0.0
        self._is_closing = read_only
        self._now: Callable[[], int] | None = None
        self._common: tuple[int, float] | None = None
        self._reach(Fault.READ_FAILED, 0.02)
        if not read_only:
            self._renew()

    @property
    def leads(self) -> bool:
        """True if this service has the lease."""
        return self._leads_until > self._log.loop.time()

    def keep_time(self, now: Callable[[], int]) -> None:
        """Give the time to others while this one leads."""
        self._now = now
        self._try_to_lead()

    def common_time(self) -> int | None:
        """Return the time by the service that leads."""
        if self._common is None or (self.leads and self._now is not None):
            return None
        time, asked_at = self._common
        return time + round((self._log.loop.time() - asked_at) * MICROSECONDS)

    def append_now(self, rows: Sequence[NewRow]) -> None:
        """Append nothing: a worker appends."""

    def append(self, rows: Sequence[NewRow]) -> list[int | None]:
        """Append rows; see `Store`."""
        if not rows:
            return []
        self._appends += 1
        self._reach(Fault.APPEND_REFUSED, 0.02)
        if self._faults.happens(Fault.APPEND_LATE, 0.005):
            self._log.loop.call_later(self._log.loop.delay(), self._append_late, list(rows), self._appends)
            raise StoreError("append: no answer")
        positions = self._log.append(rows, self._newest)
        if self._faults.happens(Fault.APPEND_ANSWER_LOST, 0.02):
            raise StoreError("append: the answer was lost")
        new = [position for position in positions if position is not None]
        if new:
            self._newest = self._log.row(new[-1])
        return positions

    def _append_late(self, rows: Sequence[NewRow], number: int) -> None:
        # The server refuses what comes behind a later append of the same service.
        if number == self._appends and not self._log.is_away:
            try:
                self._log.append(rows, self._newest)
            except LostRows:
                return

    def sync(self) -> None:
        """Keep what was appended."""
        self._reach(Fault.SYNC_FAILED, 0.05)
        self._log.check(self._newest)
        self._log.sync()

    def find(self, key: bytes) -> Row | None:
        """Return the row with a key."""
        self._reach(Fault.READ_FAILED, 0.01)
        return self._log.find(key)

    def read(self, after: int, limit: int) -> list[Row]:
        """Return rows behind a position."""
        self._reach(Fault.READ_FAILED, 0.01)
        return self._log.read(after, limit)

    def row(self, seq: int) -> Row | None:
        """Return the row at a position."""
        self._reach(Fault.READ_FAILED, 0.01)
        return self._log.row(seq)

    def rows(self, seqs: Sequence[int]) -> dict[int, Row]:
        """Return rows by their positions."""
        self._reach(Fault.READ_FAILED, 0.01)
        return self._log.rows_at(seqs)

    def last(self) -> Row | None:
        """Return the newest row."""
        self._reach(Fault.READ_FAILED, 0.01)
        return self._log.rows[-1] if self._log.rows else None

    def remove_before(self, time: int, limit: int) -> int:
        """Remove old rows, where this service leads."""
        self._reach(Fault.READ_FAILED, 0.01)
        self._check_lease()
        return self._log.remove_before(time, limit)

    def replace(self, rows: Sequence[Row]) -> None:
        """Refuse: nobody is forgotten in a simulation."""
        raise NotImplementedError

    def agree(self, name: str, content: bytes) -> bytes:
        """Return the first content that one gave."""
        self._reach(Fault.READ_FAILED, 0.01)
        return self._log.files.setdefault(name, content)

    def share(self, folder: Path, names: Sequence[str]) -> None:
        """Keep copies of files."""
        for name in sorted(names):
            self._reach(Fault.READ_FAILED, 0.01)
            if name not in self._log.files and (folder / name).exists():
                self._log.files[name] = (folder / name).read_bytes()

    def shared(self) -> list[str]:
        """Return the names of shared files."""
        self._reach(Fault.READ_FAILED, 0.01)
        return sorted(self._log.files)

    def unshare(self, names: Sequence[str]) -> None:
        """Drop copies, where this service leads."""
        for name in names:
            self._reach(Fault.READ_FAILED, 0.01)
            self._check_lease()
            self._log.files.pop(name, None)

    def fetch(self, folder: Path, name: str = "") -> None:
        """Write shared files that are lacking."""
        if name and (folder / name).exists():
            return
        for file_name in [name] if name else sorted(self._log.files):
            self._reach(Fault.READ_FAILED, 0.01)
            path = folder / file_name
            if not path.exists() and file_name in self._log.files:
                path.write_bytes(self._log.files[file_name])

    def resign(self) -> None:
        """Give the lease back, and take it no more."""
        self._is_closing = True
        if self.leads and self._process.is_alive:
            self._log.give_up(self._number)
        self._leads_until = 0.0

    def close(self) -> None:
        """Give the lease back; a process that was killed cannot."""
        self.resign()

    def _reach(self, fault: Fault, chance: float) -> None:
        """Reach the server; raises `StoreError` where it is away, or the fault happens."""
        if self._log.is_away:
            raise StoreError("the store is away")
        if self._faults.happens(fault, chance):
            raise StoreError(str(fault))

    def _renew(self) -> None:
        if self._is_closing:
            return
        self._try_to_lead()
        self._log.loop.call_later(LEASE_SECONDS / 2, self._renew)

    def _try_to_lead(self) -> None:
        if self._is_closing or self._log.is_away:
            return
        moment = self._log.loop.time()
        if 0.0 < self._leads_until < moment:
            self._faults.note(Fault.LEASE_EXPIRED)
            self._leads_until = 0.0
        leads, time = self._log.lead(self._number, 0 if self._now is None else self._now())
        if leads:
            self._leads_until = moment + LEASE_SECONDS
        self._common = (time, moment) if time else None

    def _check_lease(self) -> None:
        if self.leads and self._faults.happens(Fault.LEASE_LOST, 0.3):
            self._log.give_up(self._number)
        if self._log.leader() != self._number:
            raise StoreError("another service leads; it does this")
