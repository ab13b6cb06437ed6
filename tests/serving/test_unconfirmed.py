"""Between two messages of the learner, each decision knows of those before it; what was learned stays the learner's."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.serving.shop import PRODUCTS, make_model, running
from zoosim.policies.kernel import KernelPolicy
from zoosim.policies.products.adaptive import Adaptive
from zoosim.serving.bodies import DecideBody, FeedbackBody
from zoosim.serving.folder import load_served_model
from zoosim.serving.publishing import News, Publisher
from zoosim.serving.replica import Replica
from zoosim.serving.service import Service
from zoosim.serving.store.address import Address, open_store


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


class Learner:
    """A learner in the test's own process, which reads and tells when it is told to."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._store = open_store(Address(service.folder), read_only=True)
        self.replica = Replica(lambda digest: load_served_model(service.folder, digest), self._store.rows)
        self._publisher = Publisher()

    def tell(self, until: int = 1_000_000) -> None:
        """Read the log up to a row, and tell what is new."""
        before = self.replica.position
        for row in self._store.read(before, until - before):
            self.replica.apply(row)
        start = self.replica.start
        assert start is not None
        news = News(before, self.replica.position, start.origin)
        self._service.current.take(self._publisher.message(self.replica.champion.model.policy, news))


def state_of(policy: Any) -> dict[str, bytes]:
    assert isinstance(policy, KernelPolicy)
    return {name: array.tobytes() for name, array in policy.state_dict().items()}


def clocks_of(policy: Any) -> dict[str, np.ndarray]:
    return {name: policy.learned_in_use()[name] for name in policy.clocks}


def with_learner(folder: Path, model: Path, use: Callable[[Service, Learner], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running(folder, model, exploration=0.0) as service:
            await use(service, Learner(service))

    asyncio.run(run())


def test_what_is_overdue_is_not_shown_to_everybody_until_the_learner_tells(tmp_path: Path, model: Path) -> None:
    """p1 earned every second time, p0 and p2 were not seen for long: each is tried once, and not by all who come."""

    async def use(service: Service, learner: Learner) -> None:
        for number in range(700):
            answer = await service.decide(DecideBody(candidates=["p1"] if number > 20 else ["p0", "p1", "p2"]))
            reward = float(answer.shown[0].product == "p1" and number % 2)
            await service.give_feedback(answer.decision_id, FeedbackBody({"click": reward}))
        await service.tick()
        learner.tell()
        everything = DecideBody(candidates=["p0", "p1", "p2"])
        shown = Counter([(await service.decide(everything)).shown[0].product for _ in range(60)])
        assert shown["p1"] > 40, shown

    with_learner(tmp_path, model, use)


def test_the_state_is_the_learners_but_for_clocks_of_decisions_that_it_has_not_read(
    tmp_path: Path, model: Path
) -> None:
    async def use(service: Service, learner: Learner) -> None:
        rng = np.random.default_rng(0)
        policy = service.model.policy
        told = 0
        for number in range(120):
            candidates = rng.choice(PRODUCTS, 4, replace=False).tolist()
            body = DecideBody({"country": ["de", "fr"][number % 2]}, candidates, count=2)
            answer = await service.decide(body)
            if number % 3 == 0:
                await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
            if number % 10 == 9:
                newest = service._reader.last()
                assert newest is not None
                learner.tell(until=newest.seq - 4)
                told += 1
                assert state_of(policy) != state_of(learner.replica.champion.model.policy)
        await service.tick()
        learner.tell()
        assert state_of(policy) == state_of(learner.replica.champion.model.policy)

    with_learner(tmp_path, model, use)


def test_clocks_that_decisions_come_to_depend_on_are_moved_by_those_before(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decisions move clocks only while these are read; the learner's message may change whether they are."""

    async def use(service: Service, learner: Learner) -> None:
        await service.decide(DecideBody())
        learner.tell()
        policy = service.model.policy
        before = {name: array.tolist() for name, array in clocks_of(policy).items()}
        monkeypatch.setattr(Adaptive, "goes_by_clocks", False)
        for _ in range(20):
            await service.decide(DecideBody())
        assert {name: array.tolist() for name, array in clocks_of(policy).items()} == before
        newest = service._reader.last()
        assert newest is not None
        monkeypatch.setattr(Adaptive, "goes_by_clocks", True)
        learner.tell(until=newest.seq - 5)
        now = {name: array.tolist() for name, array in clocks_of(policy).items()}
        learner.tell()
        assert now == {name: array.tolist() for name, array in clocks_of(policy).items()}

    with_learner(tmp_path, model, use)


def test_clocks_move_at_once_as_they_will(tmp_path: Path, model: Path) -> None:
    async def use(service: Service, learner: Learner) -> None:
        for _ in range(20):
            await service.decide(DecideBody())
        learner.tell()
        policy = service.model.policy
        for _ in range(20):
            await service.decide(DecideBody())
        arrays = {name: array.tolist() for name, array in clocks_of(policy).items()}
        learner.tell()
        assert arrays == {name: array.tolist() for name, array in clocks_of(policy).items()}
        assert set(arrays) == set(policy.clocks)

    with_learner(tmp_path, model, use)
