"""Loops that learn in one process: what fails in one is no concern of the others, and all begin again with it."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.serving.shop import make_model, running
from tests.serving.test_server import learned_all
from zoosim.serving.bodies import DecideBody
from zoosim.serving.loops.learners import LearnerProcess
from zoosim.serving.service import Service
from zoosim.serving.store.base import Store
from zoosim.serving.store.sqlite import SqliteStore


def test_a_learner_that_cannot_go_on_and_one_process_that_is_killed_stop_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = make_model(tmp_path)

    def damage(store: Store) -> None:
        assert isinstance(store, SqliteStore)
        store._rows("UPDATE log SET body = x'00' WHERE seq = (SELECT max(seq) FROM log)")

    async def break_row(service: Service) -> None:
        """Damage a row of the log before a learner reads it."""
        await service.decide(DecideBody())
        await service._writer.run(damage)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with running(tmp_path / "well", model) as well, running(tmp_path / "ill", model) as ill:
            learners = LearnerProcess(loop)
            await break_row(ill)
            first = learners.learn(ill)
            second = learners.learn(well)
            await asyncio.wait_for(first.has_reported.wait(), 60.0)
            await learned_all(well)
            process = learners._process.pid
            assert process is not None
            os.kill(process, signal.SIGKILL)
            await learned_all(well)
            assert learners._process.pid != process
            # One that is stopped writes a snapshot and starts no more, while the process goes on.
            await loop.run_in_executor(None, second.stop)
            assert list((tmp_path / "well" / "snapshots").glob("state-*"))
            assert learners._process.is_alive()
            await loop.run_in_executor(None, learners.stop)
            assert not learners._process.is_alive()

    with caplog.at_level("WARNING", logger="zoosim.serving"):
        asyncio.run(run())
    assert "the learner cannot go on; it starts again" in caplog.text
    assert "the learner ended with code -9; it starts again" in caplog.text


def test_what_never_learned_starts_no_process(tmp_path: Path) -> None:
    async def run() -> None:
        learners = LearnerProcess(asyncio.get_running_loop())
        learners.stop()
        assert not hasattr(learners, "_process")

    asyncio.run(run())
