"""Shadows: what is said of a model that decides for nobody is what its own probabilities of the log's decisions say."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.serving.mock_time import MockTime
from tests.serving.shop import PRODUCTS, make_boost_model, make_model, running, with_service
from tests.serving.test_service import replayed
from zoosim.core.errors import ConfigError
from zoosim.core.types import frozen
from zoosim.policies.model import load_model
from zoosim.serving.bodies import DecideBody, DeploymentBody, FeedbackBody
from zoosim.serving.catalogue import RequestCandidates
from zoosim.serving.events import CHAMPION, SHADOW, Kind, decision_of, unpack, unpack_floats
from zoosim.serving.folder import load_served_model
from zoosim.serving.ids import user_id_of
from zoosim.serving.learner import LearnerJob, LogLearner
from zoosim.serving.machine import Machine
from zoosim.serving.metrics import Metrics
from zoosim.serving.places import Slot
from zoosim.serving.projection import rows_of
from zoosim.serving.publishing import Message, decode
from zoosim.serving.ranker import draw
from zoosim.serving.replica import Replica
from zoosim.serving.service import Service
from zoosim.serving.shadows.report import ShadowReport
from zoosim.serving.shadows.watch import ShadowWatch
from zoosim.serving.snapshots import newest_replica, write_snapshot
from zoosim.serving.store.address import Address, open_store

COUNTRIES = ("de", "fr", "at")
EXPLORATION = 0.3
SETTINGS: dict[str, Any] = {"exploration": EXPLORATION, "aggregation": "sum", "wait": 1.0, "per_visitor": 0}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"), click_rates=[0.1] * 4 + [0.6] * 4)


@pytest.fixture(scope="module", params=["the same schema", "another schema"])
def rival(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    countries = ("de", "fr", "it") if request.param == "the same schema" else ("de", "at")
    return make_model(
        tmp_path_factory.mktemp("rival"), "linucb", click_rates=[0.1] * 6 + [0.6, 0.1], countries=countries
    )


async def visits(service: Service, time: MockTime, first: int, stop: int) -> None:
    """Let visitors come, of whom each comes three times; what is over is told at the end."""
    rng = np.random.default_rng(first)
    for number in range(first, stop):
        candidates = rng.choice(PRODUCTS, 5, replace=False).tolist()
        body = DecideBody({"country": COUNTRIES[number % 3]}, candidates, visitor_id=f"v{number % (stop // 3)}")
        answer = await service.decide(body)
        if rng.random() < 0.4:
            await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
    time.pass_by(5.0)
    await service.tick()


def with_shadow(folder: Path, model: Path, rival: Path, use: Any, **settings: Any) -> None:
    """Use a service with a shadow and a challenger, after 240 decisions."""

    async def run() -> None:
        time = MockTime()
        async with running(folder, model, time.clock(), **{**SETTINGS, **settings}) as service:
            await service.deploy(DeploymentBody("shadow", "new", service.keep_model(rival), who="ann"))
            await service.deploy(DeploymentBody("launch", "other", service.keep_model(model), 0.2))
            await visits(service, time, 0, 240)
            await use(service, time)

    asyncio.run(run())


def expected_of(folder: Path, rival: Path) -> dict[str, float]:
    """Return what a shadow's report is to say, by another computation: from the requests as they came."""
    own = load_model(rival)
    rows = open_store(Address(folder), read_only=True).read(0, 1_000_000)
    clicked = {decision_of(row) for row in rows if row.kind is Kind.FEEDBACK}
    weights, rewards, overlaps = [], [], []
    decisions = [row for row in rows if row.kind is Kind.DECISION]
    products = replayed(folder).champion.catalogue
    for number, row in enumerate(decisions):
        decision = unpack(row)
        if decision.arm != CHAMPION:
            continue
        names = [products.name_of(version) for version in np.frombuffer(decision.versions, "<i8").tolist()]
        raw = [{"id": name, "category": f"c{int(name[1:]) % 3}"} for name in names]
        ids = products.candidates(np.frombuffer(decision.versions, "<i8").tolist()).ids
        features = frozen(np.array([own.product_features(each) for each in raw]))
        candidates = RequestCandidates(np.arange(len(names)), tuple(names), ids, features)
        visitor = frozen(own.fitted.visitors.encode_one({"country": COUNTRIES[number % 3]}))
        slot = Slot(visitor, user_id=user_id_of(decision.visitor_id))
        chances = draw(own.policy, [slot], candidates, EXPLORATION, lambda _: 0.5).propensities
        logged = unpack_floats(decision.propensities)
        weights.append(chances[decision.shown[0]] / logged[decision.shown[0]])
        overlaps.append(np.minimum(chances, logged).sum())
        rewards.append(float(decision_of(row) in clicked))
    guesses = [0.0, *(np.cumsum(rewards) / np.arange(1, len(rewards) + 1))[:-1]]
    differences = (np.array(weights) - 1.0) * (np.array(rewards) - guesses)
    return {
        "decisions": len(rewards),
        "earned": float(np.mean(rewards)),
        "agreement": float(np.mean(overlaps)),
        "effective": sum(weights) ** 2 / float(np.square(weights).sum()),
        "difference": float(differences.mean()),
    }


def watched(folder: Path, replica: Replica) -> ShadowWatch:
    store = open_store(Address(folder), read_only=True)
    seconds = iter(range(1_000_000))
    # Time passes at each look, so that it works for one row, and rests: what it says hangs on none of that.
    return ShadowWatch(
        replica, lambda after: store.read(after, 7), store.find, store.rows, lambda: float(next(seconds))
    )


def reported(watch: ShadowWatch) -> ShadowReport:
    """Return what it says of the only shadow once it has read all."""
    for _ in range(20_000):
        watch.step()
    reports = watch.reports()
    assert reports is not None
    [report] = reports
    return report


def test_a_shadow_is_judged_by_its_own_probabilities_of_the_champions_decisions(
    tmp_path: Path, model: Path, rival: Path
) -> None:
    async def use(service: Service, time: MockTime) -> None:
        messages: list[Message] = []
        learn(service, messages)
        for message in messages:
            service.current.take(message)
        report = service.deployment()["shadows"]["new"]
        expected = expected_of(tmp_path, rival)
        assert 150 < expected["decisions"] < 240
        assert {name: report[name] for name in expected} == pytest.approx(expected, rel=1e-9)
        assert 0.3 < report["agreement"] < 0.95
        assert (report["skipped"], report["unsupported"]) == (0, 0.0)
        assert report["visitors"] > 60
        assert service.deployment()["arms"]["new"]["role"] == SHADOW
        assert 'zoosim_shadow_agreement{arm="new"} 0.' in Metrics(service).text().decode()
        await service.deploy(DeploymentBody("retire", "new"))
        assert service.deployment()["shadows"] == {}

    with_shadow(tmp_path, model, rival, use)


def learn(service: Service, messages: list[Message]) -> None:
    """Let a learner read the log to its end, and keep what it tells."""

    class Listener:
        wants_whole = False

        def send(self, content: bytes) -> None:
            messages.append(decode(content))

        def wants_stop(self) -> bool:
            return False

        def wait(self, seconds: float) -> None: ...

    learner = LogLearner(LearnerJob(service.address, 60.0), Listener(), Machine(MockTime().clock()))
    learner.begin()
    learner.step()


def test_a_report_hangs_on_rows_alone(tmp_path: Path, model: Path, rival: Path) -> None:
    """Whoever reads them one by one, from a snapshot or all at once says the same."""

    async def use(service: Service, time: MockTime) -> None:
        await visits(service, time, 240, 300)

    with_shadow(tmp_path, model, rival, use)
    store = open_store(Address(tmp_path), read_only=True)
    rows = store.read(0, 1_000_000)
    slow = Replica(lambda digest: load_served_model(tmp_path, digest), store.rows)
    one_by_one = watched(tmp_path, slow)
    for row in rows:
        slow.apply(row)
        for _ in range(3):
            one_by_one.step()
        if row.seq == len(rows) // 2:
            write_snapshot(tmp_path / "snapshots", slow)
    resumed = newest_replica(
        tmp_path / "snapshots", lambda digest: load_served_model(tmp_path, digest), store.rows, pytest.fail
    )
    at_once = watched(tmp_path, resumed)
    for row in rows[resumed.position :]:
        resumed.apply(row)
    report = reported(one_by_one)
    assert report == reported(at_once)
    assert report.decisions > 200


def test_what_was_clicked_counts_no_sooner_than_what_was_not(tmp_path: Path, model: Path, rival: Path) -> None:
    """Where the first feedback is learned at once, too."""

    async def use(service: Service, time: MockTime) -> None:
        clicked = {decision_of(row) for row in rows_of(service._reader) if row.kind is Kind.FEEDBACK}
        assert len(clicked) > 60
        for stands_open in (True, False):
            replica = replayed(tmp_path)
            assert replica.champion.counts["learned"] > 0
            report = reported(watched(tmp_path, replica))
            if stands_open:
                assert report.decisions == 0
                time.pass_by(2_000.0)
                await service.upkeep.check_writing()  # which writes a tick
        expected = expected_of(tmp_path, rival)
        assert (report.decisions, report.earned) == (expected["decisions"], expected["earned"])
        assert report.difference == pytest.approx(expected["difference"], rel=1e-9)

    with_shadow(tmp_path, model, rival, use, aggregation="earliest", wait=1_000.0)


def test_another_champion_begins_the_comparison_anew(tmp_path: Path, model: Path, rival: Path) -> None:
    async def use(service: Service, time: MockTime) -> None:
        await service.deploy(DeploymentBody("promote", "other"))
        await service.decide(DecideBody({"country": "de"}, [*PRODUCTS], pinned={"1": "p0"}))  # which nobody draws
        await visits(service, time, 240, 270)

    with_shadow(tmp_path, model, rival, use)
    assert reported(watched(tmp_path, replayed(tmp_path))).decisions == 30


def test_a_shadow_decides_for_nobody_learns_nothing_and_is_launched_by_its_name(tmp_path: Path, model: Path) -> None:
    async def use(service: Service, time: MockTime) -> None:
        digest = service.start.arms[0].model
        for action in ("share", "promote", "rollback", "freeze", "unfreeze"):
            with pytest.raises(ConfigError, match=f"{action}: new is a shadow, which decides for nobody; launch it"):
                await service.deploy(DeploymentBody(action, "new", share=0.1))
        with pytest.raises(ConfigError, match="arm: got 'new', which is there already"):
            await service.deploy(DeploymentBody("shadow", "new", digest))
        with pytest.raises(ConfigError, match="shadow: got a share, and a shadow decides for nobody"):
            await service.deploy(DeploymentBody("shadow", "more", digest, share=0.1))
        with pytest.raises(ConfigError, match="model: got none, and 'moon' is no shadow"):
            await service.deploy(DeploymentBody("launch", "moon"))
        boosts = service.keep_model(make_boost_model(tmp_path / "boosts"))
        with pytest.raises(
            ConfigError, match="the shadow's model is one of boosts, expected one of products"
        ) as refused:
            await service.deploy(DeploymentBody("shadow", "more", boosts))
        assert "\n" not in str(refused.value)
        assert {row.arm for row in decisions_in(tmp_path)} == {CHAMPION, "other"}
        assert replayed(tmp_path).arms["new"].counts["learned"] == 0
        await service.deploy(DeploymentBody("retire", "other"))
        await service.deploy(DeploymentBody("launch", "new", plan={"steps": [0.5], "holdback": 0.0}))
        new = service.deployment()["arms"]["new"]
        assert (new["role"], new["model"], new["share"]) == ("challenger", digest, 0.5)
        await visits(service, time, 240, 270)
        assert decisions_in(tmp_path)[-1].arm in (CHAMPION, "new")
        assert "new" in {row.arm for row in decisions_in(tmp_path)}

    with_shadow(tmp_path, model, make_model(tmp_path / "rival", "linucb"), use)


def decisions_in(folder: Path) -> list[Any]:
    rows = open_store(Address(folder), read_only=True).read(0, 1_000_000)
    return [unpack(row) for row in rows if row.kind is Kind.DECISION]


def test_a_shadow_of_another_schema_stays_where_the_champion_changes_and_is_not_launched(
    tmp_path: Path, model: Path
) -> None:
    other = make_model(tmp_path / "other", countries=("de", "at"))

    async def use(service: Service) -> None:
        digest = service.keep_model(other)
        await service.deploy(DeploymentBody("shadow", "new", digest))
        with pytest.raises(ConfigError, match="arm new: got a model with another schema than the champion's"):
            await service.deploy(DeploymentBody("launch", "new"))
        start = service.start
        await service.switch_model(service.keep_model(make_model(tmp_path / "third", countries=("de",))))
        await service.switch_model(start.model, instead_of=service.start.origin)  # as one that grew
        assert [arm.name for arm in service.start.arms] == ["new"]
        await service.decide(DecideBody({"country": "at"}, [*PRODUCTS[:3]]))

    with_service(tmp_path / "service", model, use)

    async def use_again(service: Service) -> None:
        assert [arm.role for arm in service.start.arms] == [SHADOW]

    with_service(tmp_path / "service", None, use_again)
