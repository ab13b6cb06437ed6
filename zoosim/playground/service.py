"""A service in simulated time, as a process that a playground starts, kills and starts again."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from zoosim.core.errors import DataError
from zoosim.playground.clock import SharedTime
from zoosim.playground.served import ServedJob

STARTING, STOPPING = 120.0, 20.0
"""Seconds that a start, which may compile, and a stop may take."""

LOOK = 0.05
"""Seconds between two looks at whether it has started."""


class ServiceProcess:
    """`zoosim serve` in simulated time; use it as a context, or `stop` it.

    Attributes:
        folder: Its log, its models, what it printed (`output.txt`) and the file of its time.
        time: Its time, which whoever plays visitors moves.
        url: Where it answers.
    """

    def __init__(self, folder: Path, model: Path | None, settings: Mapping[str, Any] | None = None) -> None:
        """Start it, and wait until it answers.

        Args:
            folder: Its folder, made where it is missing.
            model: The champion; None for that of the folder's log.
            settings: Settings of `zoosim serve`; it listens at a free port of this machine by default.

        Raises:
            DataError: it did not start.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.time = SharedTime(folder / "time")
        self._model = model
        self._settings = {"port": 0, **(settings or {}), "store": f"sqlite:{folder / 'service'}"}
        self._output = folder / "output.txt"
        self.url = ""
        self.start()

    @property
    def store(self) -> Path:
        """The folder of its log, as `zoosim evaluate` takes it."""
        return self.folder / "service"

    def start(self) -> None:
        """Start it, again at the same port, and wait until it answers; raises `DataError` where it does not."""
        job = ServedJob(str(self.time.path), None if self._model is None else str(self._model), self._settings)
        begin = self._output.stat().st_size if self._output.exists() else 0
        with self._output.open("ab") as output:
            command = [sys.executable, "-m", "zoosim.playground.served"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)
        assert self._process.stdin is not None
        # It stays open: the service ends with it, should this process be killed.
        self._process.stdin.write(msgspec.json.encode(job) + b"\n")
        self._process.stdin.flush()
        try:
            self.url = self._wait_for_address(begin)
        except BaseException:  # as that of Ctrl-C: nobody else would end it
            self.kill()
            raise
        self._settings["port"] = int(self.url.rpartition(":")[2])

    def _wait_for_address(self, begin: int) -> str:
        """Return where it answers, once its output says so behind a place of it; raises `DataError` where it ends."""
        deadline = time.monotonic() + STARTING
        while (address := self._address(begin)) is None:
            if not self.is_running or time.monotonic() > deadline:
                raise DataError(f"playground: the service did not start; {self._output} says why")
            time.sleep(LOOK)
        return address

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process.poll() is None

    def stop(self) -> int:
        """End it as Ctrl-C does, and return its exit code; its log holds all that it answered."""
        if self.is_running:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOPPING)
        except subprocess.TimeoutExpired:
            self._process.kill()
        return self._ended()

    def kill(self) -> None:
        """Kill it, so that it can do nothing more."""
        self._process.kill()
        self._ended()

    def kill_learner(self) -> bool:
        """Kill its learner alone, which the service starts again; return whether there was one (on Linux)."""
        learner = find_learner(self._process.pid)
        if not learner:
            return False
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(learner, signal.SIGKILL)
        return True

    def __enter__(self) -> "ServiceProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _ended(self) -> int:
        """Wait for its end, let go of its input, and return its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait()

    def _address(self, begin: int) -> str | None:
        """Return where it answers, as its output says behind a place of it; None until then."""
        match = re.search(rb"serving on (http://\S+:\d+)", self._output.read_bytes()[begin:])
        return match[1].decode() if match else None


def find_learner(service: int) -> int:
    """Return the process id of the learner of a service, 0 where none is seen.

    Args:
        service: The process id of the service.
    """
    # Children are listed by the thread that made them, and a thread other than the first starts a learner again.
    for children in Path(f"/proc/{service}/task").glob("*/children"):
        for child in _text_of(children).split():
            if "spawn_main" in _text_of(Path(f"/proc/{child}/cmdline")):
                return int(child)
    return 0


def _text_of(path: Path) -> str:
    """Return what a file of the system holds; empty where the process has ended meanwhile."""
    try:
        return path.read_text()
    except OSError:
        return ""
