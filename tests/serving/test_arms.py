"""Arms: who decides for whom, how likely what was shown was over all arms, and what each arm learns."""

import asyncio
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import numpy as np
import polars as pl
import pytest

import zoosim
from tests.serving.process import serving
from tests.serving.shop import PRODUCTS, make_boost_model, make_model, with_service
from tests.serving.state_digest import arm_digest
from tests.serving.test_service import check_resumed, replayed
from tests.waiting import eventually
from zoosim.core.errors import ConfigError
from zoosim.logs.parse import read_log
from zoosim.policies.kernel import KernelPolicy
from zoosim.policies.model import ID, load_model
from zoosim.serving.arm_replica import ArmReplica
from zoosim.serving.arms import Assignment, mixture_of
from zoosim.serving.bodies import DecideBody, FeedbackBody, ProductBody, SearchBody, SearchVisitor
from zoosim.serving.catalogue import ServedCatalogue
from zoosim.serving.events import (
    CHAMPION,
    Arm,
    Choice,
    Kind,
    ProductDecision,
    Row,
    SearchDecision,
    Start,
    unpack,
    unpack_floats,
)
from zoosim.serving.folder import load_served_model
from zoosim.serving.grown import grown_model
from zoosim.serving.log_reader import LogReader
from zoosim.serving.places import Slot
from zoosim.serving.publishing import News, Publisher, decode, encode
from zoosim.serving.ranker import chances_of, draw
from zoosim.serving.refusals import NotFound
from zoosim.serving.replica import Replica
from zoosim.serving.served_log import read_served_log
from zoosim.serving.service import Service
from zoosim.serving.settings import read_settings
from zoosim.serving.store.address import Address, open_store

SALT = bytes(range(16))
ARCHIVE = Path(__file__).parents[1] / "data" / "before_one_of_each.tar.xz"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def rival(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("rival"), "linucb")


def start_with(*shares: float, salt: bytes = SALT) -> Start:
    arms = [Arm(f"arm{number}", "model", share, "challenger", 1) for number, share in enumerate(shares)]
    return Start("model", b"{}", arms=arms, salt=salt)


def rows_in(folder: Path) -> list[Row]:
    return open_store(Address(folder), read_only=True).read(0, 1_000_000)


def decisions_in(folder: Path) -> list[ProductDecision]:
    return [unpack(row) for row in rows_in(folder) if row.kind is Kind.DECISION]


def replica_of(folder: Path) -> Replica:
    store = open_store(Address(folder), read_only=True)
    return Replica(lambda digest: load_served_model(folder, digest), store.rows)


async def visit(service: Service, number: int, visitor_id: str = "", count: int = 1) -> Any:
    rng = np.random.default_rng(number)
    candidates = rng.choice(PRODUCTS, 5, replace=False).tolist()
    body = DecideBody({"country": ["de", "fr", "it"][number % 3]}, candidates, count=count, visitor_id=visitor_id)
    answer = await service.decide(body)
    if rng.random() < 0.5:
        await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
    return answer


def test_an_arm_gets_its_share_and_a_visitor_keeps_the_arm() -> None:
    """Of 20,000 visitors 20% and 30% are expected with standard deviations of 57 and 65; bounds are 5 of them."""
    assignment = Assignment(start_with(0.2, 0.3))
    arms = {f"v{number}": assignment.arm_for(f"v{number}", "") for number in range(20_000)}
    counts = Counter(arms.values())
    assert abs(counts["arm0"] - 4_000) < 283
    assert abs(counts["arm1"] - 6_000) < 324
    assert all(assignment.arm_for(visitor, f"d {visitor}") == arm for visitor, arm in arms.items())
    by_decision = Counter(assignment.arm_for("", f"d{number}") for number in range(20_000))
    assert abs(by_decision["arm0"] - 4_000) < 283
    other_salt = Assignment(start_with(0.2, 0.3, salt=SALT[::-1]))
    assert any(other_salt.arm_for(visitor, "") != arm for visitor, arm in arms.items())


def test_an_arm_is_drawn_for_each_decision_where_it_is_to_be() -> None:
    """Of 20,000 decisions of one visitor; a holdback beside it, which is drawn first, keeps whom it has."""
    arms = [Arm("old", "model", 0.1, "holdback", 1), Arm("new", "model", 0.27, "challenger", 2, "event")]
    assignment = Assignment(Start("model", b"{}", arms=arms, salt=SALT))
    by_visitor = {
        f"v{number}": {assignment.arm_for(f"v{number}", f"d{each}") for each in range(40)} for number in range(200)
    }
    kept = [visitor for visitor, met in by_visitor.items() if met == {"old"}]
    assert 5 <= len(kept) <= 45
    assert all(met == {"new", CHAMPION} for visitor, met in by_visitor.items() if visitor not in kept)
    [one] = [visitor for visitor in by_visitor if visitor not in kept][:1]
    counts = Counter(assignment.arm_for(one, f"d{number}") for number in range(20_000))
    assert abs(counts["new"] - 6_000) < 324
    assert assignment.shares == pytest.approx({"old": 0.1, "new": 0.27, CHAMPION: 0.63})


def test_a_larger_share_takes_visitors_from_the_champion_alone() -> None:
    before, after = Assignment(start_with(0.1)), Assignment(start_with(0.4))
    moved = Counter((before.arm_for(f"v{n}", ""), after.arm_for(f"v{n}", "")) for n in range(5_000))
    assert set(moved) == {("arm0", "arm0"), (CHAMPION, "arm0"), (CHAMPION, CHAMPION)}
    full = Assignment(start_with(0.7, 0.2, 0.1))  # whose sum misses 1 by rounding
    assert CHAMPION not in {full.arm_for(f"v{n}", "") for n in range(5_000)}


def test_the_mixture_is_the_sum_of_shares_times_chances() -> None:
    """Shares .8 and .2: .8 (.5) + .2 (.1) = .42; of both parts .8 (.5)(.4) + .2 (.1)(.9) = .178, given the first
    .178 / .42. Where the arm cannot decide, the champion does; where the champion cannot, the arm alone."""
    assignment = Assignment(start_with(0.2))
    weights = assignment.weights([CHAMPION, "arm0"])
    assert weights == pytest.approx({CHAMPION: 0.8, "arm0": 0.2})
    mixed = mixture_of(weights, {CHAMPION: [0.5, 0.4], "arm0": [0.1, 0.9]})
    assert mixed == pytest.approx([0.42, 0.178 / 0.42], abs=1e-15)
    assert assignment.weights([CHAMPION]) == {CHAMPION: 1.0}
    assert assignment.weights(["arm0"]) == {"arm0": 1.0}


@pytest.mark.parametrize("count", [1, 2])
def test_the_log_has_both_probabilities_exactly(tmp_path: Path, model: Path, rival: Path, count: int) -> None:
    """Without a learner both models decide as their files say, so that all can be computed a second time."""

    async def use(service: Service) -> None:
        answers = [await visit(service, number, f"v{number % 40}", count) for number in range(120)]
        by_visitor: dict[int, set[str]] = {}
        for number, answer in enumerate(answers):
            by_visitor.setdefault(number % 40, set()).add(answer.arm)
        assert {len(arms) for arms in by_visitor.values()} == {1}

    with_service(tmp_path, model, use, exploration=0.1, arms=[f"rival={rival}:0.3"])
    models = {CHAMPION: load_model(model), "rival": load_model(rival)}
    decisions = decisions_in(tmp_path)
    assert {decision.arm for decision in decisions} == set(models)
    for decision in decisions:
        chances = {name: np.cumprod(chances_by(each, decision, 0.1)) for name, each in models.items()}
        np.testing.assert_allclose(np.cumprod(decision.chances), chances[decision.arm], rtol=1e-12)
        mixed = 0.7 * chances[CHAMPION] + 0.3 * chances["rival"]
        np.testing.assert_allclose(np.cumprod(decision.mixture), mixed, rtol=1e-12)
    served = read_served_log_later(tmp_path, model)
    columns = {"arm": served.arms, "chances": served.arm_propensities.reshape(len(served.log), -1)[:, 0]}
    assert Counter(columns["arm"]) == Counter(decision.arm for decision in decisions)
    np.testing.assert_allclose(columns["chances"], [decision.chances[0] for decision in decisions])
    top = served.log.propensities.reshape(len(served.log), -1)[:, 0]
    np.testing.assert_allclose(top, [decision.mixture[0] for decision in decisions])


def chances_by(model: Any, decision: ProductDecision, exploration: float) -> list[float]:
    """Return how likely a model, as its file holds it, shows what a decision showed."""
    candidates = ServedCatalogue(model.catalogue).candidates(np.frombuffer(decision.versions, "<i8").tolist())
    slots = [Slot(np.array(unpack_floats(decision.visitor)))] * len(decision.shown)
    return chances_of(decision.shown, model.policy, slots, candidates, exploration)


def read_served_log_later(folder: Path, model: Path | None) -> Any:
    """Read the log of a service once the wait of its decisions is over."""

    async def wait(service: Service) -> None:
        await asyncio.sleep(1.2)
        await service.tick()

    with_service(folder, model, wait)
    return read_served_log(folder)


def test_each_arm_learns_from_what_it_decided_alone(tmp_path: Path, model: Path, rival: Path) -> None:
    """Each comes to the state that it has where the other's decisions are not in the log; a snapshot holds both."""

    async def use(service: Service) -> None:
        for number in range(80):
            await visit(service, number, f"v{number}")
            if number % 5 == 0:
                await service.tick()
        await service.change_product("new", ProductBody(features={"category": "c1"}))
        await service.decide(DecideBody(candidates=["new", "p1"]))
        await asyncio.sleep(1.1)
        await service.tick()

    with_service(tmp_path, model, use, arms=[f"rival={rival}:0.4"])
    rows = rows_in(tmp_path)
    whole = replica_of(tmp_path)
    for row in rows:
        whole.apply(row)
    made = Counter(decision.arm for decision in decisions_in(tmp_path))
    assert {name: arm.counts["learned"] for name, arm in whole.arms.items()} == made
    assert len(made) == 2
    assert whole.champion.join.counts["late or unknown"] == 0
    for name in whole.arms:
        alone = replica_of(tmp_path)
        for row in rows:
            record = unpack(row) if row.kind in (Kind.DECISION, Kind.START) else None
            if not isinstance(record, Choice) or record.arm == name:
                alone.apply(row)
        assert digest_alone(alone.arms[name]) == digest_alone(whole.arms[name])
    check_resumed(tmp_path, replayed(tmp_path, stop=len(rows) // 2), whole)


def digest_alone(arm: ArmReplica) -> str:
    """Return the digest of what an arm has learned, without counts of feedback to other arms."""
    counts, arm.join.counts = arm.join.counts, Counter()
    digest = arm_digest(arm)
    arm.join.counts = counts
    return digest


def test_a_holdback_decides_and_learns_nothing(tmp_path: Path, model: Path, rival: Path) -> None:
    async def use(service: Service) -> None:
        for number in range(40):
            await visit(service, number, f"v{number}")
        await asyncio.sleep(1.1)
        await service.tick()

    with_service(tmp_path, model, use, arms=[f"old={rival}:0.5:holdback"])
    whole = replica_of(tmp_path)
    for row in rows_in(tmp_path):
        whole.apply(row)
    made = Counter(decision.arm for decision in decisions_in(tmp_path))
    assert made["old"] > 5
    assert whole.arms["old"].counts["learned"] == 0
    assert whole.champion.counts["learned"] == made[CHAMPION]


def test_an_arm_that_knows_no_candidate_leaves_the_decision_to_the_champion(tmp_path: Path, model: Path) -> None:
    names = ["p6", "p7", "p8"]
    other = make_model(tmp_path / "other", names=names)

    async def use(service: Service) -> None:
        for number in range(30):
            await service.decide(DecideBody(candidates=["p0", "p1"], visitor_id=f"v{number}"))
            await service.decide(DecideBody(candidates=["p0", "p6"], visitor_id=f"v{number}"))
        assert service.counts["left to the champion by other"] > 5

    with_service(tmp_path / "service", model, use, arms=[f"other={other}:0.5"])
    decisions = decisions_in(tmp_path / "service")
    assert {decision.arm for decision in decisions[::2]} == {CHAMPION}
    assert not any(decision.mixture for decision in decisions[::2])
    assert {decision.arm for decision in decisions[1::2]} == {CHAMPION, "other"}
    for decision in decisions[1::2]:
        assert decision.mixture == []  # no other arm decides among these
        if decision.arm == "other":
            assert decision.chances == [1.0]
            assert decision.ignored == ["p0"]


def test_an_arm_whose_policy_fails_leaves_all_decisions_to_the_champion(
    tmp_path: Path, model: Path, rival: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(service: Service) -> None:
        def fail(context: Any) -> Any:
            raise ZeroDivisionError

        monkeypatch.setattr(service.current.arms["rival"].model.policy, "propensities", fail)
        for number in range(20):
            await visit(service, number, f"v{number}")
        assert service.counts["left to the champion by rival"] > 3
        assert service.counts["decisions by champion"] == 20

    with_service(tmp_path, model, use, arms=[f"rival={rival}:0.5"])
    for decision in decisions_in(tmp_path):
        assert decision.mixture in ([], pytest.approx(decision.chances, rel=1e-12))


def test_arms_that_know_other_candidates_do_not_count(tmp_path: Path, model: Path, rival: Path) -> None:
    """With shares .3, .2 and .5, where the last arm knows p6 alone, the first two make .6 and .4 of their decisions."""
    other = make_model(tmp_path / "other", names=["p6", "p7", "p8"])

    async def use(service: Service) -> None:
        for number in range(40):
            await service.decide(DecideBody(candidates=["p0", "p6"], visitor_id=f"v{number}"))

    arms = [f"rival={rival}:0.2", f"other={other}:0.5"]
    with_service(tmp_path / "service", model, use, exploration=0.1, arms=arms)
    models = load_model(model), load_model(rival)
    decisions = decisions_in(tmp_path / "service")
    assert {decision.arm for decision in decisions} == {CHAMPION, "rival", "other"}
    for decision in decisions:
        if decision.arm == "other":
            assert (decision.chances, decision.mixture) == ([1.0], [])
            continue
        (by_champion,), (by_rival,) = (chances_by(each, decision, 0.1) for each in models)
        assert decision.mixture == pytest.approx([0.6 * by_champion + 0.4 * by_rival], rel=1e-12)
    served = read_served_log_later(tmp_path / "service", model)
    expected = [(decision.mixture or decision.chances)[0] for decision in decisions]
    np.testing.assert_allclose(served.log.propensities, expected)


def test_an_arm_that_fails_where_it_decides_does_not_count(
    tmp_path: Path, model: Path, rival: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its share is all there is, so that the champion, which decides in its place, has none of its own."""

    async def use(service: Service) -> None:
        def fail(policy: Any, *rest: Any) -> Any:
            if policy is service.current.arms["rival"].model.policy:
                raise ZeroDivisionError
            return draw(policy, *rest)

        monkeypatch.setattr("zoosim.serving.endpoints.product_pages.draw", fail)
        for number in range(10):
            await visit(service, number, f"v{number}", 2)

    with_service(tmp_path, model, use, arms=[f"rival={rival}:1"])
    decisions = decisions_in(tmp_path)
    assert {decision.arm for decision in decisions} == {CHAMPION}
    assert not any(decision.mixture for decision in decisions)


def test_hidden_products_stay_hidden_in_an_arm_that_begins(tmp_path: Path, model: Path, rival: Path) -> None:
    async def hide(service: Service) -> None:
        await service.change_product("p0", ProductBody(available=False))

    async def use(service: Service) -> None:
        for number in range(10):
            answer = await service.decide(DecideBody(candidates=["p0", "p1"], visitor_id=f"v{number}"))
            assert answer.shown[0].product == "p1"
        assert service.counts["decisions by rival"] > 0
        assert [arm.catalogue.hidden() for arm in service.current.arms.values()] == [["p0"], ["p0"]]
        await service.change_product("p0", ProductBody(available=True))
        assert [arm.catalogue.hidden() for arm in service.current.arms.values()] == [[], []]

    with_service(tmp_path, model, hide)
    with_service(tmp_path, model, use, arms=[f"rival={rival}:0.5"])


def test_a_product_that_one_arm_lacks_is_hidden_and_shown_again(tmp_path: Path, model: Path) -> None:
    """While it is hidden, the arm that lacks it does not take it up from a request either."""
    other = make_model(tmp_path / "other", names=["p1", "p2", "p3"])

    async def use(service: Service) -> None:
        await service.change_product("p0", ProductBody(available=False))
        body: Any = {"id": "p0", "category": "c1"}
        for number in range(10):
            answer = await service.decide(DecideBody(candidates=[body, "p1"], visitor_id=f"v{number}"))
            assert answer.ignored == ["p0"]
        assert service.counts["decisions by other"] > 0
        with pytest.raises(NotFound, match="product 'q': is not in the catalogue"):
            await service.change_product("q", ProductBody(available=False))
        await service.change_product("p0", ProductBody(available=True))
        assert "p0" in service.catalogue.names()

    with_service(tmp_path / "service", model, use, arms=[f"other={other}:0.5"])


def test_a_champion_of_another_schema_does_not_follow_while_there_are_arms(
    tmp_path: Path, model: Path, rival: Path
) -> None:
    other = make_model(tmp_path / "other", countries=("de", "at"))
    boosts = make_boost_model(tmp_path / "boosts")

    async def use(service: Service) -> None:
        before = service.start
        for wrong in (other, boosts):
            with pytest.raises(ConfigError, match="another schema than that of the arms rival") as refused:
                await service.switch_model(service.keep_model(wrong))
            assert "\n" not in str(refused.value)
        await service.switch_model(service.keep_model(other), instead_of=before.origin)  # as one that grew does
        assert service.start == before
        await service.switch_model(before.model)
        await service.switch_model(service.keep_model(rival))
        assert (service.start.turn, service.start.arms) == (service.start.number, before.arms)

    with_service(tmp_path / "service", model, use, arms=[f"rival={rival}:0.5"])


def test_products_of_a_log_are_as_the_champion_has_them(tmp_path: Path, model: Path, rival: Path) -> None:
    async def change(service: Service) -> None:
        await service.change_product("p0", ProductBody(features={"category": "c2"}))

    async def use(service: Service) -> None:
        for number in range(20):
            await visit(service, number, f"v{number}")

    with_service(tmp_path, model, change)
    with_service(tmp_path, model, use, arms=[f"rival={rival}:0.5"])
    log = read_served_log_later(tmp_path, model).log
    changed = load_model(model).product_features({ID: "p0", "category": "c2"})
    np.testing.assert_array_equal(log.products[log.names.index("p0")], changed)


def test_visits_are_of_periods_of_their_arm(tmp_path: Path, model: Path, rival: Path) -> None:
    """The champion comes to the model of the holdback, in a turn of its own."""

    async def begin(service: Service) -> None:
        return

    async def use(service: Service) -> None:
        first = service.start.model
        await service.switch_model(service.keep_model(rival))
        await service.switch_model(first)
        assert len({arm.start.model for arm in service.current.arms.values()}) == 1
        assert len({arm.origin for arm in service.current.arms.values()}) == 2
        for number in range(20):
            await visit(service, number, f"v{number}")

    with_service(tmp_path, model, begin)
    with_service(tmp_path, model, use, arms=[f"old={model}:0.5:holdback"])
    reader = LogReader(tmp_path, open_store(Address(tmp_path), read_only=True))
    for row in rows_in(tmp_path):
        reader.apply(row)
    assert {visit.arm for visit in reader.visits} == {CHAMPION, "old"}
    assert all(reader.periods[visit.period].arm == visit.arm for visit in reader.visits)


def test_a_schema_grows_from_decisions_of_the_champion_alone(tmp_path: Path, model: Path) -> None:
    parents: list[str] = []

    async def use(service: Service) -> None:
        parents.append(service.start.origin)
        for number in range(40):
            await visit(service, number, f"v{number}")

    with_service(tmp_path, model, use, arms=[f"twin={model}:0.5"])
    made = Counter(decision.arm for decision in decisions_in(tmp_path))
    assert made["twin"] > 0
    assert grown_model(Address(tmp_path), parents[0]).requests == made[CHAMPION]


def test_a_model_is_prepared_as_often_as_arms_have_it(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(service: Service) -> None:
        models, digest = service.current.models, service.start.model
        models.prepare([digest, digest])
        assert models.are_prepared([digest, digest])
        assert not models.are_prepared([digest] * 3)
        monkeypatch.setattr(models, "_loaded", pytest.fail)
        assert models.load(digest) is not models.load(digest)
        assert not models.are_prepared([digest])

    with_service(tmp_path, model, use)


def test_searches_have_arms(tmp_path: Path) -> None:
    model = make_boost_model(tmp_path)
    scores = {f"SKU-{number:04}": float(np.sin(number)) for number in range(20)}

    async def use(service: Service) -> None:
        for number in range(30):
            await service.decide(SearchBody(SearchVisitor("savers", "browse"), scores, visitor_id=f"v{number}"))

    with_service(tmp_path / "service", model, use, arms=[f"twin={model}:0.5"])
    searches: list[SearchDecision] = [unpack(row) for row in rows_in(tmp_path / "service") if row.kind is Kind.SEARCH]
    assert {search.arm for search in searches} == {CHAMPION, "twin"}
    for search in searches:
        assert search.mixture == pytest.approx(search.density, rel=1e-12)


def test_arms_stay_in_the_log_until_settings_name_others(tmp_path: Path, model: Path, rival: Path) -> None:
    starts = []

    async def note(service: Service) -> None:
        starts.append(service.start)

    for arms in ([f"rival={rival}:0.3"], None, [f"rival={rival}:0.5"], "none"):
        with_service(tmp_path, model, note, arms=arms)
    first, kept, grown, alone = starts
    assert first == kept
    assert (grown.arms[0].share, grown.arms[0].turn, grown.salt) == (0.5, first.arms[0].turn, first.salt)
    assert alone.arms == []
    assert {start.origin for start in starts} == {first.origin}


def test_arms_begin_while_a_service_runs_and_take_what_their_learner_tells(
    tmp_path: Path, model: Path, rival: Path
) -> None:
    """As in a service whose log another one shares: it reads of arms, and of what each of them has learned."""

    async def use(service: Service) -> None:
        for number in range(20):
            await visit(service, number, f"v{number}")
        arms = [Arm("rival", service.keep_model(rival), 0.5, "challenger", 2)]
        await service.current.switch(
            service._writer, lambda start: msgspec.structs.replace(start, arms=arms, salt=SALT)
        )
        champion = service.current.champion
        for number in range(60):
            await visit(service, number, f"v{number}")
        assert service.current.champion is champion  # which goes on
        await asyncio.sleep(1.1)
        await service.tick()
        learner = replica_of(tmp_path)
        for row in rows_in(tmp_path):
            learner.apply(row)
        policies = {name: arm.model.policy for name, arm in learner.arms.items()}
        for name, arm in learner.arms.items():
            news = News(0, learner.position, arm.origin, counts=dict(arm.counts), arm=name)
            service.current.take(decode(encode(Publisher().message(policies[name], news))))
        assert {name: arm.learned["learned"] for name, arm in service.current.arms.items()} == Counter(
            decision.arm for decision in decisions_in(tmp_path)
        )
        for name, served in service.current.arms.items():
            assert states_of(served.model.policy) == states_of(policies[name])
            assert served.state == learner.position

    with_service(tmp_path, model, use)


def states_of(policy: Any) -> dict[str, bytes]:
    assert isinstance(policy, KernelPolicy)
    return {name: array.tobytes() for name, array in policy.state_dict().items()}


def test_a_folder_of_an_earlier_release_goes_on_as_one_arm_and_takes_another(tmp_path: Path) -> None:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / "service"
    folder.chmod(0o700)
    before = read_served_log(folder)
    assert set(before.arms) == {CHAMPION}
    np.testing.assert_array_equal(before.arm_propensities, before.log.propensities)

    async def use(service: Service) -> None:
        shares.append(service.current.assignment.shares)
        for number in range(20):
            await service.decide(DecideBody(visitor_id=f"v{number}"))

    shares: list[dict[str, float]] = []
    with_service(folder, None, use)
    with_service(folder, None, use, arms=[f"twin={tmp_path / 'linucb.zoosim'}:0.5"])
    assert shares == [{CHAMPION: 1.0}, {"twin": 0.5, CHAMPION: 0.5}]
    after = read_served_log_later(folder, None)
    assert after.decision_ids[: len(before.arms)] == before.decision_ids
    assert set(after.arms[-20:]) == {CHAMPION, "twin"}


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        (["rival"], r"settings of the service\.arms\.0: got rival, expected NAME=MODEL\.zoosim:SHARE"),
        (["a=m:0.1", "a=n:0.1"], "two arms called a"),
        (["champion=m:0.1"], "two arms called champion"),
        (["a=m:0.7", "b=n:0.6"], "shares that add up to 1.3, expected at most 1"),
        (["a=m:1.5"], r"arms\.0\.share: got 1.5"),
        (["a/b=m:0.5"], r"arms\.0\.name: got 'a/b'"),
    ],
)
def test_settings_that_are_no_arms_are_refused_in_one_line(arms: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        read_settings(None, {}, {"arms": arms})
    assert "\n" not in str(refused.value)


def test_arms_come_from_a_file_a_variable_or_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text("arms: [{name: new, model: m.zoosim, share: 0.2}]\n")
    expected = read_settings(None, {}, {"arms": ["new=m.zoosim:0.2"]}).arms
    assert read_settings(file, {}, {}).arms == expected
    assert read_settings(None, {"ZOOSIM_SERVE_ARMS": "new=m.zoosim:0.2"}, {}).arms == expected
    assert read_settings(file, {"ZOOSIM_SERVE_ARMS": "none"}, {}).arms == []


def test_models_that_do_not_go_with_the_champion_are_refused(tmp_path: Path, model: Path) -> None:
    async def use(service: Service) -> None:
        raise AssertionError("it must not start")

    other = make_model(tmp_path / "other", countries=("de", "at"))
    with pytest.raises(ConfigError, match=r"arm new: got a model with another schema than the champion's"):
        with_service(tmp_path / "a", model, use, arms=[f"new={other}:0.2"])
    boosts = make_boost_model(tmp_path / "boosts")
    with pytest.raises(ConfigError, match=r"arm new: got a model of boosts, expected one of products"):
        with_service(tmp_path / "b", model, use, arms=[f"new={boosts}:0.2"])
    with pytest.raises(ConfigError, match=r"arm new: got no model for the champion"):
        with_service(tmp_path / "c", None, use, arms=[f"new={model}:0.2"])
    assert not (tmp_path / "a").exists()


def test_two_arms_over_http(tmp_path: Path, model: Path, rival: Path) -> None:
    """Two models with shares .8 and .2 decide, learn, go on after a kill, and are told apart in an export."""
    folder = tmp_path / "service"
    arm_of: dict[str, str] = {}

    def decide(client: httpx2.Client, number: int) -> None:
        visitor_id = f"v{number % 60}"
        body = {"visitor": {"country": "de"}, "candidates": PRODUCTS[:4], "visitor_id": visitor_id}
        answer = client.post("/v1/decisions", json=body).raise_for_status().json()
        arm = answer.get("arm", CHAMPION)
        assert arm_of.setdefault(visitor_id, arm) == arm
        feedback = {"rewards": {"click": float(answer["shown"][0]["product"] == "p1")}}
        client.post(f"/v1/decisions/{answer['decision_id']}/feedback", json=feedback).raise_for_status()

    with serving(folder, model, arms=f"rival={rival}:0.2", wait=1, per_visitor=0) as service:
        with httpx2.Client(base_url=service.url, timeout=30.0) as client:
            for number in range(120):
                decide(client, number)
            service.wait_for_learner()
            told = client.get("/v1/model").json()["arms"]
        assert {name: arm["share"] for name, arm in told.items()} == {"champion": 0.8, "rival": 0.2}
        service.kill()
        service.start()
        with httpx2.Client(base_url=service.url, timeout=30.0) as client:
            for number in range(60):
                decide(client, number)
            counts = Counter(arm_of.values())
            assert set(counts) == {"champion", "rival"}
            expected = {name: 3 * count for name, count in counts.items()}

            def learned() -> dict[str, int]:
                arms = client.get("/v1/model").json()["arms"]
                return {name: arm["learned"].get("learned", 0) for name, arm in arms.items()}

            eventually(lambda: learned() == expected)
            metrics = client.get("/metrics").text
        assert service.stop() == 0
    assert f'zoosim_events_total{{event="decisions by rival"}} {counts["rival"]:.1f}' in metrics
    read_served_log_later(folder, model)
    zoosim.export_log(folder, tmp_path / "visits.parquet")
    log = pl.read_parquet(tmp_path / "visits.parquet")
    assert dict(log["arm"].value_counts().iter_rows()) == {name: 3 * count for name, count in counts.items()}
    assert dict(log.select("arm", "policy").unique().iter_rows()) == {"champion": "adaptive", "rival": "linucb"}
    assert log["model"].n_unique() == 2
    assert (log["propensity"] != log["arm_propensity"]).any()
    assert read_log(tmp_path / "visits.parquet").propensities.tolist() == log["propensity"].to_list()
