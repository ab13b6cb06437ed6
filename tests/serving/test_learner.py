"""The learner by itself: what it tells, and when."""

import asyncio
from pathlib import Path

import pytest

from tests.serving.shop import make_model, running
from tests.serving.test_service import visit
from zoosim.serving import learner
from zoosim.serving.bodies import DeploymentBody
from zoosim.serving.learner import LearnerJob, LogLearner
from zoosim.serving.machine import Machine
from zoosim.serving.publishing import decode


class Listener:
    """Whom a learner works for, who keeps what it is told."""

    wants_whole = False

    def __init__(self) -> None:
        self.positions: list[int] = []

    def send(self, content: bytes) -> None:
        self.positions.append(decode(content).news.position)

    def wants_stop(self) -> bool:
        return False

    def wait(self, seconds: float) -> None: ...


def test_a_learner_that_starts_again_tells_of_no_state_before_the_end_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who decides may have that from the learner before, and would go back to an earlier one."""
    monkeypatch.setattr(learner, "ROWS_AT_ONCE", 4)

    async def use() -> None:
        async with running(tmp_path / "service", make_model(tmp_path)) as service:
            for number in range(10):
                await visit(service, number)
            listener = Listener()
            started = LogLearner(LearnerJob(service.address, 60.0, 0), listener, Machine())
            started.begin()
            started.step()
            newest = service._reader.last()
            assert newest is not None
            assert listener.positions == [newest.seq]

    asyncio.run(use())


def test_a_launch_older_than_the_log_is_watched_after_a_restart(tmp_path: Path) -> None:
    """What it earned so far is lost, but its guardrails are not."""
    model = make_model(tmp_path)

    async def use() -> None:
        async with running(tmp_path / "service", model) as service:
            digest = service.keep_model(model)
            await service.deploy(DeploymentBody("launch", "new", digest, plan={"holdback": 0.0}))
            for number in range(4):
                await visit(service, number)
            job = LearnerJob(service.address, 60.0, 0)
            before = LogLearner(job, Listener(), Machine())
            before.begin()
            before.end()
            newest = service._reader.last()
            assert newest is not None
            assert service._store.remove_before(newest.time + 1, 1_000)
            after = LogLearner(job, Listener(), Machine())
            after.begin()
            report = after._monitor.report()
            assert report is not None
            assert report.number == service.start.number

    asyncio.run(use())
