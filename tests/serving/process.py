"""A service as a process of its own, started, killed and stopped by tests."""

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from tests.commands import Started
from tests.waiting import eventually
from zoosim.playground.service import find_learner

STARTING, STOPPING = 120.0, 20.0
"""Seconds that a start, which may compile, and a stop may take."""


class ServiceProcess:
    """`zoosim serve` in a folder, at a port that stays the same when it is started again."""

    def __init__(self, folder: Path, model: Path | None, store: str = "", **settings: object) -> None:
        self.folder = folder
        self._store = store or f"sqlite:{folder}"
        self._model = model
        self._settings = {f"ZOOSIM_SERVE_{name.upper()}": f"{value}" for name, value in settings.items()}
        self._settings["PYTHONUNBUFFERED"] = "1"
        self._port = 0
        self._output_file = folder.parent / f"{folder.name}.out"
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it answers requests."""
        words = ["serve", *self._place(), "--port", f"{self._port}"]
        words += [] if self._model is None else [str(self._model)]
        offset = len(self.output)
        with self._output_file.open("ab") as output:
            self._process = Started(*words, cwd=Path.cwd(), environment=self._settings, output=output)
        deadline = time.monotonic() + STARTING
        while True:
            written = self.output[offset:]
            match = re.search(r"serving on http://127\.0\.0\.1:(\d+)", written)
            if match:
                self._port = int(match[1])
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the service did not start: {written}")
            time.sleep(0.05)

    def _place(self) -> list[str]:
        """Return the words that say where everything lies."""
        return ["--store", self._store]

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> str:
        """What it has written so far, over all starts."""
        return _text_of(self._output_file)

    def learner(self) -> int:
        """Return the process id of its learner, 0 while there is none."""
        return find_learner(self._process.pid)

    def kill(self) -> None:
        """Kill it, so that it can do nothing more, and wait until it is gone."""
        self._process.kill()

    def kill_after(self, seconds: float) -> None:
        """Kill it after some time, while whoever asked goes on; `wait_until_killed` ends that."""
        self._killer = threading.Timer(seconds, self.kill)
        self._killer.start()

    def wait_until_killed(self) -> None:
        """Wait until it is gone after `kill_after`."""
        self._killer.join()

    def kill_learner(self) -> None:
        """Kill its learner alone."""
        learner = self.learner()
        if learner:
            os.kill(learner, signal.SIGKILL)

    def wait_for_learner(self) -> None:
        """Wait until decisions know all that is in the log."""
        with httpx2.Client(base_url=self.url, timeout=30.0) as client:
            assert client.get("/readyz").status_code == 200
            eventually(lambda: "zoosim_learner_lag_rows 0.0" in client.get("/metrics").text, STARTING)

    def stop(self) -> int:
        """Ask it to end; return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(STOPPING)

    def is_running(self) -> bool:
        return self._process.poll() is None


class LoopsProcess(ServiceProcess):
    """`zoosim serve` with the loops of a folder."""

    def _place(self) -> list[str]:
        return ["--loops", f"{self.folder}"]


def _text_of(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


@contextmanager
def serving(folder: Path, model: Path | None, store: str = "", **settings: object) -> Iterator[ServiceProcess]:
    """Run a service until the block ends."""
    service = ServiceProcess(folder, model, store, **settings)
    try:
        yield service
    finally:
        if service.is_running():
            service.kill()


@contextmanager
def serving_loops(folder: Path, **settings: object) -> Iterator[ServiceProcess]:
    """Run a service of several loops until the block ends."""
    service = LoopsProcess(folder, None, "", **settings)
    try:
        yield service
    finally:
        if service.is_running():
            service.kill()
