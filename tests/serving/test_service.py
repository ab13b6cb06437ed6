"""A service without HTTP: decisions, feedback, products, and what its log says of them."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.serving.shop import PRODUCTS, full_disk, make_model, with_service
from tests.serving.state_digest import state_digest
from zoosim.core.errors import ConfigError, PolicyError, StoreError
from zoosim.policies.model import load_model
from zoosim.serving.bodies import DecideBody, FeedbackBody, ProductBody, SlotBody
from zoosim.serving.events import Kind
from zoosim.serving.folder import load_served_model
from zoosim.serving.join import BEYOND_BOUND
from zoosim.serving.refusals import Conflict, NotFound
from zoosim.serving.replica import Replica
from zoosim.serving.service import Service
from zoosim.serving.snapshots import newest_replica, write_snapshot
from zoosim.serving.store.address import Address, open_store


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


def replayed(folder: Path, stop: int | None = None, address: Address | None = None) -> Replica:
    """Return what the log of a folder, or at an address, comes to, read from its first row."""
    store = open_store(address or Address(folder), read_only=True)
    replica = Replica(lambda digest: load_served_model(folder, digest), store.rows)
    for row in store.read(0, stop or 1_000_000):
        replica.apply(row)
    return replica


def check_resumed(folder: Path, middle: Replica, whole: Replica) -> None:
    """Check that a snapshot of what the log came to in its middle leads to the whole."""
    (folder / "snapshots").mkdir(exist_ok=True)
    write_snapshot(folder / "snapshots", middle)
    store = open_store(Address(folder), read_only=True)
    resumed = newest_replica(
        folder / "snapshots", lambda digest: load_served_model(folder, digest), store.rows, pytest.fail
    )
    assert resumed.position == middle.position
    for row in store.read(resumed.position, 1_000_000):
        resumed.apply(row)
    assert state_digest(resumed) == state_digest(whole)


async def visit(service: Service, number: int, visitor_id: str = "") -> None:
    rng = np.random.default_rng(number)
    body = DecideBody(visitor={"country": "de"}, candidates=rng.choice(PRODUCTS, 4, replace=False).tolist())
    body.visitor_id = visitor_id
    answer = await service.decide(body)
    if rng.random() < 0.5:
        await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
    if number % 5 == 0:
        await service.tick()


def test_the_same_request_gets_the_same_answer_and_another_one_is_refused(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        body = DecideBody(visitor={"country": "fr"}, decision_id="visit 1", count=3)
        both = await asyncio.gather(service.decide(body), service.decide(body))
        assert both[0] == both[1] == await service.decide(body)
        assert sum(both[0].propensities.values()) == pytest.approx(1.0, abs=1e-12)
        with pytest.raises(Conflict, match="visit 1"):
            await service.decide(DecideBody(visitor={"country": "it"}, decision_id="visit 1", count=3))
        assert service._reader.last().seq == 2  # type: ignore[union-attr]

    with_service(tmp_path, model, use)


def test_what_is_drawn_has_the_logged_probabilities(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        answers = [await service.decide(DecideBody(candidates=list(PRODUCTS[:3]))) for _ in range(3_000)]
        expected = answers[0].propensities
        counts = {name: sum(answer.shown[0].product == name for answer in answers) for name in expected}
        chi_square = sum((counts[name] - 3_000 * p) ** 2 / (3_000 * p) for name, p in expected.items())
        assert chi_square < 13.8  # p = .001 at 2 degrees of freedom

    with_service(tmp_path, model, use, exploration=0.3)


def test_the_state_follows_from_the_log_and_from_a_snapshot_of_its_middle(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        for number in range(60):
            await visit(service, number)
            await visit(service, 100 + number, visitor_id="everybody's")
        await service.change_product("new", ProductBody(features={"category": "c1"}))
        await service.decide(DecideBody(candidates=["new", "p1"]))
        await asyncio.sleep(1.1)
        await service.tick()

    with_service(tmp_path, model, use)
    whole = replayed(tmp_path)
    assert whole.champion.counts["learned"] == 61 + whole.champion.rules.per_visitor
    assert whole.champion.join.counts[BEYOND_BOUND] == 60 - whole.champion.rules.per_visitor
    middle = replayed(tmp_path, stop=whole.position // 2)
    check_resumed(tmp_path, middle, whole)
    assert state_digest(middle) != state_digest(whole)


@pytest.mark.parametrize(("policy", "learned"), [("q-table", 0), ("linucb", 5)])
def test_a_policy_that_looks_ahead_stays_as_it_was_trained(tmp_path: Path, policy: str, learned: int) -> None:
    """A service does not tell it what followed, and each decision would be a visitor's last one."""

    async def use(service: Service) -> None:
        for _ in range(5):
            answer = await service.decide(DecideBody({"country": "de"}))
            await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
        await asyncio.sleep(0.3)
        await service.tick()

    with_service(tmp_path, make_model(tmp_path, policy=policy), use, wait=0.2)
    assert replayed(tmp_path).champion.counts["learned"] == learned


def test_feedback_sent_again_counts_once(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        answer = await service.decide(DecideBody())
        body = FeedbackBody({"click": 1.0}, feedback_id="f1")
        statuses = [(await service.give_feedback(answer.decision_id, body)).status for _ in range(3)]
        assert statuses == ["accepted", "duplicate", "duplicate"]
        with pytest.raises(Conflict, match="feedback 'f1': is the id of other feedback"):
            await service.give_feedback(answer.decision_id, FeedbackBody({"click": 0.0}, feedback_id="f1"))
        await asyncio.sleep(0.3)
        late = await service.give_feedback(answer.decision_id, FeedbackBody({"click": 0.5}))
        assert late.status == "late"
        with pytest.raises(NotFound, match="is not in the log"):
            await service.give_feedback("nobody", body)
        with pytest.raises(PolicyError, match="clicks"):
            await service.give_feedback(answer.decision_id, FeedbackBody({"clicks": 1.0}))
        with pytest.raises(PolicyError, match="expected 0 to 1"):
            await service.give_feedback(answer.decision_id, FeedbackBody({"click": 2.0}))

    with_service(tmp_path, model, use, wait=0.2)


def test_products_come_go_and_return(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        assert (await service.decide(DecideBody(candidates=["p1", "q1"]))).ignored == ["q1"]
        await service.decide(DecideBody(candidates=[{"id": "q1", "category": "c2"}, "p1"]))
        await service.decide(DecideBody(candidates=["p1", "q1"]))
        await service.change_product("p1", ProductBody(available=False))
        assert (await service.decide(DecideBody(candidates=["p1", "q1"]))).ignored == ["p1"]
        assert "p1" not in (await service.decide(DecideBody())).propensities
        await service.change_product("p1", ProductBody(available=True))
        assert "p1" in (await service.decide(DecideBody())).propensities

    with_service(tmp_path, model, use)
    with_service(tmp_path, None, use_again)


async def use_again(service: Service) -> None:
    """The products are those that the log left."""
    assert set((await service.decide(DecideBody())).propensities) == {*PRODUCTS, "q1"}


def test_products_that_could_not_be_stored_are_unknown(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        new = DecideBody(candidates=[{"id": "q1", "category": "c2"}, "p1"])
        with full_disk(service):
            outcomes = await asyncio.gather(*(service.decide(new) for _ in range(3)), return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [StoreError] * 3
            assert service.failure == "disk full"
            with pytest.raises(StoreError, match="disk full"):
                await service.decide(DecideBody())
        await service.tick()
        with pytest.raises(PolicyError, match="'q1'"):
            await service.decide(DecideBody(candidates=["q1"]))
        assert (await service.decide(DecideBody(candidates=["q1", "p1"]))).ignored == ["q1"]
        assert set((await service.decide(new)).propensities) == {"q1", "p1"}
        assert not service.failure

    with_service(tmp_path, model, use)
    assert replayed(tmp_path).champion.catalogue.state()[0] == replayed(tmp_path).champion.catalogue.state()[0]
    assert replayed(tmp_path).champion.catalogue.names() == [*PRODUCTS, "q1"]


@pytest.mark.parametrize(
    ("change", "slots", "reason"),
    [
        ({"count": 3}, [], "count: got 3"),
        ({}, [["q1", "p1"]], "without a candidate"),
        ({}, [["q1"], ["q1"]], "without a candidate"),
    ],
)
def test_a_request_that_is_refused_leaves_no_product(
    tmp_path: Path, model: Path, change: dict[str, Any], slots: list[list[str]], reason: str
) -> None:
    async def use(service: Service) -> None:
        body = DecideBody(candidates=[{"id": "q1", "category": "c2"}, "p1"], **change)
        to_fill = [SlotBody(f"slot {number}", {}, "p1", excluded) for number, excluded in enumerate(slots)]
        with pytest.raises(PolicyError, match=reason):
            await service.decide(body, slots=to_fill)
        assert service.catalogue.names() == PRODUCTS
        assert service._reader.last().seq == 1  # type: ignore[union-attr]

    with_service(tmp_path, model, use)


def test_a_decision_that_could_not_be_synced_is_not_answered_from_the_log(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where decisions, too, are on the disk before they are answered."""

    async def use(service: Service) -> None:
        sync = service._store.sync

        def fail() -> None:
            raise StoreError("disk broken")

        monkeypatch.setattr(service._store, "sync", fail)
        for _ in range(2):
            with pytest.raises(StoreError, match="disk broken"):
                await service.decide(DecideBody(decision_id="one"))
        monkeypatch.setattr(service._store, "sync", sync)
        assert (await service.decide(DecideBody(decision_id="one"))).decision_id == "one"

    with_service(tmp_path, model, use, sync="all")


def test_products_that_several_requests_bring_at_once_are_stored_once(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        new: list[Any] = [{"id": "q1", "category": "c2"}, {"id": "q2", "category": "c1"}, "p1"]
        await asyncio.gather(*(service.decide(DecideBody(candidates=new)) for _ in range(10)))
        others: list[Any] = [{"id": "q1", "category": f"c{number % 3}"} for number in range(10)]
        answers = await asyncio.gather(*(service.decide(DecideBody(candidates=[each, "p1"])) for each in others))
        assert all(set(answer.propensities) == {"q1", "p1"} for answer in answers)

    with_service(tmp_path, model, use)
    kinds = [row.kind for row in open_store(Address(tmp_path), read_only=True).read(0, 100)]
    assert kinds[:3] == [Kind.START, Kind.PRODUCT, Kind.PRODUCT]
    assert kinds.count(Kind.DECISION) == 20
    assert kinds.count(Kind.PRODUCT) <= 2 + 10


def test_two_services_cannot_share_a_folder(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        with pytest.raises(ConfigError, match="another service"):
            Service(service.settings, model, asyncio.get_running_loop())

    with_service(tmp_path, model, use)


def test_apprentices_show_the_first_candidate_for_sure(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        answer = await service.decide(DecideBody(candidates=["p3", "p1", "p2"], count=2))
        assert [(shown.product, shown.propensity) for shown in answer.shown] == [("p3", 1.0), ("p1", 1.0)]
        assert answer.propensities == {"p3": 1.0, "p1": 0.0, "p2": 0.0}

    with_service(tmp_path, model, use, mode="apprentice")


def test_a_logged_distribution_is_that_of_the_state_that_the_row_names(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        answer = await service.decide(DecideBody(visitor={"country": "it"}, candidates=list(PRODUCTS)))
        expected = load_model(model).propensities({"country": "it"}, PRODUCTS)
        for name, propensity in answer.propensities.items():
            assert propensity == pytest.approx(0.9 * expected[name] + 0.1 / len(PRODUCTS), abs=1e-12)

    with_service(tmp_path, model, use, exploration=0.1)
