"""The learner by itself: what it tells, and when."""

import asyncio
from pathlib import Path

import pytest

from tests.serving.shop import make_model, running
from tests.serving.test_service import visit
from zoosim.serving import learner
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
