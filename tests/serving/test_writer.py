"""What waits for the disk, and what does not."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
import uvloop

from zoosim.core.errors import StoreError
from zoosim.serving.events import Kind, NewRow, Row
from zoosim.serving.machine import Handler, ThreadWorker, Worker
from zoosim.serving.store.base import place
from zoosim.serving.writer import LONGEST_AT_ONCE, Writer


class SlowDisk:
    """A store in memory, whose syncs wait until they may go on, and fail while there is a failure."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.may_sync = threading.Event()
        self.failure = ""
        self.is_busy = True
        self.seconds = 0.0
        self.appended_by: list[int] = []

    def append_now(self, rows: Sequence[NewRow]) -> list[int | None] | None:
        time.sleep(self.seconds)
        return None if self.is_busy else self.append(rows)

    def append(self, rows: Sequence[NewRow]) -> list[int | None]:
        new, positions = place(rows, len(self.rows), 0, {row.key for row in self.rows if row.key is not None})
        self.rows += new
        self.appended_by.append(threading.get_ident())
        return positions

    def sync(self) -> None:
        assert self.may_sync.wait(10)
        if self.failure:
            raise StoreError(self.failure)


class InlineWorker:
    """A worker that handles what it gets at once."""

    def __init__(self, name: str, handle: Handler) -> None:
        self._handle = handle

    def put(self, item: Any) -> None:
        self._handle([item])

    def close(self) -> None:
        return


def with_writer(
    use: Callable[[Writer, SlowDisk], Awaitable[None]], start_worker: Callable[[str, Handler], Worker] = ThreadWorker
) -> None:
    """Use a writer in an event loop."""

    async def run() -> None:
        store = SlowDisk()
        writer = Writer(store, asyncio.get_running_loop(), start_worker=start_worker)  # type: ignore[arg-type]
        try:
            await asyncio.wait_for(use(writer, store), 10)
        finally:
            store.may_sync.set()
            await asyncio.to_thread(writer.close)

    uvloop.run(run())


def row(name: str) -> NewRow:
    return NewRow(1, Kind.FEEDBACK, name.encode(), b"")


def test_what_need_not_be_on_the_disk_does_not_wait_for_it() -> None:
    async def use(writer: Writer, store: SlowDisk) -> None:
        synced = writer.append([row("a")], durable=True)
        assert await writer.append([row("b")]) == [2]
        assert not synced.done()
        assert writer.waiting == 1
        store.may_sync.set()
        assert await synced == [1]
        assert writer.waiting == 0

    with_writer(use)


def test_what_comes_in_one_round_of_the_event_loop_shares_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(writer: Writer, store: SlowDisk) -> None:
        commits: list[int] = []
        append = store.append

        def append_counted(rows: Sequence[NewRow]) -> list[int | None]:
            commits.append(len(rows))
            return append(rows)

        monkeypatch.setattr(store, "append", append_counted)
        positions = await asyncio.gather(*(writer.append([row(name)]) for name in "abcdefgh"))
        assert positions == [[number] for number in range(1, 9)]
        assert commits == [8]

    with_writer(use, InlineWorker)


def test_what_cannot_be_synced_is_refused_until_a_sync_succeeds() -> None:
    async def use(writer: Writer, store: SlowDisk) -> None:
        store.may_sync.set()
        store.failure = "disk broken"
        with pytest.raises(StoreError, match="disk broken"):
            await writer.append([row("a")], durable=True)
        assert writer.failure == "disk broken"
        assert await writer.append([row("b")]) == [2]
        store.failure = ""
        assert await writer.append([row("a")], durable=True) == [None]
        assert not writer.failure

    with_writer(use)


def test_a_failed_commit_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(writer: Writer, store: SlowDisk) -> None:
        synced = writer.append([row("a")], durable=True)
        assert await writer.append([row("b")]) == [2]
        append = store.append
        monkeypatch.setattr(store, "append", lambda rows: (_ for _ in ()).throw(StoreError("disk full")))
        with pytest.raises(StoreError, match="disk full"):
            await writer.append([row("c")])
        assert writer.failure == "disk full"
        monkeypatch.setattr(store, "append", append)
        assert await writer.append([row("c")]) == [3]
        assert not writer.failure
        store.may_sync.set()
        assert await synced == [1]

    with_writer(use)


def test_a_failing_sync_is_tried_again_with_each_commit() -> None:
    async def use(writer: Writer, store: SlowDisk) -> None:
        store.may_sync.set()
        store.failure = "disk broken"
        with pytest.raises(StoreError):
            await writer.append([row("a")], durable=True)
        store.failure = ""
        await writer.append([row("b")])
        while writer.failure:
            await asyncio.sleep(0.001)

    with_writer(use)


def test_rows_are_committed_in_the_event_loop_where_nobody_is_waited_for_and_in_their_order() -> None:
    async def use(writer: Writer, store: SlowDisk) -> None:
        store.is_busy = False
        assert await writer.append([row("a")]) == [1]
        store.is_busy = True
        busy = writer.append([row("b")])
        await asyncio.sleep(0)  # handed over
        store.is_busy = False
        later = [writer.append([row("c")]), writer.append([row("a")])]
        assert [await each for each in (busy, *later)] == [[2], [3], [None]]
        assert await writer.run(lambda store: "done") == "done"
        assert await writer.append([row("d")]) == [4]
        here = threading.get_ident()
        assert store.appended_by[0] == store.appended_by[-1] == here
        assert here not in store.appended_by[1:-1]
        assert [row.key for row in store.rows] == [b"a", b"b", b"c", b"d"]

    with_writer(use)


def test_commits_that_take_long_leave_the_event_loop() -> None:
    async def use(writer: Writer, store: SlowDisk) -> None:
        store.is_busy = False
        store.seconds = 2 * LONGEST_AT_ONCE
        assert await writer.append([row("a")]) == [1]
        assert await writer.append([row("b")]) == [2]
        assert store.appended_by[0] == threading.get_ident() != store.appended_by[1]

    with_writer(use)


def test_what_cannot_be_committed_in_the_event_loop_is_refused() -> None:
    async def use(writer: Writer, store: SlowDisk) -> None:
        def refuse(rows: Sequence[NewRow]) -> list[int | None]:
            raise StoreError("the disk is full")

        store.append_now = refuse  # type: ignore[method-assign]
        with pytest.raises(StoreError, match="the disk is full"):
            await writer.append([row("a")])
        assert writer.failure == "the disk is full"
        del store.append_now
        assert await writer.append([row("a")]) == [1]
        assert not writer.failure

    with_writer(use)
