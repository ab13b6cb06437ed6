"""Run a service: the HTTP server in this process, the learners in another, and both of them until told to stop."""

import asyncio
import contextlib
import functools
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Protocol

import uvicorn
import uvloop

from zoosim.core.errors import ConfigError
from zoosim.serving.access import Access
from zoosim.serving.console.sessions import Sessions
from zoosim.serving.direct_routes import DirectApplication
from zoosim.serving.log_lines import write_json_lines
from zoosim.serving.loops.application import LoopsApplication
from zoosim.serving.loops.folder import LoopsFolder
from zoosim.serving.loops.learners import DRAIN_SECONDS, LearnerProcess
from zoosim.serving.loops.loops import Loops
from zoosim.serving.loops.running import RunningLoop
from zoosim.serving.machine import Machine
from zoosim.serving.origins import OriginCheck
from zoosim.serving.protocol import BoundedProtocol, Connections, allow_connections
from zoosim.serving.service import Service
from zoosim.serving.settings import Settings

REACHED_BY = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""The address at which this process reaches a service that listens everywhere."""

SECONDS_PER_THREAD = 0.0005
"""For which one thread keeps the interpreter while others want it: requests keep it, and would keep the log waiting."""


def serve(
    settings: Settings, model_file: Path | None, announce: Callable[[str], None], machine: Machine | None = None
) -> None:
    """Serve a model, or the loops of a folder, until SIGTERM or Ctrl-C.

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
        with contextlib.ExitStack() as stack:
            if settings.loops:
                folder = LoopsFolder(Path(settings.loops))
                stack.enter_context(folder.locked())
                opened = functools.partial(_open_loops, settings, folder)
            else:
                opened = functools.partial(_open_service, settings, model_file, machine)
            uvloop.run(_serve(settings, opened, listener, announce))
    finally:
        listener.close()


class Served(DirectApplication, Protocol):
    """What a process serves: one loop, or several."""

    async def wait_until_learned(self) -> None:
        """Wait until it decides by what was learned before."""
        ...

    def knowledge(self) -> str:
        """Return in words what decides."""
        ...

    def end_streams(self) -> None:
        """End answers that would go on for ever."""
        ...

    async def close(self) -> None:
        """End with all that was taken in learned."""
        ...


Opened = Callable[[LearnerProcess, asyncio.Event], Awaitable[Served]]
"""Opens what a process serves; gets the process in which it learns, and the event that is set to stop."""


async def _open_service(
    settings: Settings, model_file: Path | None, machine: Machine | None, learners: LearnerProcess, _: asyncio.Event
) -> Served:
    return RunningLoop(Service(settings, model_file, asyncio.get_running_loop(), machine), learners)


async def _open_loops(
    settings: Settings, folder: LoopsFolder, learners: LearnerProcess, stopping: asyncio.Event
) -> Served:
    # Now, since opening a loop is not to be interrupted; one service is opened whole, or not at all.
    _stop_by_signals(stopping)
    sessions = Sessions(Access(settings.keys, settings.rate), time.monotonic)
    loops = Loops(folder, settings, learners, sessions)
    await loops.open(stopping)
    return LoopsApplication(loops, sessions, stopping)


def _stop_by_signals(stopping: asyncio.Event) -> None:
    """Set an event at SIGTERM, at Ctrl-C and where the terminal is closed; these do nothing else then."""
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as it is under nohup
        numbers.append(signal.SIGHUP)
    for number in numbers:
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)


async def _serve(settings: Settings, opened: Opened, listener: socket.socket, announce: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    learners = LearnerProcess(loop)
    stopping = asyncio.Event()
    served = await opened(learners, stopping)
    _stop_by_signals(stopping)
    sys.setswitchinterval(SECONDS_PER_THREAD)
    host, port = listener.getsockname()[:2]

    async def get_ready() -> None:
        # The learner loads and compiles for seconds, on a core that the first requests would want.
        await _first_of(served.wait_until_learned(), stopping.wait())
        await _ask_if_ready(host, port)
        gc.collect()
        gc.freeze()  # what was imported and compiled is never looked at again: no long pauses
        announce(f"serving on http://{host}:{port}, {served.knowledge()}")

    server = _Server(_configuration(settings, served), get_ready)
    stop = asyncio.create_task(_stop(server, served, stopping))
    try:
        await server.serve(sockets=[listener])
    finally:
        stop.cancel()
        await served.close()
        await loop.run_in_executor(None, learners.stop)


async def _first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Wait until one of several waits has ended."""
    # `asyncio.wait` takes tasks alone, and leaves those that are not done running, hence the end.
    tasks = [asyncio.create_task(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
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


async def _stop(server: uvicorn.Server, served: Served, stopping: asyncio.Event) -> None:
    await stopping.wait()
    served.end_streams()
    server.should_exit = True


def _configuration(settings: Settings, served: DirectApplication) -> uvicorn.Config:
    application = served if any(settings.keys.values()) else OriginCheck(served, settings.host, settings.hosts)
    connections = Connections(allow_connections(settings.most_connections))
    return uvicorn.Config(
        application,
        http=functools.partial(BoundedProtocol, connections, application),  # type: ignore[arg-type]
        ws="none",  # else whoever asks for a WebSocket gets a connection without bounds where a library for it is there
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
