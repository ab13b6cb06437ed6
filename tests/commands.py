"""Run `zoosim` as a process, forked from one that has imported what commands need: a new one takes seconds to.

As a program: waits on a socket for requests, forks a child for each, and says how it ended. All else of a command is as
when a user starts it: arguments, environment, working directory, streams, signals, exit code, and workers of its own.
Tests of what happens before `zoosim` is imported start a new process instead, as `new_process` does.
"""

import gc
import io
import json
import math
import os
import re
import resource
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple

ROOT = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
"""The environment before any test changes it: compiled functions are kept in the cache that it names."""
LONGEST = 65_536
MODULES = (
    "zoosim.api.worlds",
    "zoosim.cli",
    "zoosim.off_policy.evaluate",
    "zoosim.report.page",
    "zoosim.serving.server",
    "zoosim.arena.backends.preloaded",  # the last, since it tells the garbage collector that all of this stays
)
"""What the process imports that commands are forked from."""

SECONDS_TO_CLOSE = 60.0
"""How long processes of a command may take to close its streams after its end; the machine may be busy."""


class Ended(NamedTuple):
    """How a command ended: exit code, standard output and error, processor seconds, and peak memory in bytes."""

    code: int
    out: str
    err: str
    seconds: float = 0.0
    memory: int = 0

    @property
    def line(self) -> str:
        """The one line that says what went wrong; notes may stand beside it."""
        assert "Traceback" not in self.err, self.err
        [line] = [line for line in self.err.splitlines() if line.startswith("zoosim: ")]
        return line

    @property
    def errors(self) -> list[str]:
        """The lines on standard error, but for progress, which a busy machine shows."""
        progress = re.compile(r"compiling |\S+: (judged|learned from) ")
        return [line for line in self.err.splitlines() if not progress.match(line)]


def run_zoosim(*words: str, cwd: Path, limits: Mapping[int, int] | None = None) -> Ended:
    """Run a command to its end.

    Args:
        words: The words after `zoosim`; or `script.py`, or `-m module`, and its words.
        cwd: The working directory.
        limits: Resource limits by their number in the module `resource`, in its units.
    """
    with Started(*words, cwd=cwd, limits=limits) as started:
        return started.end()


def new_process(line: Sequence[str], **options: Any) -> Ended:
    """Run a command line as a new process, as a user does; `options` go to `subprocess.run`."""
    done = subprocess.run(line, capture_output=True, text=True, **options)
    return Ended(done.returncode, done.stdout, done.stderr)


class Started:
    """A command that runs: it is killed at the end of the `with` block, or ends before."""

    def __init__(
        self,
        *words: str,
        cwd: Path,
        limits: Mapping[int, int] | None = None,
        environment: Mapping[str, str] | None = None,
        output: IO[bytes] | None = None,
    ) -> None:
        """Start a command; `environment` is set beside today's, and both streams go to `output` if that is given."""
        variables = {**os.environ, **(environment or {})}
        request = {"words": words, "cwd": str(cwd), "environment": variables, "limits": dict(limits or {})}
        self._server = _server()
        self._streams = [] if output else [_Stream(), _Stream()]
        files = [output.fileno()] * 2 if output else [stream.end_of_writer for stream in self._streams]
        self.pid: int = self._server.ask(request, *files)["pid"]
        for stream in self._streams:
            stream.start()
        self._ended: dict[str, Any] | None = None

    def __enter__(self) -> "Started":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        if self._ended is None:
            self._ended = self._server.ask({"poll": self.pid})
            self._ended = self._ended or None
        return None if self._ended is None else int(self._ended["code"])

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def wait(self, seconds: float = math.inf) -> int:
        """Return the exit code once it has ended; raises `AssertionError` when that takes too long."""
        deadline = time.monotonic() + seconds
        pause = 0.001
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"took more than {seconds:g} s")
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        return code

    def kill(self) -> None:
        """Kill it, if it runs, and wait until it is gone."""
        self.send_signal(signal.SIGKILL)
        while self.poll() is None:
            time.sleep(0.001)

    def end(self) -> Ended:
        """Wait for its end, and return how it ended."""
        code = self.wait()
        assert self._ended is not None
        out, err = [stream.text() for stream in self._streams] or ("", "")
        return Ended(code, out, err, self._ended["seconds"], self._ended["memory"])


class _Stream(threading.Thread):
    """A pipe that is read while a command writes into it, since limits of the size of files spare pipes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._reader, self.end_of_writer = os.pipe()
        self._content = b""

    def start(self) -> None:
        """Begin to read, once the command holds the other end."""
        os.close(self.end_of_writer)
        super().start()

    def run(self) -> None:
        with open(self._reader, "rb") as file:
            self._content = file.read()

    def text(self) -> str:
        """Return all that was written; raises `AssertionError` when a process that was left behind holds the pipe."""
        self.join(SECONDS_TO_CLOSE)
        assert not self.is_alive(), "a process was left behind"
        return self._content.decode("utf-8", "replace")


class _Server:
    """The process that forks: it ends with this one, whose end of the socket closes."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.commands", str(other.fileno())],
                cwd=ROOT,
                env=ENVIRONMENT,
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def ask(self, request: dict[str, Any], *files: int) -> dict[str, Any]:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], list(files))
            answer = self._socket.recv(LONGEST)
        assert answer, "the process that forks commands is gone"
        return dict(json.loads(answer))


@cache
def _server() -> _Server:
    return _Server()


def serve(connection: socket.socket) -> None:
    """Answer requests until the other end closes; returns in a child, which then runs a command."""
    while True:
        message, files, _, _ = socket.recv_fds(connection, LONGEST, 2)
        if not message:
            os._exit(0)
        request = json.loads(message)
        if "poll" in request:
            connection.send(json.dumps(_poll(request["poll"])).encode())
            continue
        child = os.fork()
        if not child:
            connection.close()
            _become(request, files)
            return
        for file in files:
            os.close(file)
        connection.send(json.dumps({"pid": child}).encode())


def _warm_up() -> None:
    """Do once what each command would do for itself: import policies, and read what pages are drawn with.

    Nothing here may start a thread, such as polars does: the children would wait for it in vain.
    """
    registry, drawing, rendering = map(
        import_module, ("zoosim.policies.registry", "zoosim.report.drawing", "zoosim.report.rendering")
    )
    for name in registry.BUILT_IN:
        registry.find_class(name)
    for name in rendering.environment().list_templates(extensions=["html"]):
        rendering.environment().get_template(name)
    figure = drawing.panels(["a policy"], ["a panel"], 1)
    figure.add_scatter(x=[0.0], y=[0.0])
    figure.to_json()
    gc.freeze()  # as after the imports


def _poll(process: int) -> dict[str, Any]:
    found, status, usage = os.wait4(process, os.WNOHANG)
    if not found:
        return {}
    seconds = usage.ru_utime + usage.ru_stime
    return {"code": os.waitstatus_to_exitcode(status), "seconds": seconds, "memory": 1024 * usage.ru_maxrss}


def _become(request: dict[str, Any], files: list[int]) -> None:
    """Make a child what a process that was started would be."""
    for stream, file in enumerate(files, 1):
        os.dup2(file, stream)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.environ["PYTHONPATH"] = str(ROOT)
    # Python until 3.13 keeps what it compiled even where a full disk has cut it, and then fails to read it.
    sys.dont_write_bytecode = bool(request["limits"]) or "PYTHONDONTWRITEBYTECODE" in os.environ
    os.chdir(request["cwd"])
    for number, limit in request["limits"].items():
        resource.setrlimit(int(number), (limit, limit))
    if "PYTHONUNBUFFERED" in os.environ and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(write_through=True)
    sys.path[0] = request["cwd"]
    sys.argv = list(request["words"])


def main() -> None:
    """Import, serve, and in each child run the command line as `python -m zoosim` does."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    for name in MODULES:
        import_module(name)
    _warm_up()
    serve(connection)
    if sys.argv[0].endswith(".py"):
        runpy.run_path(sys.argv[0], run_name="__main__")
    elif sys.argv[0] == "-m":
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = ["zoosim", *sys.argv]
        runpy.run_module("zoosim", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
