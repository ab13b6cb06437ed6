"""Group commit: what came in together is appended together, a thread syncs, and who waits is told once it is stored."""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby, islice
from typing import Any, NamedTuple, TypeVar

from zoosim.core.errors import StoreError
from zoosim.serving.events import NewRow
from zoosim.serving.machine import Handler, ThreadWorker, Worker
from zoosim.serving.store.base import Store

MOST_TOGETHER = 512
"""Requests that one commit stores, at most."""

MOST_AT_ONCE, LONGEST_AT_ONCE = 64, 0.005
"""Requests, and seconds, of a commit in the event loop, at most; after a longer one a worker commits for a while."""

AWAY = 1.0
"""Seconds for which it does."""

ROWS_BETWEEN_SYNCS = 1_000
"""Rows after which the log is synced though nobody waits for that."""

Result = TypeVar("Result")

logger = logging.getLogger("zoosim.serving")


class _Waiting(NamedTuple):
    """Rows that one request appends, whether they must be on the disk, and who waits for their positions."""

    rows: Sequence[NewRow]
    durable: bool
    done: "asyncio.Future[list[int | None]]"


class _Committed(NamedTuple):
    """A request whose rows are in the log, at these positions."""

    request: _Waiting
    positions: list[int | None]


class _StoreTask(NamedTuple):
    """Something else to do with the store between two commits."""

    run: Callable[[Store], Any]
    done: "asyncio.Future[Any]"


# Nearly all commits are made in the event loop, at the end of its round: to hand one over to a thread, which wants the
# interpreter for it several times, takes longer than the commit. Where one would have to wait, as for a tool that also
# writes, or has taken long, as on a disk that is busy, a worker commits, so that the loop goes on meanwhile.
#
# Why two workers, each a thread. A sync waits for the disk, which a commit does not, and only feedback must be on the
# disk before it is acknowledged. If one worker did both, decisions, for which a page is waiting, would wait for the
# disk behind every feedback. So the first one commits, and resolves at once what need not be synced; the second one
# syncs all that was committed before it began, however many commits that are.
#
# Nobody waits for a batch to fill up. While one is committed, further requests queue, so batches grow by themselves
# with the load. And what comes in one round of the event loop goes together: a worker that wakes for the first of them
# would take the interpreter from the others, and commit that one alone, at nearly the cost of all. Workers never touch
# futures: these belong to the event loop, which is told by `call_soon_threadsafe`.
class Writer:
    """Appends rows in the order in which they are given; several requests share a commit, and several commits a sync.

    What need not be on the disk never waits for it. What rests on other rows is appended once those are stored.

    Attributes:
        waiting: How many requests wait now.
        position: The position of the newest row that this stored.
    """

    def __init__(
        self,
        store: Store,
        loop: asyncio.AbstractEventLoop,
        sync_all: bool = False,
        start_worker: Callable[[str, Handler], Worker] = ThreadWorker,
    ) -> None:
        """Start the workers.

        Args:
            store: Where to append.
            loop: The event loop of those who wait.
            sync_all: Whether everything must be on the disk, not feedback alone.
            start_worker: Starts a worker, as that of `Machine`.
        """
        self.waiting = 0
        self.position = 0
        self._store = store
        self._loop = loop
        self._sync_all = sync_all
        self._refusal = self._commit_failure = self._sync_failure = ""
        self._unsynced_rows = 0
        self._round: list[_Waiting | _StoreTask] = []
        self._handing_over = threading.Lock()
        self._with_worker = 0
        self._away_until = -math.inf
        self._syncs = start_worker("log sync", self._sync)
        self._commits = start_worker("log writer", self._work)

    @property
    def failure(self) -> str:
        """Reason why the last commit or sync failed, or nothing is appended any more; empty when all is well."""
        return self._refusal or self._commit_failure or self._sync_failure

    def append(self, rows: Sequence[NewRow], durable: bool = False) -> "asyncio.Future[list[int | None]]":
        """Give rows their place in the log; return their positions, once they are stored, as `Store.append` does.

        Awaiting it raises `StoreError` where they could not be stored, or synced. What cannot be synced stays in the
        log: it is refused, and may be sent again.
        """
        done: asyncio.Future[list[int | None]] = self._loop.create_future()
        if self._refusal:
            done.set_exception(StoreError(self._refusal))
            return done
        self.waiting += 1
        self._give(_Waiting(rows, durable or self._sync_all, done))
        return done

    async def confirm(self) -> None:
        """Return once what the log holds now is as safe as what is appended must be; raises `StoreError`."""
        if self._sync_all:
            await self.append([])

    def refuse(self, reason: str) -> None:
        """Append nothing more."""
        self._refusal = reason

    def run(self, task: Callable[[Store], Result]) -> "asyncio.Future[Result]":
        """Do something else with the store; awaiting it raises `StoreError` as the task does."""
        done: asyncio.Future[Result] = self._loop.create_future()
        self._give(_StoreTask(task, done))
        return done

    def close(self) -> None:
        """Store what waits, and end the workers."""
        self._hand_over(at_once=False)  # as this may be another thread
        self._commits.close()
        self._syncs.close()  # behind the last commit, which is thus synced, too

    def _give(self, item: "_Waiting | _StoreTask") -> None:
        """Put an item beside the others of this round of the event loop, at the end of which all are handed over."""
        if not self._round:
            self._loop.call_soon(self._hand_over)
        self._round.append(item)

    def _hand_over(self, at_once: bool = True) -> None:
        """Commit what came in this round of the event loop, or hand it over to the worker."""
        with self._handing_over:  # as `close` may be called in another thread
            items, self._round = self._round, []
            if items and not (at_once and self._is_committed_at_once(items)):
                self._with_worker += 1
                self._commits.put(items)

    def _is_committed_at_once(self, items: "Sequence[_Waiting | _StoreTask]") -> bool:
        """Commit what one round brought in this thread; return False where it is the worker's."""
        # Behind what the worker has, as rows keep their order, and the store is for one thread at a time.
        batch = [item for item in items if isinstance(item, _Waiting)]
        began = time.monotonic()  # not the loop's time, which may stand still in a round
        if self._with_worker or len(batch) < len(items) or len(batch) > MOST_AT_ONCE or began < self._away_until:
            return False
        is_committed = self._commit(batch, self._store.append_now)
        if time.monotonic() - began > LONGEST_AT_ONCE:
            self._away_until = time.monotonic() + AWAY
        return is_committed

    def _work(self, rounds: Sequence[Sequence[Any]]) -> None:
        # In their order: tasks see what was appended before they were given. And by one worker, since a store's
        # `append`, `replace` and `remove_before` are for one thread.
        items = chain.from_iterable(rounds)
        for is_task, group in groupby(items, lambda item: isinstance(item, _StoreTask)):
            if is_task:
                for task in group:
                    self._do(task)
            else:
                while batch := list(islice(group, MOST_TOGETHER)):
                    self._commit(batch, self._store.append)
        self._tell(self._note_done, len(rounds))

    def _note_done(self, rounds: int) -> None:
        self._with_worker -= rounds

    def _commit(self, batch: list[_Waiting], append: Callable[[Sequence[NewRow]], list[int | None] | None]) -> bool:
        """Append the rows of some requests, and say so to who waits; return False where nothing could be tried."""
        rows = [row for request in batch for row in request.rows]
        try:
            positions = append(rows)
        except Exception as error:  # whatever it is, who waits must hear of it
            if not self._commit_failure:
                logger.error("the log cannot be written: %s", error)
            self._commit_failure = str(error) or type(error).__name__
            # The store appended all or nothing, so each request of the batch may be sent again.
            self._tell(self._resolve, [_Committed(request, []) for request in batch], self._commit_failure)
            return True
        if positions is None:
            return False
        self._commit_failure = ""
        self.position = max((self.position, *(position for position in positions if position is not None)))
        self._unsynced_rows += len(rows)
        self._hand_on(batch, iter(positions))
        return True

    def _hand_on(self, batch: Sequence[_Waiting], positions: Iterator[int | None]) -> None:
        """Resolve the requests that need no sync, and queue the others for one."""
        committed = [_Committed(request, list(islice(positions, len(request.rows)))) for request in batch]
        self._tell(self._resolve, [each for each in committed if not each.request.durable], "")
        to_sync = [each for each in committed if each.request.durable]
        # After a failure each commit asks for a sync, also one that nobody waits for: else a service that refuses
        # requests while the log fails would have no request left by which to notice that the disk works again.
        if to_sync or self._unsynced_rows >= ROWS_BETWEEN_SYNCS or self._sync_failure:
            self._unsynced_rows = 0
            self._syncs.put(to_sync)

    def _sync(self, batches: Sequence[Sequence[_Committed]]) -> None:
        # One sync covers all that was committed before it, so whatever has queued up meanwhile shares this one.
        committed = list(chain.from_iterable(batches))
        try:
            self._store.sync()
        except Exception as error:
            if not self._sync_failure:
                logger.error("the log cannot be synced: %s", error)
            # The rows are in the log and will be learned if no power is lost, but nobody can promise that they stay.
            # Who waits is refused; when it comes again, its key is found, and it is acknowledged as a duplicate once a
            # sync has succeeded.
            self._sync_failure = str(error) or type(error).__name__
        else:
            self._sync_failure = ""
        self._tell(self._resolve, committed, self._sync_failure)

    def _do(self, task: _StoreTask) -> None:
        try:
            result = task.run(self._store)
        except Exception as error:
            self._tell(_fail, task.done, error)
        else:
            self._tell(_succeed, task.done, result)

    def _tell(self, what: Callable[..., None], *values: Any) -> None:
        """Call something in the event loop, unless that is over."""
        if values[0] and not self._loop.is_closed():
            (self._loop.call_soon if _runs(self._loop) else self._loop.call_soon_threadsafe)(what, *values)

    def _resolve(self, committed: list[_Committed], failure: str) -> None:
        for request, positions in committed:
            self.waiting -= 1
            if failure:
                _fail(request.done, StoreError(failure))
            else:
                _succeed(request.done, positions)


def _runs(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether an event loop runs in this thread now."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _succeed(done: "asyncio.Future[Any]", result: Any) -> None:
    # Who waits may have been cancelled, as the server does with requests that outlast its end; the rows are stored
    # anyway.
    if not done.done():
        done.set_result(result)


def _fail(done: "asyncio.Future[Any]", error: Exception) -> None:
    if not done.done():
        done.set_exception(error)
