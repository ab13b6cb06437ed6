"""Caps on what a visitor sees: by the log, over restarts, changes of the rules, several services, and forgetting."""

import asyncio
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.serving.mock_time import MockTime
from tests.serving.shop import PRODUCTS, full_disk, make_model, running, with_service
from tests.serving.valkey import valkey_server
from zoosim.api.served import forget_visitor
from zoosim.core.durations import DAY, MICROSECONDS
from zoosim.core.errors import ConfigError, StoreError
from zoosim.serving import learner as learner_module
from zoosim.serving.bodies import DecideBody, DecisionAnswer, FeedbackBody
from zoosim.serving.events import ProductDecision
from zoosim.serving.learner import LearnerJob, LogLearner
from zoosim.serving.machine import Machine
from zoosim.serving.publishing import Message, decode
from zoosim.serving.service import Service
from zoosim.serving.shop_rules.candidates import VisitorPast
from zoosim.serving.shop_rules.events import VisitorEvents
from zoosim.serving.store.address import open_store, parse_address

DAY_SECONDS = DAY / MICROSECONDS
CAP = {"most_shown": 2, "shown_days": 3.0}


STORED = ProductDecision(
    request=b"r",
    model="m",
    state=0,
    visitor_id="max",
    visitor=b"",
    versions=b"",
    propensities=b"",
    shown=[0],
    chances=[1.0],
    deferred=False,
    products=["p3"],
)
"""A decision whose row is being stored."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


def past(service: Service, visitor_id: str) -> VisitorPast:
    """Return what caps keep from a visitor now, in order."""
    shown, bought = service.current.history.past(visitor_id, service.clock.now())
    return VisitorPast(sorted(shown), sorted(bought))


async def show(service: Service, product: str, visitor_id: str, **fields: Any) -> DecisionAnswer:
    """Show a product to a visitor."""
    answer: DecisionAnswer = await service.decide(DecideBody(candidates=[product], visitor_id=visitor_id, **fields))
    return answer


def test_a_visitor_sees_a_product_as_often_as_the_cap_says(tmp_path: Path, model: Path) -> None:
    time = MockTime()

    async def use(service: Service) -> None:
        seen: Counter[str] = Counter()
        for _ in range(2 * len(PRODUCTS)):
            answer = await service.decide(DecideBody(visitor_id="ann"))
            assert answer.barred.get("shown", []) == [name for name in PRODUCTS if seen[name] == 2]
            assert answer.lifted == []
            seen[answer.shown[0].product] += 1
        assert set(seen.values()) == {2}
        last = await service.decide(DecideBody(visitor_id="ann"))
        assert (last.barred, last.lifted) == ({}, ["shown"]), "nothing would be left"
        assert (await service.decide(DecideBody(visitor_id="bob"))).barred == {}
        assert (await service.decide(DecideBody())).barred == {}
        time.pass_by(3 * DAY_SECONDS + 1)
        assert past(service, "ann") == VisitorPast([], [])

    with_service(tmp_path, model, use, time.clock(), shop_rules=CAP)


def test_requests_of_a_visitor_at_the_same_moment_know_of_each_other(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        requests = [service.decide(DecideBody(visitor_id="ann", count=2)) for _ in range(4)]
        answers = await asyncio.gather(*requests, service.decide(DecideBody(visitor_id="bob")))
        assert sorted(each.product for answer in answers[:4] for each in answer.shown) == PRODUCTS
        assert all(answer.lifted == [] for answer in answers)
        assert past(service, "ann").shown == PRODUCTS

        with full_disk(service), pytest.raises(StoreError):
            await show(service, "p1", "zoe")
        assert past(service, "zoe").shown == [], "what could not be stored was not shown"
        with service.current.history.storing(STORED):
            assert past(service, "max").shown == ["p3"]
            await service.change_settings({"shop_rules": {"not_bought": "click"}})
            assert past(service, "max").shown == [], "nothing is capped any more"
        await service.change_settings({"shop_rules": {"most_shown": 1}})
        assert past(service, "max").shown == []
        _, shown = await asyncio.gather(show(service, "p1", "zoe", defer=True), show(service, "p1", "zoe"))
        assert shown.lifted == []

    with_service(tmp_path, model, use, shop_rules={"most_shown": 1})


def test_what_was_bought_is_not_shown_again(tmp_path: Path, model: Path) -> None:
    time = MockTime()

    async def use(service: Service) -> None:
        page = await service.decide(DecideBody(candidates=["p1", "p2"], count=2, visitor_id="ann"))
        await service.give_feedback(page.decision_id, FeedbackBody({"click": 0.0}, product="p1"))
        assert past(service, "ann") == VisitorPast([], [])
        time.pass_by(10.0)  # beyond the wait: a purchase counts however late it is told
        await service.give_feedback(page.decision_id, FeedbackBody({"click": 1.0}, product="p2"))
        assert past(service, "ann") == VisitorPast([], ["p2"])
        answer = await service.decide(DecideBody(candidates=["p2", "p3"], visitor_id="ann"))
        assert (answer.shown[0].product, answer.barred) == ("p3", {"bought": ["p2"]})
        by_value = await show(service, "p4", "ann")
        await service.give_value(by_value.decision_id, {0: 1.0})
        assert past(service, "ann").bought == ["p2", "p4"]

    with_service(tmp_path, model, use, time.clock(), shop_rules={"not_bought": "click"})


def test_a_deferred_decision_counts_once_it_is_activated(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        answer = await show(service, "p1", "ann", defer=True)
        assert past(service, "ann").shown == []
        await service.activate(answer.decision_id)
        assert past(service, "ann").shown == ["p1"]

    with_service(tmp_path, model, use, shop_rules={"most_shown": 1})


def test_a_service_that_was_started_again_counts_the_same(tmp_path: Path, model: Path) -> None:
    """Caps are turned on, get more days, which begins anew, and fewer; two visitors, of whom one bought."""
    time = MockTime()
    kept: dict[str, VisitorPast] = {}

    async def use(service: Service) -> None:
        await show(service, "p0", "ann")  # before there is a cap
        await service.change_settings({"shop_rules": {"most_shown": 1, "shown_days": 1.0, "not_bought": "click"}})
        await show(service, "p1", "ann")
        assert past(service, "ann").shown == ["p1"]
        await service.change_settings({"shop_rules": {"most_shown": 1, "shown_days": 2.0, "not_bought": "click"}})
        assert past(service, "ann").shown == [], "what was shown before more days were asked for counts no more"
        answer = await show(service, "p2", "ann")
        await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
        await service.activate((await show(service, "p3", "bob", defer=True)).decision_id)
        time.pass_by(1.5 * DAY_SECONDS)
        await show(service, "p4", "ann")
        await service.change_settings({"shop_rules": {"most_shown": 1, "shown_days": 1.0, "not_bought": "click"}})
        await show(service, "p5", "bob")
        kept.update({visitor: past(service, visitor) for visitor in ("ann", "bob")})
        assert kept == {"ann": VisitorPast(["p4"], ["p2"]), "bob": VisitorPast(["p5"], [])}

    with_service(tmp_path, model, use, time.clock())

    async def again(service: Service) -> None:
        assert {visitor: past(service, visitor) for visitor in kept} == kept

    with_service(tmp_path, model, again, time.clock())


def test_a_start_reads_the_days_that_count_alone(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    time = MockTime()

    async def use(service: Service) -> None:
        for number in range(40):
            await show(service, "p1", f"v{number}")
            time.pass_by(0.5 * DAY_SECONDS)

    with_service(tmp_path, model, use, time.clock(), shop_rules={"most_shown": 1, "shown_days": 3.0})
    rows = []
    add = VisitorEvents.add

    def note(events: VisitorEvents, visitor_id: str, seq: int, *rest: Any) -> None:
        rows.append(seq)
        add(events, visitor_id, seq, *rest)

    monkeypatch.setattr(VisitorEvents, "add", note)

    async def again(service: Service) -> None:
        assert past(service, "v39").shown == ["p1"]

    with_service(tmp_path, model, again, time.clock(), shop_rules={"most_shown": 1, "shown_days": 3.0})
    assert 5 <= len(rows) <= 7


def test_a_visitor_who_is_forgotten_is_counted_no_more(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        for visitor in ("ann", "bob"):
            answer = await show(service, "p1", visitor)
            await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
        forget_visitor(tmp_path, "ann")
        await show(service, "p2", "ann")  # who comes again before anybody has looked
        await service.tick()
        assert past(service, "ann") == VisitorPast(["p2"], [])
        assert past(service, "bob") == VisitorPast(["p1"], ["p1"])

    rules = {"most_shown": 1, "not_bought": "click"}
    with_service(tmp_path, model, use, shop_rules=rules)

    async def again(service: Service) -> None:
        assert past(service, "ann") == VisitorPast(["p2"], [])
        assert past(service, "bob") == VisitorPast(["p1"], ["p1"])

    with_service(tmp_path, model, again, shop_rules=rules)


def test_days_that_the_log_does_not_keep_are_refused(tmp_path: Path, model: Path) -> None:
    with pytest.raises(ConfigError, match="shown_days: got 7, expected at most keep_days"):
        with_service(tmp_path, model, asyncio.sleep, shop_rules={"most_shown": 1}, keep_days=5)  # type: ignore[arg-type]


class Ranker:
    """A ranker that keeps what it is told."""

    wants_whole = False

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def send(self, content: bytes) -> None:
        self.messages.append(decode(content))

    def wants_stop(self) -> bool:
        return False

    def wait(self, seconds: float) -> None:
        raise AssertionError


def test_what_another_service_showed_counts_once_the_learner_tells(tmp_path: Path, model: Path) -> None:
    """A service decides with what it knows: until then it does not count, and the row says what was left."""

    async def use(store: str) -> None:
        options: dict[str, Any] = {"shop_rules": {"most_shown": 1, "not_bought": "click"}}
        async with (
            running(tmp_path / "a", model, store=store.format("a"), **options) as first,
            running(tmp_path / "b", None, store=store.format("b"), **options) as second,
        ):
            ranker = Ranker()
            learner = LogLearner(LearnerJob(parse_address(store.format("b")), 60.0), ranker, Machine())
            learner.begin()
            answer = await show(first, "p1", "ann")
            await first.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
            await show(second, "p2", "ann")
            assert past(second, "ann") == VisitorPast(["p2"], [])
            learner.step()
            for message in ranker.messages:
                second.current.take(message)
            assert past(second, "ann") == VisitorPast(["p1", "p2"], ["p1"])

    with valkey_server(tmp_path / "valkey") as server:
        folder = str(tmp_path / "{}")
        asyncio.run(use(server.store("shop", Path(folder))))
        store = parse_address(server.store("shop", tmp_path / "a"))
        with closing(open_store(store, read_only=True)) as log:
            assert log.last() is not None


def test_rows_on_visitors_that_a_message_has_no_room_for_are_read_from_the_log(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the learner was away, and reads on behind what it told last."""
    monkeypatch.setattr(learner_module, "MOST_VISITOR_ROWS", 2)

    async def use(store: str) -> None:
        rules = {"most_shown": 1}
        async with (
            running(tmp_path / "a", model, store=store.format("a"), shop_rules=rules) as first,
            running(tmp_path / "b", None, store=store.format("b"), shop_rules=rules) as second,
        ):
            for product in PRODUCTS:
                await show(first, product, "ann")
            ranker = Ranker()
            learner = LogLearner(LearnerJob(parse_address(store.format("b")), 60.0), ranker, Machine())
            learner.begin()
            learner.step()
            for message in ranker.messages:
                second.current.take(message)
            reading = second.current._following
            assert reading is not None
            await reading
            assert past(second, "ann").shown == PRODUCTS

    with valkey_server(tmp_path / "valkey") as server:
        asyncio.run(use(server.store("shop", Path(str(tmp_path / "{}")))))


def test_a_decision_that_cannot_be_looked_up_now_costs_no_feedback_and_no_state(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogLearner, "_tells_of_visitors", lambda learner: True)

    def fail(key: bytes) -> None:
        raise StoreError("the log cannot be read")

    async def use(service: Service) -> None:
        ranker = Ranker()
        learner = LogLearner(LearnerJob(service.address, 60.0), ranker, Machine())
        learner.begin()
        answer = await show(service, "p1", "ann")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service.current.history, "_find_row", fail)
            outcome = await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
            assert outcome.status == "accepted"
            learner.step()
            (message,) = ranker.messages
            service.current.take(message)
            assert service.current.state == message.news.position
        reading = service.current._following
        assert reading is not None
        await reading
        assert past(service, "ann").bought == ["p1"]

    with_service(tmp_path, model, use, shop_rules={"not_bought": "click"})


def test_caps_of_a_visitor_hold_for_every_arm(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        for number in range(20):
            await show(service, "p1", f"v{number}")
            answer = await service.decide(DecideBody(candidates=["p1", "p2", "p3"], visitor_id=f"v{number}"))
            assert answer.barred == {"shown": ["p1"]}
            assert answer.propensities["p1"] == 0.0

    with_service(tmp_path, model, use, shop_rules={"most_shown": 1}, arms=[f"other={model}:0.5"])
