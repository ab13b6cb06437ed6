"""What a service decides by is what its log says, also of rows that are removed before it has read them."""

import asyncio
from pathlib import Path

import pytest

from tests.serving.mock_time import MockTime
from tests.serving.shop import make_model, running
from tests.serving.test_learner import Listener
from tests.serving.test_service import visit
from zoosim.core.errors import StoreError
from zoosim.serving.bodies import DecideBody, DeploymentBody, ProductBody
from zoosim.serving.current import Current
from zoosim.serving.learner import LearnerJob, LogLearner
from zoosim.serving.machine import Machine
from zoosim.serving.service import Service


def write_snapshot(service: Service) -> None:
    learner = LogLearner(LearnerJob(service.address, 60.0), Listener(), Machine())
    learner.begin()
    learner.end()
    learner.close()


def follower(service: Service) -> Current:
    """Return what another service of the log decides by."""
    return Current(service.address, service.settings, service._store, service._reader, service.clock)


def test_what_was_removed_before_it_was_read_is_known_from_a_snapshot(tmp_path: Path) -> None:
    """As by a service that was paused while its log was deleted."""
    model = make_model(tmp_path)
    time = MockTime()

    async def use() -> None:
        async with running(tmp_path / "service", model, clock=time.clock(), wait=1.0) as service:
            behind = follower(service)
            await service.decide(DecideBody({"country": "de"}, [{"id": "q1", "category": "c1"}, "p1"]))
            await service.change_product("p2", ProductBody(available=False))
            await service.deploy(DeploymentBody("launch", "new", service.keep_model(model), 0.3))
            for number in range(2):
                await visit(service, number)
                time.pass_by(10.0)
                await service.tick()
                write_snapshot(service)
            await service.upkeep.delete_log()
            assert service._reader.read(0, 1)[0].seq > service.start.number
            await behind.catch_up()
            assert behind.start == service.start
            assert behind.assignment.shares == service.current.assignment.shares
            for name, arm in service.current.arms.items():
                assert behind.arms[name].catalogue.state()[0] == arm.catalogue.state()[0]
            assert not behind.catalogue.may_be_shown("p2")

    asyncio.run(use())


def test_rows_that_no_snapshot_holds_are_waited_for(tmp_path: Path) -> None:
    """Rather than passed over: a product that may not be shown would be."""
    model = make_model(tmp_path)

    async def use() -> None:
        async with running(tmp_path / "service", model) as service:
            behind = follower(service)
            await service.change_product("p2", ProductBody(available=False))
            await visit(service, 1)
            newest = service._reader.last()
            assert newest is not None
            assert service._store.remove_before(newest.time + 1, 1_000)
            with pytest.raises(StoreError, match="were removed before this service has read them"):
                await behind.catch_up()

    asyncio.run(use())


def test_models_that_a_start_looked_at_and_did_not_take_are_not_kept_in_memory(tmp_path: Path) -> None:
    """As where another service of the log went on faster, by other models."""
    model = make_model(tmp_path)
    rival = make_model(tmp_path / "rival", countries=("de",))

    async def use() -> None:
        async with running(tmp_path / "service", model) as service:
            current = service.current
            digest = service.keep_model(rival)
            current.model_to_look_at(digest)
            assert current.models.are_prepared([digest])
            current.begin(lambda: current.start)
            assert not current.models.are_prepared([digest])

    asyncio.run(use())
