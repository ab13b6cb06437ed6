"""Machines of a simulation: a service and its learner on each, which start, stop and are killed as processes are."""

import asyncio
import contextlib
import contextvars
import errno
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.simulation.faults import Fault, Faults
from tests.simulation.loop import Call, Process, SimulatedLoop, SimulatedWorker, _process
from tests.simulation.shortcuts import shortcuts
from tests.simulation.store import MemoryLog, MemoryStore
from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import DataError, StoreError
from zoosim.serving import learner, writer
from zoosim.serving.clock import Clock
from zoosim.serving.current import Current
from zoosim.serving.folder import SNAPSHOTS
from zoosim.serving.learner import LearnerJob, LogLearner
from zoosim.serving.machine import Machine
from zoosim.serving.publishing import decode
from zoosim.serving.replica import Replica
from zoosim.serving.service import Service
from zoosim.serving.settings import Settings
from zoosim.serving.snapshots import PREFIX, write_snapshot
from zoosim.serving.store.address import Address
from zoosim.serving.store.base import LostRows
from zoosim.serving.writer import Writer

SECONDS_TO_CLEAN = 7_200.0
"""Seconds between two times at which an idle service shares its snapshots, and removes what is old."""

SECONDS_TO_CLEAN_SOON = 60.0
"""Seconds within which it does so once visitors come."""

BEGIN = 1_800_000_000 * MICROSECONDS
"""What wall clocks say at first."""


class Models(NamedTuple):
    """The files of models, all of one schema: the first one, and others that may follow it or decide beside it.

    `has_clocks` says whether their policies have clocks, which decisions move at once.
    """

    files: list[Path]
    has_clocks: bool


class World(NamedTuple):
    """What all machines share.

    Attributes:
        loop: Time.
        rng: What is left to chance.
        faults: What goes wrong.
        log: The server of the log.
        models: The files of models.
        violations: What must not happen, and did.
    """

    loop: SimulatedLoop
    rng: Random
    faults: Faults
    log: MemoryLog
    models: Models
    violations: list[str]


class Host:
    """A machine with a service.

    Attributes:
        service: The service; None while there is none.
        process: Its process.
        context: In which steps of that process are called.
        seconds_to_tick: Returns the seconds until the next tick.
        is_ready: Whether it takes requests.
        incarnation: How often it was started.
        running: How many requests it answers now.
        learner: Its learner.
        settings: How it is started next.
    """

    def __init__(self, world: World, name: str, folder: Path, settings: Settings, tick: Callable[[], float]) -> None:
        """Make the machine, without a service.

        Args:
            world: What all machines share.
            name: What messages call it.
            folder: Its folder.
            settings: How its service is started.
            tick: Returns the seconds until the next tick.
        """
        self.world = world
        self.name = name
        self.folder = folder
        self.settings = settings
        self.service: Service | None = None
        self.process = Process(name)
        self.is_ready = False
        self.incarnation = 0
        self.running: set[asyncio.Task[Any]] = set()
        self.learner: Learner | None = None
        self.seconds_to_tick = tick
        self._off = 0
        self._boot = 1_000
        self._cleaning: asyncio.Task[None] | None = None
        self._messages_at = 0.0
        self._pause = 0.1
        self._next_tick: Call | None = None
        self.context = contextvars.copy_context()

    @property
    def is_paused(self) -> bool:
        """True while its service or the learner is paused."""
        processes = [self.process] + ([self.learner.process] if self.learner else [])
        return any(process.paused_until > self.world.loop.time() for process in processes)

    def set_wall(self, seconds: float) -> None:
        """Set the wall clock by so many seconds."""
        self._off += round(seconds * MICROSECONDS)

    def start(self) -> None:
        """Start the service."""
        self.incarnation += 1
        self.process = Process(f"{self.name}.{self.incarnation}")
        self.context = contextvars.copy_context()
        self.context.run(_process.set, self.process)
        self.world.loop.call_soon(self._begin, context=self.context)

    def machine(self, process: Process) -> Machine:
        """Return what a process runs on."""
        loop = self.world.loop

        def open_store(address: Address, read_only: bool) -> MemoryStore:
            return MemoryStore(self.world.log, process, read_only)

        clock = Clock(
            lambda: BEGIN + round(loop.time() * MICROSECONDS) + self._off,
            lambda: self._boot + round(loop.time() * MICROSECONDS),
        )
        return Machine(
            clock,
            open_store,
            lambda name, handle: SimulatedWorker(loop, handle),
            lambda size: self.world.rng.randbytes(size),
        )

    def _begin(self) -> None:
        world = self.world
        try:
            self.service = Service(self.settings, world.models.files[0], world.loop, self.machine(self.process))
        except StoreError:
            world.faults.note(Fault.START_FAILED)
            self.process.is_alive = False
            world.loop.call_later(1.0, self.start, context=OUTSIDE_CONTEXT)
            return
        except Exception as error:
            world.violations.append(f"{self.process.name} does not start: {error!r}")
            raise
        self._pause = 0.1
        self.start_learner()
        self.service.current.ask_learner = self._ask_learner
        self._next_tick = world.loop.call_later(world.rng.random(), self._tick)
        self._cleaning = world.loop.create_task(self._clean_on())
        world.loop.call_later(30.0, self._get_ready)

    def _get_ready(self) -> None:
        self.is_ready = self.service is not None

    def start_learner(self) -> None:
        """Start a learner."""
        self.learner = Learner(self)

    def _ask_learner(self) -> None:
        assert self.learner is not None
        self.learner.wants_whole = True
        self.learner.wake()

    def receive(self, learner: "Learner", content: bytes) -> None:
        """Hand on a message of the learner, through a pipe that keeps their order."""
        loop = self.world.loop
        self._messages_at = max(self._messages_at, loop.time() + loop.delay())
        loop.call_at(self._messages_at, self._take, learner, content, context=self.context)

    def _take(self, learner: "Learner", content: bytes) -> None:
        if self.service is not None and learner is self.learner:
            self._pause = 0.1
            self.service.current.take(decode(content))
            self.is_ready = True

    def learner_ended(self, learner: "Learner", has_lost_rows: bool) -> None:
        """Start another learner after a pause, as the watcher of a service does."""
        loop = self.world.loop
        loop.call_later(self._pause, self._restart_learner, learner, has_lost_rows, context=self.context)
        self._pause = min(2 * self._pause, 30.0)

    def _restart_learner(self, learner: "Learner", has_lost_rows: bool) -> None:
        if self.service is None or learner is not self.learner or learner.is_stopping:
            return
        if has_lost_rows:
            self.service.refuse_to_write("the log has lost rows; start again")
        self.start_learner()

    def hurry(self) -> None:
        """Tick soon, and more often, and clean up: visitors come."""
        self.clean_soon(self.world.rng.uniform(0.0, SECONDS_TO_CLEAN_SOON))
        if self._next_tick is not None and not self._next_tick.is_cancelled:
            self._next_tick.cancel()
            self._next_tick = self.world.loop.call_later(self.world.rng.random(), self._tick, context=self.context)

    def clean_soon(self, seconds: float = 0.0) -> None:
        """Share snapshots, and remove what is old, after some seconds."""
        loop = self.world.loop
        loop.call_later(seconds, lambda: loop.create_task(self._clean()), context=self.context)

    def _tick(self) -> None:
        self._next_tick = None
        self.world.loop.create_task(self._tick_once())

    async def _tick_once(self) -> None:
        if self.service is None:
            return
        await self.tried(self.service.tick)
        seconds = self.seconds_to_tick()
        if self.world.faults.happens(Fault.LATE_TICK, 0.01):
            seconds += self.world.rng.uniform(5.0, 100.0)
        self._next_tick = self.world.loop.call_later(seconds, self._tick)

    async def _clean_on(self) -> None:
        while True:
            await asyncio.sleep(SECONDS_TO_CLEAN)
            await self._clean()

    async def _clean(self) -> None:
        if self.service is not None:
            await self.tried(self.service.upkeep.clean)

    async def tried(self, step: Callable[[], Awaitable[Any]]) -> None:
        """Take a step that may fail as the store does."""
        try:
            await step()
        except (StoreError, LostRows):
            return
        except Exception as error:
            self.world.violations.append(f"{self.process.name}: {error!r}")

    def kill(self, with_learner: bool) -> None:
        """Kill the service as by SIGKILL; its learner, too, or it finds out."""
        if self.service is None:
            return
        self.process.is_alive = False
        if self.learner is not None:
            if with_learner:
                self.learner.kill()
            else:
                self.world.faults.note(Fault.LEARNER_ORPHANED)
                self.learner.wake()
        self._let_go()

    async def stop(self) -> None:
        """Stop the service in good order, as the server does at SIGTERM."""
        service = self.service
        self.is_ready = False
        if self.running:
            await asyncio.wait(self.running, timeout=5.0)
        for task in self.running:
            task.cancel()
        if self._cleaning is not None:
            self._cleaning.cancel()
        if self._next_tick is not None:
            self._next_tick.cancel()
        if service is None:
            return
        await self.tried(service.tick)
        if self.learner is not None:
            self.learner.is_stopping = True
            self.learner.wake()
            for _ in range(50):
                if self.learner.has_ended:
                    break
                await asyncio.sleep(0.1)
            self.learner.kill()
        if self.service is service:
            service.close()
            self._let_go(is_closed=True)

    def _let_go(self, is_closed: bool = False) -> None:
        service = self.service
        self.service = None
        self.is_ready = False
        self.process.is_alive = False
        self.running.clear()
        if service is not None and not is_closed:
            service._opened.close()

    def snapshots(self) -> list[Path]:
        """Return the snapshots on its disk."""
        return sorted((self.folder / SNAPSHOTS).glob(f"{PREFIX}*"))

    def lose_folder(self) -> None:
        """Lose all that is on its disk."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Learner:
    """A learner, a process of its own; the ranker that `LogLearner` knows.

    Attributes:
        wants_whole: Whether its next message is to be the whole state.
        is_stopping: Whether it was told to stop.
        has_ended: Whether it has ended.
        learner: The learner itself, once it has begun.
    """

    def __init__(self, host: Host) -> None:
        """Start it."""
        self.wants_whole = False
        self.is_stopping = False
        self.has_ended = False
        self.learner: LogLearner | None = None
        self._host = host
        self._service = host.process
        self.process = Process(f"learner of {host.process.name}")
        self._next: Call | None = None
        self.context = contextvars.copy_context()
        self.context.run(_process.set, self.process)
        host.world.loop.call_later(0.5, self._run, self._begin, context=self.context)

    def send(self, content: bytes) -> None:
        """Send a message to the service."""
        if self.process.is_alive:
            self._host.receive(self, content)

    def wants_stop(self) -> bool:
        """Return whether to end: the service says so, or is gone."""
        return self.is_stopping or not self._service.is_alive or not self.process.is_alive

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._host.world.loop.wait(seconds)

    def kill(self) -> None:
        """Kill it."""
        self.process.is_alive = False
        if not self.has_ended and not self.is_stopping:
            self._host.learner_ended(self, False)
        self.has_ended = True

    def wake(self, seconds: float = 0.0) -> None:
        """Let it look at the log soon."""
        if self.learner is None or self.has_ended:
            return
        loop = self._host.world.loop
        when = loop.time() + seconds + loop.delay()
        if self._next is not None:
            if self._next.when() <= when:
                return
            self._next.cancel()
        self._next = loop.call_at(when, self._run, self._step, context=self.context)

    def _begin(self) -> None:
        machine = self._host.machine(self.process)
        address = self._host.settings.address._replace(folder=self._host.folder)
        job = LearnerJob(address, self._host.settings.snapshot)
        learner = LogLearner(job, self, machine)
        learner.begin()
        self.learner = learner
        self.wake()

    def _step(self) -> None:
        self._next = None
        assert self.learner is not None
        rows = self.learner.step()
        if self.wants_stop():
            if self.process.is_alive:
                self.learner.end()
            self.has_ended = True
        else:
            # Where there were rows, a message is due soon; until then nothing is to be done.
            self.wake(learner.SECONDS_BETWEEN_MESSAGES if rows else self._host.seconds_to_tick() * 2)

    def _run(self, step: Callable[[], None]) -> None:
        world = self._host.world
        has_lost_rows = False
        try:
            step()
            return
        except EOFError:
            pass
        except LostRows:
            has_lost_rows = True
        except DataError as error:
            if "before" not in str(error):  # a learner that is far behind begins anew with a later snapshot
                world.violations.append(f"{self.process.name} ends: {error!r}")
            else:
                world.faults.note(Fault.LEARNER_BEHIND)
        except Exception as error:
            if not self.process.is_alive:
                return
            world.violations.append(f"{self.process.name} ends: {error!r}")
        self.has_ended = True
        if self.process.is_alive:
            self.process.is_alive = False
            self._host.learner_ended(self, has_lost_rows)


OUTSIDE_CONTEXT = contextvars.Context()


@contextlib.contextmanager
def faulty_parts(faults: Faults) -> Iterator[None]:
    """Let the disk be full at some of the snapshots that are written within the block, and count full batches."""
    write = write_snapshot
    commit = Writer._commit
    take_snapshot = Current._take_snapshot

    def write_or_fail(folder: Path, replica: Replica) -> Path:
        if faults.happens(Fault.DISK_FULL, 0.2):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(folder, replica)

    def commit_and_count(self: Writer, batch: list[Any], append: Any) -> bool:
        assert len(batch) <= writer.MOST_TOGETHER
        if len(batch) == writer.MOST_TOGETHER:
            faults.note(Fault.FULL_BATCH)
        return commit(self, batch, append)

    async def take_snapshot_and_count(self: Current, first: int) -> None:
        faults.note(Fault.SERVICE_BEHIND)
        await take_snapshot(self, first)

    with (
        patch.object(learner, "write_snapshot", write_or_fail),
        patch.object(Writer, "_commit", commit_and_count),
        patch.object(Current, "_take_snapshot", take_snapshot_and_count),
        shortcuts(),
    ):
        yield
