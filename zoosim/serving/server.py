"""Run a service: the HTTP server in this process, the learner in another, and both of them until told to stop."""

import asyncio
import contextlib
import functools
import gc
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

from zoosim.core.blame import one_line
from zoosim.core.errors import ConfigError, ZoosimError
from zoosim.serving.application import Application
from zoosim.serving.learner import LOST, STOP, WHOLE, LearnerJob, run_learner
from zoosim.serving.log_lines import write_json_lines
from zoosim.serving.machine import Machine
from zoosim.serving.origins import OriginCheck
from zoosim.serving.protocol import BoundedProtocol, Connections, allow_connections
from zoosim.serving.publishing import decode
from zoosim.serving.service import Service
from zoosim.serving.settings import Settings
from zoosim.serving.throttle import Throttle
from zoosim.serving.upkeep import Upkeep

DRAIN_SECONDS = 5
"""Seconds that requests, and then the learner, may take to end once the service is told to stop."""

LEARNER_STARTS = 30.0
"""Seconds for which visitors wait for the learner's first report, at most."""

REACHED_BY = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""The address at which this process reaches a service that listens everywhere."""

SECONDS_BETWEEN_CLEANINGS = 60.0
SECONDS_PER_THREAD = 0.0005
"""For which one thread keeps the interpreter while others want it: requests keep it, and would keep the log waiting."""

logger = logging.getLogger("zoosim.serving")


def serve(
    settings: Settings, model_file: Path | None, announce: Callable[[str], None], machine: Machine | None = None
) -> None:
    """Serve a model until SIGTERM or Ctrl-C.

    Args:
        settings: How the service runs.
        model_file: The model; None for the one that the store knows, or to grow one.
        announce: Called with a line once requests are answered.
        machine: What it runs on; this machine by default.

    Raises:
        ConfigError: the store or the port cannot be used.
        DataError: the model or the log is broken.
    """
    write_json_lines()
    os.umask(0o077)  # what the log, models and snapshots say is nobody else's
    # First, so that a port that is taken refuses the start before a store is made, or locked.
    listener = _listener(settings)
    try:
        uvloop.run(_serve(settings, model_file, listener, announce, machine))
    finally:
        listener.close()


async def _serve(
    settings: Settings,
    model_file: Path | None,
    listener: socket.socket,
    announce: Callable[[str], None],
    machine: Machine | None,
) -> None:
    loop = asyncio.get_running_loop()
    service = Service(settings, model_file, loop, machine)
    learner = LearnerProcess(service, loop)
    service.current.ask_learner = learner.ask_for_whole
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    sys.setswitchinterval(SECONDS_PER_THREAD)
    host, port = listener.getsockname()[:2]

    async def get_ready() -> None:
        # The learner loads and compiles for seconds, on a core that the first requests would want.
        await _first_of(learner.has_reported, stopping)
        await _ask_if_ready(host, port)
        gc.collect()
        gc.freeze()  # what was imported and compiled is never looked at again: no long pauses
        announce(f"serving on http://{host}:{port}, {service.address.text()}; {service.knowledge()}")

    server = _Server(_configuration(service, stopping), get_ready)
    jobs = [asyncio.create_task(job) for job in (_tick(service), _clean(service.upkeep), _stop(server, stopping))]
    try:
        await server.serve(sockets=[listener])
    finally:
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        # The order counts. A last tick closes what feedback came in; the learner then reads the log to its end and
        # writes a snapshot; and the service shares that before it gives up its lease and the lock of its folder.
        await _try(service.tick, "what was taken in last is learned after the next start", Throttle())
        await loop.run_in_executor(None, learner.stop)
        service.close()


async def _first_of(*events: asyncio.Event) -> None:
    """Wait until one of several events has happened, at most for `LEARNER_STARTS` seconds."""
    # `asyncio.wait` takes tasks alone, and leaves those that are not done running, hence the end.
    tasks = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(tasks, timeout=LEARNER_STARTS, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


async def _ask_if_ready(host: str, port: int) -> None:
    """Send the first request of all, so that no visitor waits for what the server, the log and its disk do at first."""
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection(REACHED_BY.get(host, host), port)
        # Over a real connection, and this path, as it goes through the server, the application and the log to the disk.
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        await reader.read()
        writer.close()
        await writer.wait_closed()


class _Server(uvicorn.Server):
    """A server that leaves signals to the service, which has more to end than the server.

    Once it answers requests, it waits for `get_ready`, beside them.
    """

    def __init__(self, config: uvicorn.Config, get_ready: Callable[[], Awaitable[None]]) -> None:
        super().__init__(config)
        self._get_ready = get_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and get ready."""
        await super().startup(sockets)
        await self._get_ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


# A process and not a thread: while learning held the interpreter, requests would wait. It holds nothing that does not
# follow from the log, so it may be killed at any moment, and is simply started again.
class LearnerProcess:
    """The learner of a service, started again whenever it ends.

    Attributes:
        has_reported: Set once what the learner has learned was taken over for the first time, or the learner ended.
    """

    def __init__(self, service: Service, loop: asyncio.AbstractEventLoop) -> None:
        """Start it."""
        self._service = service
        self._loop = loop
        self._job = LearnerJob(service.address, service.settings.snapshot, os.getpid())
        self.has_reported = asyncio.Event()
        self._stopping = threading.Event()
        self._start()
        self._watcher = threading.Thread(target=self._watch, name="learner watcher", daemon=True)
        self._watcher.start()

    def ask_for_whole(self) -> None:
        """Ask the learner for its whole state, which this process has lost."""
        with contextlib.suppress(OSError):
            self._connection.send_bytes(WHOLE)

    def stop(self) -> None:
        """Ask the learner to write a snapshot and end; kill it if that takes too long."""
        # Before the message, so that the watcher does not start another learner when this one ends.
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._connection.send_bytes(STOP)
        self._process.join(DRAIN_SECONDS)
        if self._process.is_alive():
            self._process.kill()
        self._watcher.join(1)

    def _start(self) -> None:
        """Start it; where that fails, the process and the connection stay those of the one that ended."""
        # Not by fork, which would copy locks that other threads of this process hold at that moment.
        context = multiprocessing.get_context("spawn")
        connection, theirs = context.Pipe()
        process = context.Process(target=run_learner, args=(self._job, theirs), name="zoosim learner")
        # This process must not keep the learner's end open: it would never read the end of the pipe when the learner
        # dies.
        with theirs:
            process.start()
        self._connection = connection
        self._process = process

    def _watch(self) -> None:
        """Hand on what the learner publishes; start it again when it ends."""
        pause = 0.1
        while not self._stopping.is_set():
            try:
                message = decode(self._connection.recv_bytes())
                # In the event loop, where decisions are made: a state changes between two of them, never within one.
                self._loop.call_soon_threadsafe(self._service.current.take, message)
                self._loop.call_soon_threadsafe(self.has_reported.set)
                pause = 0.1
            except (EOFError, OSError, RuntimeError):
                self._process.join()
                with contextlib.suppress(RuntimeError):  # the event loop is over
                    self._loop.call_soon_threadsafe(self.has_reported.set)
                if self._stopping.wait(pause):
                    return
                # What decides here learned from rows that are gone, too, so the service must not write on top of what
                # is left.
                if self._process.exitcode == LOST:
                    self._loop.call_soon_threadsafe(self._service.refuse_to_write, "the log has lost rows; start again")
                logger.warning("the learner ended with code %s; it starts again", self._process.exitcode)
                # A learner that ends at once, as at a broken row, would otherwise load models without pause, on a core
                # that visitors need.
                pause = min(2 * pause, 30.0)
                try:
                    self._start()
                except OSError as error:  # the connection is still that of the old one: so the next round tries again
                    logger.error("the learner cannot be started: %s", error)


async def _tick(service: Service) -> None:
    throttle = Throttle()
    while True:
        await asyncio.sleep(service.settings.tick)
        await _try(service.tick, "the log is not brought up to date for now", throttle)


async def _clean(upkeep: Upkeep) -> None:
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_CLEANINGS)
        await _try(upkeep.clean, "old rows stay for now", Throttle())


async def _try(step: Callable[[], Awaitable[Any]], complaint: str, throttle: Throttle) -> None:
    """Take a step that follows again; where it fails, a line says so, and nothing ends without one.

    An unexpected error, a fault of ours, is told with its traceback.
    """
    try:
        await step()
    except Exception as error:
        if throttle.allows():
            is_expected = isinstance(error, ZoosimError | OSError)
            logger.warning("%s: %s", complaint, one_line(error), exc_info=None if is_expected else error)


async def _stop(server: uvicorn.Server, stopping: asyncio.Event) -> None:
    await stopping.wait()
    server.should_exit = True


def _configuration(service: Service, stopping: asyncio.Event) -> uvicorn.Config:
    settings = service.settings
    most_connections = allow_connections(settings.most_connections)
    application = Application(service, stopping).starlette()
    return uvicorn.Config(
        application if any(settings.keys.values()) else OriginCheck(application, settings.host, settings.hosts),
        http=functools.partial(BoundedProtocol, Connections(most_connections)),  # type: ignore[arg-type]
        lifespan="off",
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        timeout_keep_alive=75,
        server_header=False,
    )


def _listener(settings: Settings) -> socket.socket:
    """Return a socket that listens; raises `ConfigError` where it cannot."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    # Else a restart would have to wait for a minute until the system has forgotten the connections of before.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except (OSError, TypeError, ValueError) as error:
        listener.close()
        reason = error.strerror if isinstance(error, OSError) else error
        where = f"{settings.host}:{settings.port}"
        raise ConfigError(f"cannot listen on {where} ({reason}); choose another --port or --host") from None
    listener.listen(1_024)
    listener.setblocking(False)
    return listener
