"""Rules of a shop in a service: what is shown by them, what the log says of it, and that it is judged rightly."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoosim
from tests.serving.mock_time import MockTime
from tests.serving.shop import PRODUCTS, make_boost_model, make_model, with_service
from zoosim.core.errors import ConfigError, PolicyError
from zoosim.serving.arm_replica import PINNED as NOT_LEARNED
from zoosim.serving.bodies import DecideBody, DeploymentBody, FeedbackBody, SlotBody
from zoosim.serving.events import CHOICES, ProductDecision, unpack, unpack_floats
from zoosim.serving.folder import load_served_model
from zoosim.serving.log_reader import CAPPED_PAGE, PINNED, LoggedDecision
from zoosim.serving.replica import Replica
from zoosim.serving.served_log import read_served_log
from zoosim.serving.service import Service
from zoosim.serving.store.address import Address, open_store

CLICK_RATES = np.linspace(0.1, 0.8, len(PRODUCTS))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def even(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that decides evenly among all candidates."""
    return make_model(tmp_path_factory.mktemp("even"), "random")


def decisions_in(folder: Path) -> list[ProductDecision]:
    rows = open_store(Address(folder), read_only=True).read(0, 100_000)
    return [unpack(row) for row in rows if row.kind in CHOICES]


def category(product: str) -> str:
    return f"c{int(product[1:]) % 3}"


def test_a_page_follows_the_rules_and_says_what_they_did(tmp_path: Path, model: Path) -> None:
    rules = {"per_page": {"category": 1}, "pinned": {2: "p4"}, "forbidden": ["p0", "nothing"]}

    async def use(service: Service) -> None:
        for _ in range(60):
            answer = await service.decide(DecideBody({"country": "de"}, count=4))
            shown = [each.product for each in answer.shown]
            assert len(shown) == 3, "there are three categories"
            assert {category(product) for product in shown} == {"c0", "c1", "c2"}
            assert shown[1] == "p4"
            assert answer.shown[1].propensity == 1.0
            assert (answer.pinned, answer.barred, answer.lifted) == ([2], {"forbidden": ["p0"]}, [])
            closed = {"p0", "p1", "p4", "p7"}  # what is forbidden, and the category of what is pinned
            assert {name for name, chance in answer.propensities.items() if not chance} == closed
            assert sum(answer.propensities.values()) == pytest.approx(1.0, abs=1e-12)
            assert await service.answer(answer.decision_id) == answer
        last = await service.decide(DecideBody(candidates=["p1", "p4"], count=2))
        assert [each.product for each in last.shown] == ["p1", "p4"]
        assert last.lifted == ["per_page"]

    with_service(tmp_path, model, use, shop_rules=rules)
    decision = decisions_in(tmp_path)[0]
    assert decision.rules is not None
    assert decision.rules.per_page == ["category"]
    assert [decision.is_pinned(slot) for slot in range(3)] == [False, True, False]


def test_a_request_pins_and_forbids_for_itself(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        answer = await service.decide(DecideBody(candidates=["p1", "p2", "p3"], pinned={"1": "p3"}, forbidden=["p1"]))
        assert answer.shown[0] == type(answer.shown[0])("p3", 1.0)
        assert answer.propensities == {"p1": 0.0, "p2": 0.0, "p3": 1.0}
        plain = await service.decide(DecideBody(candidates=["p1", "p2", "p3"]))
        assert (plain.pinned, plain.barred) == ([], {})
        with pytest.raises(PolicyError, match="pinned: got 'p7', expected one of the candidates"):
            await service.decide(DecideBody(candidates=["p1", "p2"], pinned={"1": "p7"}))
        with pytest.raises(PolicyError, match="got forbidden products alone"):
            await service.decide(DecideBody(candidates=["p1"], forbidden=["p1"]))

    with_service(tmp_path, model, use)
    assert [decision.rules is None for decision in decisions_in(tmp_path)] == [False, True]


def test_slots_that_differ_keep_what_is_forbidden_out_and_refuse_the_rest(tmp_path: Path, model: Path) -> None:
    slots = [SlotBody("a", {}, "p0", []), SlotBody("b", {}, "p1", ["p2"])]

    async def use(service: Service) -> None:
        body = DecideBody(candidates=["p0", "p1", "p2"], forbidden=["p0"])
        answer = await service.decide(body, slots=slots)
        assert [each.product for each in answer.shown] == ["p2", "p1"]
        with pytest.raises(PolicyError, match="leave a slot without a candidate"):
            await service.decide(DecideBody(candidates=["p0", "p2"], forbidden=["p0"]), slots=slots)
        await service.change_settings({"shop_rules": {"per_page": {"category": 1}}})
        with pytest.raises(PolicyError, match="slots: got slots that differ"):
            await service.decide(body, slots=slots)

    with_service(tmp_path, model, use)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"not_bought": "purchase"}, "shop_rules.not_bought: unknown reward 'purchase'; known: click"),
        ({"per_page": {"categorie": 1}}, "unknown categorical column of products 'categorie' .did you mean category"),
    ],
)
def test_a_start_refuses_rules_that_the_model_cannot_follow(
    tmp_path: Path, model: Path, rules: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        with_service(tmp_path, model, None, shop_rules=rules)  # type: ignore[arg-type]


def test_searches_refuse_rules(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="shop_rules: this model ranks searches by boosts; they hold for decisions on"
    ):
        with_service(tmp_path, make_boost_model(tmp_path), None, shop_rules={"most_shown": 1})  # type: ignore[arg-type]


def test_a_running_service_takes_other_rules_and_keeps_them(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        body = DeploymentBody("rules", rules={"pinned": {"1": "p3"}}, who="ann", why="campaign")
        assert (await service.deploy(body))["rules"] == {"pinned": {"1": "p3"}}
        assert (await service.decide(DecideBody())).shown[0].product == "p3"
        newest = (await service.history())[0]
        assert (newest["who"], newest["why"]) == ("ann", "campaign")
        for rules, message in (
            (None, "rules: got none"),
            ({"most_shown": "x"}, "rules.most_shown: got 'x'"),
            ({"not_bought": "sale"}, "shop_rules.not_bought: unknown reward 'sale'"),
            ({"most_shown": 1, "shown_days": 100.0}, "shown_days: got 100, expected at most keep_days"),
        ):
            with pytest.raises(ConfigError, match=message):
                await service.deploy(DeploymentBody("rules", rules=rules))
        assert service.deployment()["rules"] == {"pinned": {"1": "p3"}}
        assert service.counts["decisions with pinned products"] == 1

    with_service(tmp_path, model, use)

    async def again(service: Service) -> None:
        assert service.deployment()["rules"] == {"pinned": {"1": "p3"}}
        assert (await service.deploy(DeploymentBody("rules", rules={})))["rules"] == {}
        assert (await service.decide(DecideBody())).pinned == []

    with_service(tmp_path, model, again, shop_rules={"forbidden": ["p1"]})  # what was deployed stays over settings


def test_what_is_pinned_teaches_nothing(tmp_path: Path, model: Path) -> None:
    """Ten decisions of one product, and ten of which the second place is pinned: twenty parts are drawn."""

    async def use(service: Service) -> None:
        for number in range(20):
            pinned = {"2": "p5"} if number >= 10 else {}
            answer = await service.decide(DecideBody(count=1 + bool(pinned), pinned=pinned, visitor_id=f"v{number}"))
            for shown in answer.shown:
                await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}, product=shown.product))
        await service.tick()

    with_service(tmp_path, model, use)
    store = open_store(Address(tmp_path), read_only=True)
    replica = Replica(lambda digest: load_served_model(tmp_path, digest), store.rows)
    for row in store.read(0, 1_000):
        replica.apply(row)
    assert replica.champion.counts["learned"] == 20
    assert replica.champion.counts[NOT_LEARNED] == 10


async def _serve_pins(service: Service, visits: int, time: MockTime) -> None:
    """Pin the product that is clicked most often at the top, in four of ten requests, and let chance click."""
    rng = np.random.default_rng(0)
    for _ in range(visits):
        pinned = {"1": PRODUCTS[-1]} if rng.random() < 0.4 else {}
        answer = await service.decide(DecideBody(pinned=pinned))
        if rng.random() < CLICK_RATES[PRODUCTS.index(answer.shown[0].product)]:
            await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
    time.pass_by(service.settings.wait + 0.05)
    assert await service.upkeep.check_writing() == ""


def test_pinned_decisions_are_left_out_of_estimates_which_they_would_bias(
    tmp_path: Path, even: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An even choice earns .45. Estimated with the pinned decisions: .6 (.45) + .4 (.8 / 8) = .31. Seed 0."""
    time = MockTime()
    with_service(tmp_path, even, lambda service: _serve_pins(service, 800, time), time.clock(), exploration=0.0)
    pins = sum(decision.is_pinned(0) for decision in decisions_in(tmp_path))
    assert 250 < pins < 390

    def estimate() -> tuple[float, float]:
        log = read_served_log(tmp_path).log
        terms = log.rewards / len(PRODUCTS) / log.propensities
        return float(terms.mean()), float(terms.std() / np.sqrt(len(terms)))

    value, error = estimate()
    assert abs(value - CLICK_RATES.mean()) < 3 * error
    evaluation = zoosim.evaluate(tmp_path, ["random"], samples=200)
    assert evaluation.skipped == {PINNED: pins}
    assert evaluation.n == 800 - pins
    monkeypatch.setattr(LoggedDecision, "why_not_judged", lambda visit, as_ranking: "")
    value, error = estimate()
    assert abs(value - CLICK_RATES.mean()) > 4 * error, "counted, they bias it"


def test_pages_with_pins_and_caps_are_no_rankings(tmp_path: Path, even: Path) -> None:
    """Two pages are free, one has a pin at the second place, one a cap."""
    time = MockTime()

    async def use(service: Service) -> None:
        for pinned in ({}, {}, {"2": "p5"}):
            await service.decide(DecideBody(count=2, pinned=pinned))
        time.pass_by(service.settings.wait + 0.05)
        await service.upkeep.check_writing()

    with_service(tmp_path, even, use, time.clock())
    served = read_served_log(tmp_path)
    assert served.log.actions.shape == (2, 2)
    assert served.log.skipped == {PINNED: 1}
    assert len(read_served_log(tmp_path, action_space="products").log) == 3

    async def cap(service: Service) -> None:
        await service.decide(DecideBody(count=2))
        time.pass_by(service.settings.wait + 0.05)
        await service.upkeep.check_writing()

    with_service(tmp_path, even, cap, time.clock(), shop_rules={"per_page": {"category": 1}})
    assert read_served_log(tmp_path).log.actions.shape == (4,), "by what stood at the top"
    rankings = read_served_log(tmp_path, action_space="rankings").log
    assert rankings.skipped == {PINNED: 1, CAPPED_PAGE: 1}


def test_what_is_forbidden_is_no_candidate_of_its_request(tmp_path: Path, even: Path) -> None:
    time = MockTime()

    async def use(service: Service) -> None:
        await service.decide(DecideBody(candidates=["p0", "p1", "p2"], forbidden=["p1"]))
        time.pass_by(service.settings.wait + 0.05)
        await service.upkeep.check_writing()

    with_service(tmp_path, even, use, time.clock())
    log = read_served_log(tmp_path).log
    assert [log.names[place] for place in np.flatnonzero(log.available(0, 1)[0])] == ["p0", "p2"]
    assert log.propensities[0] == pytest.approx(0.5)


def test_the_mixture_of_arms_counts_what_each_would_show_by_the_rules(tmp_path: Path, model: Path, even: Path) -> None:
    """By an even arm each place has one over what is left to it; a pin is certain by both arms."""
    rules = {"per_page": {"category": 1}, "pinned": {1: "p4"}}

    async def use(service: Service) -> None:
        for number in range(60):
            await service.decide(DecideBody(count=3, visitor_id=f"v{number}"))

    with_service(tmp_path, model, use, shop_rules=rules, arms=[f"even={even}:0.5"], exploration=0.0)
    decisions = decisions_in(tmp_path)
    assert {decision.arm for decision in decisions} == {"champion", "even"}
    for decision in decisions:
        assert decision.chances[0] == decision.mixture[0] == 1.0
        if decision.arm == "even":
            others = {"c0": 3, "c2": 2}  # p0, p3, p6 and p2, p5: p4 has taken c1
            del others[category(decision.products[1])]
            assert decision.chances[1:] == pytest.approx([1 / count for count in (5, *others.values())])


def test_rows_come_as_often_as_their_probabilities_say(tmp_path: Path, even: Path) -> None:
    """Pages of two of three left products, one per category, of an even policy: p0 and p3 are of one category."""

    async def use(service: Service) -> None:
        for number in range(900):
            await service.decide(DecideBody(candidates=["p0", "p3", "p1"], count=2, decision_id=f"0/{number}"))

    with_service(tmp_path, even, use, shop_rules={"per_page": {"category": 1}})
    decisions = decisions_in(tmp_path)
    counts = Counter(tuple(decision.products) for decision in decisions)
    chances = {tuple(decision.products): float(np.prod(decision.chances)) for decision in decisions}
    assert chances == pytest.approx(
        {("p0", "p1"): 1 / 3, ("p3", "p1"): 1 / 3, ("p1", "p0"): 1 / 6, ("p1", "p3"): 1 / 6}
    )
    for page, chance in chances.items():
        assert abs(counts[page] - 900 * chance) < 4 * np.sqrt(900 * chance * (1 - chance))
    assert all(unpack_floats(decision.propensities).sum() == pytest.approx(1.0) for decision in decisions)
