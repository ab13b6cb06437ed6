"""Work of a service beside requests: let time pass in the log, remove its old rows, and share files."""

import asyncio
import heapq
import logging
import math
from pathlib import Path
from typing import Any

from zoosim.core.blame import one_line
from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import DataError, StoreError
from zoosim.serving.clock import Clock
from zoosim.serving.current import Current
from zoosim.serving.events import CHOICES, Kind, NewRow
from zoosim.serving.folder import SNAPSHOTS
from zoosim.serving.projection import ROWS_AT_ONCE
from zoosim.serving.retention import GAPS, gaps_in, old_before, with_gaps
from zoosim.serving.snapshots import PREFIX, first_needed_row
from zoosim.serving.store.base import Store
from zoosim.serving.throttle import Throttle
from zoosim.serving.writer import Writer

DELETED = "deleted"
"""The part of the changes in a log that says up to where it is deleted."""

CHECK_LASTS = 1.0
"""Seconds for which it is known that the log can be written."""

REMOVED_AT_ONCE = 10_000
"""Rows of a log that are removed in one step, so that nothing waits long for it."""

logger = logging.getLogger("zoosim.serving")


# When a tick is due. An idle service writes no rows: a tick is appended only where it may close something. Feedback may
# close a decision at once, so any makes the next tick due; so does the end of a wait, which is kept in a heap for the
# decisions that this service took in. Decisions from before a restart, or of a service that is gone, are in nobody's
# heap: for these the learner, who reads them all, tells when the next one is over, and the service that leads ticks
# then.
class Upkeep:
    """Keeps the log of a service in order.

    Of several services that share a log, each lets time pass for what it took in. The one that leads does so for the
    others, too, should they be gone; it alone removes rows and shares snapshots.
    """

    def __init__(self, current: Current, store: Store, reader: Store, writer: Writer, clock: Clock) -> None:
        self._current = current
        self._store = store
        self._reader = reader
        self._writer = writer
        self._clock = clock
        self._dues: list[int] = []  # a heap
        self._unticked = True
        self._checked_at = -math.inf
        self._throttle = Throttle(now=clock.passed)

    def note_decision(self, time: int) -> None:
        """Schedule a tick for the end of the feedback window of a decision made at this time."""
        heapq.heappush(self._dues, time + self._wait())

    def note_feedback(self) -> None:
        """Append a tick at the next opportunity, so that new feedback is learned."""
        self._unticked = True

    async def tick(self) -> None:
        """Append a tick row if the feedback window of any decision may have ended: the learner learns at ticks."""
        self._clock.look(self._store.common_time())
        await self._note_gaps()
        now = self._clock.now()
        while self._dues and self._dues[0] <= now:
            heapq.heappop(self._dues)
            self._unticked = True
        due = self._current.due
        if due is not None and due <= now and self._store.leads:
            self._current.due = None
            self._unticked = True
        # While the log fails, requests are refused before they reach it. Ticks go on, as tries that show when it works
        # again.
        if not self._unticked and not self._writer.failure:
            return
        # Before the row is stored: feedback that comes meanwhile may stand behind it, and sets the flag for the next
        # tick.
        self._unticked = False
        try:
            await self._writer.append([NewRow(now, Kind.TICK, None, b"")])
        except StoreError:
            self._unticked = True

    async def check_writing(self) -> str:
        """Return why the log cannot be written, by writing to it, at most once a second; empty when it can."""
        # Whether a log can be written shows only where it is written. But anybody may ask, without a key, so not each
        # time.
        now = self._clock.passed()
        if now - self._checked_at < CHECK_LASTS and not self._writer.failure:
            return ""
        self._checked_at = now
        try:
            await self._writer.append([NewRow(self._clock.now(), Kind.TICK, None, b"")], durable=True)
        except StoreError as error:
            return str(error)
        return ""

    async def clean(self) -> int:
        """Share snapshots with other machines, and remove old rows of the log; nothing where another service leads.

        Returns:
            How many rows were removed: none whose lessons are not in a snapshot that other machines find.
        """
        if not self._store.leads:
            return 0
        # Asked for before snapshots are shared: what is removed must be in one that other machines can have, should
        # this one and its folder be gone.
        needed = await asyncio.to_thread(first_needed_row, self._snapshots)
        await asyncio.to_thread(self.share_snapshots)
        first_needed = await self._current.ask(self._reader.row, needed)
        newest = await self._current.ask(self._reader.last)
        if first_needed is None or newest is None:
            return 0
        deleted_until = int(self._deleted().get("time", 0))
        before = min(max(deleted_until, self._old_before(newest.time)), first_needed.time)
        return await self._writer.run(lambda store: store.remove_before(before, REMOVED_AT_ONCE))

    def _old_before(self, newest: int) -> int:
        """Return the time before which rows are older than `keep_days`, by the newest row and by the wall clock."""
        days = self._current.settings.keep_days
        if not days:
            return 0
        by_log = old_before(newest, days, gaps_in(self._current.changes))
        return min(by_log, old_before(self._clock.wall(), days, ()))  # which may be wrong, and then keeps more

    async def _note_gaps(self) -> None:
        """Note leaps of time among the log's gaps; whichever service leads goes by them."""
        gaps = tuple(self._clock.gaps)
        if not gaps:
            return
        try:
            await self._current.note(self._writer, GAPS, lambda changes: with_gaps(gaps_in(changes), gaps))
        except (StoreError, DataError, OSError) as error:  # the next tick tries again, and this one is to be appended
            if self._throttle.allows():
                logger.warning("a gap in the log's time is not noted for now: %s", one_line(error))
            return
        del self._clock.gaps[: len(gaps)]  # there may be further ones by now

    def share_snapshots(self) -> None:
        """Keep copies of the newest snapshots where other machines find them."""
        names = [path.relative_to(self._current.folder).as_posix() for path in self._snapshots.glob(f"{PREFIX}*")]
        self._store.share(self._current.folder, names)
        old = [name for name in self._store.shared() if Path(name).parent.name == SNAPSHOTS and name not in names]
        self._store.unshare(old)

    async def log_reach(self) -> tuple[float, float] | None:
        """Return when the first and the newest of what is logged came, in seconds; None where nothing was."""
        position = int(self._deleted().get("position", 0))
        newest = await self._current.ask(self._reader.last)
        while newest is not None and (rows := await self._current.ask(self._reader.read, position, ROWS_AT_ONCE)):
            for row in rows:
                # Starts, products and ticks are written without visitors, too.
                if row.kind in (*CHOICES, Kind.FEEDBACK):
                    return row.time / MICROSECONDS, newest.time / MICROSECONDS
            position = rows[-1].seq
        return None

    async def delete_log(self) -> None:
        """Delete what is logged: at once for readers, from the disk once two snapshots hold what it taught."""
        newest = await self._current.ask(self._reader.last)
        if newest is not None:
            values = {"position": newest.seq, "time": newest.time}
            await self._current.note(self._writer, DELETED, lambda changes: values)
        await self.clean()

    def deleted_until(self) -> float:
        """Return up to when the log is deleted, in seconds since 1970."""
        return float(self._deleted().get("time", 0)) / MICROSECONDS

    @property
    def _snapshots(self) -> Path:
        return self._current.folder / SNAPSHOTS

    def _deleted(self) -> dict[str, Any]:
        return dict(self._current.changes.get(DELETED, {}))

    def _wait(self) -> int:
        return round(self._current.settings.wait * MICROSECONDS)
