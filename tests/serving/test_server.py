"""What runs beside the requests of a service goes on when it fails once."""

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.serving.process import serving
from tests.serving.shop import make_model, running
from zoosim.core.errors import DataError, StoreError
from zoosim.serving.bodies import DecideBody
from zoosim.serving.loops import running as running_loops
from zoosim.serving.loops.learners import LearnerProcess
from zoosim.serving.service import Service
from zoosim.serving.settings import Settings


class Failing:
    """What a service does again and again, which fails in several ways at first."""

    settings = Settings(tick=0.01)

    def __init__(self, failures: list[Exception]) -> None:
        self._failures = failures
        self.has_succeeded = asyncio.Event()

    async def clean(self) -> None:
        if self._failures:
            raise self._failures.pop(0)
        self.has_succeeded.set()

    tick = clean


async def run_until_success(repeat: Callable[[Any], Coroutine[Any, Any, None]], failures: list[Exception]) -> None:
    """Let a service repeat what fails until it succeeds."""
    failing = Failing(failures)
    job = asyncio.create_task(repeat(failing))
    await asyncio.wait_for(failing.has_succeeded.wait(), 10.0)
    job.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await job


def test_cleaning_goes_on_after_it_failed(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(running_loops, "SECONDS_BETWEEN_CLEANINGS", 0.001)
    failures = [OSError(28, "No space left on device"), StoreError("the log is gone"), PermissionError("models")]
    with caplog.at_level(logging.WARNING, logger="zoosim.serving"):
        asyncio.run(run_until_success(running_loops.clean, failures))
    said = [record.getMessage() for record in caplog.records]
    assert [line.split(": ")[0] for line in said] == ["old rows stay for now"] * 3
    assert "No space left on device" in said[0]


@pytest.mark.parametrize("first", [DataError("the model is broken"), OSError(28, "No space left"), KeyError("a fault")])
def test_ticks_go_on_after_one_failed(first: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """What failed is said once a minute, a fault of ours with its traceback."""
    with caplog.at_level(logging.WARNING, logger="zoosim.serving"):
        asyncio.run(run_until_success(running_loops.tick, [first, StoreError("gone")]))
    (line,) = caplog.records
    assert line.getMessage().startswith("the log is not brought up to date for now: ")
    assert bool(line.exc_info) == isinstance(first, KeyError)


def test_a_learner_is_started_again_when_its_start_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start = SpawnProcess.start

    def fail(process: SpawnProcess) -> None:
        monkeypatch.setattr(SpawnProcess, "start", start)
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    async def run() -> None:
        async with running(tmp_path, make_model(tmp_path)) as service:
            learners = LearnerProcess(asyncio.get_running_loop())
            learners.learn(service)
            await learned_all(service)
            monkeypatch.setattr(SpawnProcess, "start", fail)
            assert learners._process.pid is not None
            os.kill(learners._process.pid, signal.SIGKILL)
            await learned_all(service)
            await asyncio.get_running_loop().run_in_executor(None, learners.stop)

    asyncio.run(run())
    assert "the learner cannot be started: [Errno 11] Resource temporarily unavailable" in caplog.text


async def learned_all(service: Service) -> None:
    """Wait until decisions know all that is in the log now."""
    await service.decide(DecideBody())
    await service.tick()
    async with asyncio.timeout(60.0):
        while service.lag():
            await asyncio.sleep(0.05)


def test_a_service_without_a_key_answers_this_machine_alone_and_bounds_connections(tmp_path: Path) -> None:
    """Its secret and log are nobody else's; ten connections may be open, five of one address."""
    with serving(tmp_path / "service", make_model(tmp_path), most_connections=10) as process:
        body = {"candidates": ["p1", "p2"]}
        with httpx2.Client(base_url=process.url) as client:
            assert client.post("/v1/decisions", json=body).status_code == 200
            for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
                answer = client.post("/v1/decisions", json=body, headers=headers)
                assert answer.status_code == 403
                assert "evil.example" in answer.json()["error"]
        host, port = process.url.removeprefix("http://").split(":")
        with contextlib.ExitStack() as opened:
            for _ in range(5):
                opened.enter_context(socket.create_connection((host, int(port))))
            with pytest.raises(httpx2.HTTPError):
                httpx2.get(f"{process.url}/livez")
        deadline = time.monotonic() + 10.0
        while True:
            with contextlib.suppress(httpx2.HTTPError):
                assert httpx2.get(f"{process.url}/livez").status_code == 200
                break
            assert time.monotonic() < deadline
            time.sleep(0.05)
        others = [path for path in (tmp_path / "service").rglob("*") if path.stat().st_mode & 0o077]
        assert others == []
    assert "refused a request" in process.output
    assert "closed a new connection" in process.output
