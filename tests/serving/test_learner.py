"""The learner by itself: what it tells, and when."""

import asyncio
from pathlib import Path

import pytest

import zoosim
from tests.serving.mock_time import MockTime
from tests.serving.shop import make_model, running
from tests.serving.test_service import visit
from zoosim.core.errors import DataError
from zoosim.policies.products.constrained import ConstrainedProducts
from zoosim.serving import learner
from zoosim.serving.bodies import DecideBody, DeploymentBody
from zoosim.serving.events import decision_key
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
            started = LogLearner(LearnerJob(service.address, 60.0), listener, Machine())
            started.begin()
            started.step()
            newest = service._reader.last()
            assert newest is not None
            assert listener.positions == [newest.seq]

    asyncio.run(use())


@pytest.mark.parametrize(("taken", "pause"), [(0.0, 0.1), (0.004, 0.4), (0.5, 1.0)])
def test_the_next_message_comes_the_later_the_longer_the_last_one_took(
    tmp_path: Path, taken: float, pause: float
) -> None:
    """A hundred times what it took, .1 s at least and 1 s at most."""
    time = MockTime()

    class SlowListener(Listener):
        def send(self, content: bytes) -> None:
            super().send(content)
            time.pass_by(taken)

    async def use() -> None:
        async with running(tmp_path / "service", make_model(tmp_path)) as service:
            listener = SlowListener()
            started = LogLearner(LearnerJob(service.address, 60.0), listener, Machine(clock=time.clock()))
            started.begin()
            started.step()
            await visit(service, 0)
            time.pass_by(pause - 0.001)
            started.step()
            assert len(listener.positions) == 1
            time.pass_by(0.002)
            started.step()
            assert len(listener.positions) == 2

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
            job = LearnerJob(service.address, 60.0)
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


def test_a_decision_that_is_open_in_a_snapshot_stays_though_the_log_be_deleted(tmp_path: Path) -> None:
    """Who begins with that snapshot reads it again when it closes."""
    model = make_model(tmp_path)
    time = MockTime()

    async def use() -> None:
        async with running(tmp_path / "service", model, clock=time.clock(), wait=30.0) as service:
            await visit(service, 1)
            time.pass_by(60.0)
            await service.tick()
            await service.decide(DecideBody(decision_id="open"))
            time.pass_by(10.0)
            for number in range(2):
                await service.decide(DecideBody(decision_id=f"{number}"))
                started = LogLearner(LearnerJob(service.address, 60.0), Listener(), Machine())
                started.begin()
                started.end()
            time.pass_by(100.0)
            await service.upkeep.delete_log()
            first = service._reader.read(0, 1)[0]
            assert first.seq > 1
            assert service._reader.find(decision_key("open")) is not None
            again = LogLearner(LearnerJob(service.address, 60.0), Listener(), Machine())
            await service.tick()
            again.begin()
            assert again._replica.champion.counts["gone"] == 0

    asyncio.run(use())


def test_a_learner_that_is_behind_what_was_removed_begins_anew(tmp_path: Path) -> None:
    """Other learners have learned of those decisions, and their snapshots are shared."""
    model = make_model(tmp_path)
    time = MockTime()

    async def use() -> None:
        async with running(tmp_path / "service", model, clock=time.clock(), wait=30.0) as service:
            await service.decide(DecideBody(decision_id="open"))
            time.pass_by(20.0)
            await service.decide(DecideBody(decision_id="later"))
            behind = LogLearner(LearnerJob(service.address, 60.0), Listener(), Machine())
            behind.begin()
            newest = service._reader.last()
            assert newest is not None
            time.pass_by(20.0)
            await service.tick()
            assert service._store.remove_before(newest.time, 1_000)
            with pytest.raises(DataError, match="decisions were removed before they were learned"):
                behind.catch_up()

    asyncio.run(use())


def test_floors_are_told_the_rewards_by_name(tmp_path: Path) -> None:
    make_model(tmp_path)
    floors = {"constrained": {"floors": {"click": 0.9}}}
    zoosim.train(tmp_path / "log.parquet", ["constrained"], tmp_path / "floored.zoosim", parameters=floors)

    async def use() -> None:
        async with running(tmp_path / "service", tmp_path / "floored.zoosim") as service:
            for number in range(21):
                await visit(service, number)
            started = LogLearner(LearnerJob(service.address, 60.0), Listener(), Machine())
            started.begin()
            started.step()
            policy = started._replica.champion.model.policy
            assert isinstance(policy, ConstrainedProducts)
            assert policy._dual.visits > 0
            assert policy.prices["click"] > 0.0

    asyncio.run(use())
