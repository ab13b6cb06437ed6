"""What runs beside the requests of a service goes on when it fails once."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

import pytest

from zoosim.core.errors import StoreError
from zoosim.serving import server


class Cleaned:
    """A service whose cleaning fails in several ways, one after the other."""

    def __init__(self, failures: list[Exception], done: Callable[[], None]) -> None:
        self._failures = failures
        self._done = done

    async def clean(self) -> int:
        if self._failures:
            raise self._failures.pop(0)
        self._done()
        return 0


def test_cleaning_goes_on_after_it_failed(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(server, "SECONDS_BETWEEN_CLEANINGS", 0.001)
    failures = [OSError(28, "No space left on device"), StoreError("the log is gone"), PermissionError("models")]

    async def run() -> None:
        done = asyncio.Event()
        job = asyncio.create_task(server._clean(Cleaned(failures, done.set)))  # type: ignore[arg-type]
        await asyncio.wait_for(done.wait(), 10.0)
        job.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await job

    with caplog.at_level(logging.WARNING, logger="zoosim.serving"):
        asyncio.run(run())
    said = [record.getMessage() for record in caplog.records]
    assert [line.split(": ")[0] for line in said] == ["old rows stay for now"] * 3
    assert "No space left on device" in said[0]
