"""A launch gets larger shares while nothing speaks against it, and is shipped or taken back by what it earns."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.serving.mock_time import MockTime
from tests.serving.shop import PRODUCTS, make_model, running
from zoosim.core.errors import ConfigError
from zoosim.monitoring import State
from zoosim.monitoring.launch_plan import Plan
from zoosim.serving.bodies import DecideBody, DeploymentBody, FeedbackBody
from zoosim.serving.events import CHAMPION, HOLDBACK, PREVIOUS, Arm, Start
from zoosim.serving.forecasts.kept import forecasts_in
from zoosim.serving.launches.monitor import LaunchMonitor, Silence
from zoosim.serving.launches.report import LaunchReport
from zoosim.serving.launches.state import Launch, launch_in, with_launch
from zoosim.serving.metrics import Metrics
from zoosim.serving.projection import rows_of
from zoosim.serving.publishing import News, Publisher
from zoosim.serving.ranker import draw
from zoosim.serving.service import Service

PLAN = {"steps": [0.2, 0.5], "hours": 0.01, "least": 10, "window": 2.0, "holdback": 0.0}
PLAN_OF_METRICS = [
    {"role": "success", "lift": 0.5},
    {"role": "guardrail", "margin": 0.1, "drop": 0.5},
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


class Shop:
    """Visitors of a service whose clock is moved, and a learner that tells it how a launch stands."""

    def __init__(self, service: Service, time: MockTime) -> None:
        self.service = service
        self.time = time
        self.monitor = LaunchMonitor(lambda: service.model.fitted.weights)
        self._rng = np.random.default_rng(1)
        self._read = 0
        self._visitors = 0

    async def visits(
        self, count: int, rates: dict[str, float], *, told: bool = True, different: int | None = None
    ) -> None:
        """Let visitors come, a second each, who click by the arm that decided; all of them or so many `different`."""
        for _ in range(count):
            self._visitors += 1
            visitor = self._visitors % different if different else self._visitors
            body = DecideBody({"country": "de"}, [*PRODUCTS[:4]], visitor_id=f"v{visitor}")
            answer = await self.service.decide(body)
            if told and self._rng.random() < rates[answer.arm]:
                await self.service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
            self.time.pass_by(1.0)
            if self._visitors % 20 == 0:
                await self.look()

    async def look(self) -> None:
        """Tick, let the learner read, and let the service do what its report calls for."""
        await self.service.tick()
        self.tell()
        await self.service.tick()

    def tell(self) -> None:
        """Let the learner read, and tell of it."""
        for row in rows_of(self.service._reader, self._read):
            self.monitor.apply(row)
            self._read = row.seq
        arm = self.service.current.champion
        news = News(
            self._read,
            self._read,
            arm.origin,
            last_feedback=self.monitor.last_feedback,
            silence=self.monitor.silence(),
            launch=self.monitor.report(),
        )
        self.service.current.take(Publisher().message(arm.model.policy, news))

    @property
    def state(self) -> str:
        launch = launch_in(self.service.start)
        assert launch is not None
        return launch.state


def with_shop(folder: Path, model: Path, use: Callable[[Shop], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        time = MockTime()
        async with running(folder, model, time.clock(), wait=1.0, **settings) as service:
            await use(Shop(service, time))

    asyncio.run(run())


async def launch(shop: Shop, rival: Path, sticky: Any = "visitor", **plan: Any) -> None:
    digest = shop.service.keep_model(rival)
    plan = {**PLAN, "metrics": PLAN_OF_METRICS, **plan}
    await shop.service.deploy(DeploymentBody("launch", "new", digest, plan=plan, who="ann", sticky=sticky))


def test_a_better_model_gets_all_shares_and_ships(tmp_path: Path, model: Path) -> None:
    async def use(shop: Shop) -> None:
        await launch(shop, model)
        shares = set()
        while shop.state != "completed":
            await shop.visits(20, {CHAMPION: 0.2, "new": 0.6})
            shares.add(shop.service.current.assignment.shares.get("new", 1.0))
        assert shares == {0.2, 0.5, 1.0}
        arms = shop.service.current.assignment.shares
        assert arms == {PREVIOUS: 0.0, CHAMPION: 1.0}
        [shipped, *_] = await shop.service.history()
        assert shipped["who"] == "launch"
        assert "objective is better, and no guardrail is worse than its margin" in shipped["why"]
        await shop.service.deploy(DeploymentBody("rollback", who="bob"))
        assert shop.state == "rolled back"

    with_shop(tmp_path, model, use)


def test_a_worse_model_is_taken_back(tmp_path: Path, model: Path) -> None:
    async def use(shop: Shop) -> None:
        await launch(shop, model)
        for _ in range(100):
            await shop.visits(20, {CHAMPION: 0.6, "new": 0.2})
            if shop.state == "rolled back":
                break
        assert shop.service.current.assignment.shares == {"new": 0.0, CHAMPION: 1.0}
        assert "is worse than the champion by more than its margin" in (await shop.service.history())[0]["why"]
        told = shop.service.deployment()["launch"]
        assert told["report"]["metrics"][0]["difference"] < -0.2
        ended = launch_in(shop.service.start)
        assert ended is not None
        assert ended.changes["objective"] < -0.4, "it earns a third, less what few visitors say"
        await shop.visits(20, {CHAMPION: 0.6})

    with_shop(tmp_path, model, use)


def test_a_launch_alike_neither_ships_nor_is_taken_back(tmp_path: Path, model: Path) -> None:
    async def use(shop: Shop) -> None:
        await launch(shop, model, holdback=0.1)
        assert set(shop.service.current.assignment.shares) == {HOLDBACK, "new", CHAMPION}
        await shop.visits(400, {CHAMPION: 0.4, "new": 0.4, HOLDBACK: 0.4})
        assert shop.state == "cannot tell yet"
        assert shop.service.current.assignment.shares["new"] == pytest.approx(0.45)
        report = shop.monitor.report()
        assert report is not None
        assert 10 < report.remaining < 10_000
        metrics = Metrics(shop.service).text().decode()
        assert 'zoosim_launch_difference{bound="low",reward="objective",role="guardrail"} -0.' in metrics
        assert 'zoosim_arm_share{arm="new"} 0.45' in metrics
        assert 'zoosim_rewards{arm="new",reward="click"}' in metrics
        assert "more decisions" in report.sentence

    with_shop(tmp_path, model, use)


def test_a_launch_says_beforehand_how_long_it_takes_and_tells_the_day(tmp_path: Path, model: Path) -> None:
    async def use(shop: Shop) -> None:
        await launch(shop, model)
        [said] = shop.service.deployment()["launch"]["said"]
        assert said.startswith("How long it takes cannot be said beforehand: got 0 visitors whose rewards are known")
        await shop.service.deploy(DeploymentBody("rollback", "new"))
        await shop.visits(200, {CHAMPION: 0.4, "new": 0.4})
        await launch(shop, model)
        lift, drop = forecasts_in(shop.service.start)
        assert (lift.about, drop.about) == ("a lift of 50.0%", "a drop of 50.0%")
        assert 190 < drop.rows <= 200
        assert 0 < drop.low < drop.value < drop.high < 1_000
        said = shop.service.deployment()["launch"]["said"]
        assert [line.partition(" is found after about ")[0] for line in said] == [
            "objective: a lift of 50.0%",
            "objective: a drop of 50.0%",
        ]
        assert f"visitors ({drop.value / 3_600:.1f} hours: " in said[1], "3,600 visitors come per hour"
        await shop.visits(100, {CHAMPION: 0.4, "new": 0.4})
        report = shop.monitor.report()
        assert report is not None
        assert report.per_hour == pytest.approx(3_600, rel=0.05)
        assert " hours: " in report.sentence

    with_shop(tmp_path, model, use)


def test_what_cannot_be_told_in_the_days_of_the_plan_is_taken_back(tmp_path: Path, model: Path) -> None:
    async def use(shop: Shop) -> None:
        await launch(shop, model, most_days=0.005)  # 432 seconds, after the 36 of the last share
        await shop.visits(400, {CHAMPION: 0.4, "new": 0.4})
        assert shop.state == "cannot tell yet"
        await shop.visits(200, {CHAMPION: 0.4, "new": 0.4})
        assert shop.state == "rolled back"
        assert shop.service.current.assignment.shares == {"new": 0.0, CHAMPION: 1.0}
        assert "could not be told in all the days" in (await shop.service.history())[0]["why"]

    with_shop(tmp_path, model, use)


def test_a_policy_that_fails_is_taken_back_and_its_errors_are_counted(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(shop: Shop) -> None:
        await launch(shop, model)

        def broken(*_: Any) -> None:
            raise ValueError("no weights")

        monkeypatch.setattr(shop.service.current.arms["new"].model.policy, "propensities", broken)
        for _ in range(20):
            await shop.visits(20, {CHAMPION: 0.4})
            if shop.state == "rolled back":
                break
        assert shop.state == "rolled back"
        assert "The new policy raises errors" in (await shop.service.history())[0]["why"]
        arm = shop.service.deployment()["arms"]["new"]
        assert arm["failed"] > 5
        metrics = Metrics(shop.service).text().decode()
        assert f'zoosim_arm_failures_total{{arm="new"}} {arm["failed"]}.0' in metrics
        assert 'zoosim_arm_seconds_total{arm="champion"}' in metrics

    with_shop(tmp_path, model, use)


def test_a_person_pauses_a_launch_and_lets_it_go_on(tmp_path: Path, model: Path) -> None:
    async def use(shop: Shop) -> None:
        with pytest.raises(ConfigError, match="no launch is running"):
            await shop.service.deploy(DeploymentBody("pause"))
        await launch(shop, model)
        await shop.service.deploy(DeploymentBody("pause", why="a holiday"))
        await shop.visits(100, {CHAMPION: 0.4, "new": 0.4})
        assert (shop.state, shop.service.current.assignment.shares["new"]) == ("paused", 0.2)
        with pytest.raises(ConfigError, match="new is running; promote it or roll it back first"):
            await launch(shop, model)
        await shop.service.deploy(DeploymentBody("resume"))
        await shop.visits(100, {CHAMPION: 0.4, "new": 0.4})
        assert shop.service.current.assignment.shares["new"] == 0.5
        await shop.service.deploy(DeploymentBody("promote", "new"))
        assert shop.state == "completed"

    with_shop(tmp_path, model, use)


def test_a_share_of_nobody_or_of_all_tells_nothing_and_the_launch_goes_on(tmp_path: Path, model: Path) -> None:
    async def use(shop: Shop) -> None:
        await launch(shop, model)
        await shop.visits(20, {CHAMPION: 0.2, "new": 0.6})
        for share in (1.0, 0.0):
            await shop.service.deploy(DeploymentBody("share", "new", share=share))
            await shop.visits(20, {CHAMPION: 0.2, "new": 0.6})
            report = shop.monitor.report()
            assert report is not None
            assert report.visitors <= 20
            assert report.sentence == "Cannot tell yet: the new policy or the champion decides for nobody."
        digest = shop.service.keep_model(model)
        await shop.service.deploy(DeploymentBody("launch", "all", digest, share=1.0))
        await shop.visits(20, {"all": 0.2})
        await shop.service.deploy(DeploymentBody("retire", "new"))
        with pytest.raises(ConfigError, match="got no visitors, as other arms have them all"):
            await launch(shop, model)
        await shop.service.deploy(DeploymentBody("retire", "all"))
        with pytest.raises(ConfigError, match="arm: got 'holdback'"):
            await shop.service.deploy(DeploymentBody("launch", HOLDBACK, digest))
        await launch(shop, model)
        await shop.visits(20, {CHAMPION: 0.2, "new": 0.6})
        assert shop.state == "running"
        gone = launch_in(msgspec.structs.replace(shop.service.start, arms=[]))
        assert gone is not None
        assert gone.state == "rolled back"

    with_shop(tmp_path, model, use)


@pytest.mark.parametrize(("sticky", "counted"), [("visitor", 120), ("event", 260)])
def test_each_decision_counts_where_the_arm_is_drawn_for_it(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch, sticky: str, counted: int
) -> None:
    """Of 120 visitors with 260 decisions; whom the new model leaves to the champion, as here, met both arms."""
    monkeypatch.setattr("zoosim.serving.launches.monitor.MOST_LEFT", 1_000)

    async def use(shop: Shop) -> None:
        await launch(shop, model, sticky, steps=[0.5], least=1_000)
        assert shop.service.deployment()["arms"]["new"]["sticky"] == sticky
        await shop.visits(200, {CHAMPION: 0.3, "new": 0.3}, different=120)
        new = shop.service.current.arms["new"].model.policy
        monkeypatch.setattr(
            "zoosim.serving.endpoints.product_pages.draw",
            lambda policy, *rest: draw(policy, *(rest if policy is not new else ())),  # which raises
        )
        await shop.visits(60, {CHAMPION: 0.3}, different=120)
        report = shop.monitor.report()
        assert report is not None
        assert counted - 20 <= report.visitors <= counted
        has_mixed = "double exposure" in [check.check for check in report.checks]
        assert has_mixed == (sticky == "visitor")

    with_shop(tmp_path, model, use)


def test_a_launch_goes_on_after_a_restart(tmp_path: Path, model: Path) -> None:
    """What it has earned is read again from the log: the report is the same."""
    reports: list[LaunchReport] = []

    async def use(shop: Shop) -> None:
        await launch(shop, model)
        await shop.visits(60, {CHAMPION: 0.4, "new": 0.5})
        again = LaunchMonitor(lambda: shop.service.model.fitted.weights)
        for row in rows_of(shop.service._reader, 0, shop._read):
            again.apply(row)
        reports.extend(report for report in (shop.monitor.report(), again.report()) if report is not None)

    with_shop(tmp_path, model, use)
    assert reports[0] == reports[1]
    assert reports[0].visitors > 40


def test_what_was_earned_beside_another_champion_does_not_count(tmp_path: Path, model: Path) -> None:
    async def use(shop: Shop) -> None:
        await launch(shop, model)
        await shop.visits(60, {CHAMPION: 0.4, "new": 0.5})
        report = shop.monitor.report()
        assert report is not None
        assert report.visitors > 40
        await shop.service.switch_model(shop.service.start.model)
        await shop.look()
        report = shop.monitor.report()
        assert report is not None
        assert report.visitors == 0

    with_shop(tmp_path, model, use)


def test_no_share_grows_by_a_report_of_what_was_earned_beside_another_champion(tmp_path: Path, model: Path) -> None:
    async def use(shop: Shop) -> None:
        await launch(shop, model, hours=0.1)
        await shop.visits(60, {CHAMPION: 0.4, "new": 0.4})
        shop.time.pass_by(1_000.0)
        shop.tell()
        await shop.service.switch_model(shop.service.start.model)
        await shop.service.tick()
        assert shop.service.current.assignment.shares["new"] == 0.2

    with_shop(tmp_path, model, use)


def test_no_share_grows_by_an_old_report(tmp_path: Path, model: Path) -> None:
    """As while the learner is down."""

    async def use(shop: Shop) -> None:
        await launch(shop, model, hours=0.1)
        await shop.visits(60, {CHAMPION: 0.4, "new": 0.4})
        shop.time.pass_by(1_000.0)
        await shop.service.tick()
        assert shop.service.current.assignment.shares["new"] == 0.2
        await shop.look()
        assert shop.service.current.assignment.shares["new"] == 0.5

    with_shop(tmp_path, model, use)


def test_another_arm_of_the_same_name_is_not_the_one_launched(tmp_path: Path, model: Path) -> None:
    async def use(shop: Shop) -> None:
        await launch(shop, model)
        start = shop.service.start
        [arm] = start.arms
        later = msgspec.structs.replace(start, arms=[msgspec.structs.replace(arm, turn=arm.turn + 1)])
        ended = launch_in(later)
        assert ended is not None
        assert (ended.state, ended.reason) == ("rolled back", "its arm was ended")

    with_shop(tmp_path, model, use)


def test_a_model_that_is_being_launched_is_not_made_a_holdback(tmp_path: Path, model: Path) -> None:
    async def use(shop: Shop) -> None:
        await launch(shop, model)
        with pytest.raises(ConfigError, match="freeze: new is being launched; promote it or roll it back first"):
            await shop.service.deploy(DeploymentBody("freeze", "new"))
        await shop.service.deploy(DeploymentBody("promote", "new"))
        await shop.service.deploy(DeploymentBody("rollback", CHAMPION))
        assert shop.state == "rolled back"

    with_shop(tmp_path, model, use)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"steps": [0.5, 0.2]}, r"plan of the launch: steps: got \[0.5, 0.2\], expected shares that grow"),
        ({"metrics": [{"role": "success", "reward": "clik"}]}, "reward 'clik' .did you mean click"),
        ({"metrics": [{"role": "guardrail"}]}, "no metric is a success"),
        ({"metrics": [{"role": "success", "margin": 0.3}]}, "margin 0.3, drop 0.2"),
        ({"step": [0.1]}, "step"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_in_one_line(
    tmp_path: Path, model: Path, plan: dict[str, Any], message: str
) -> None:
    async def use(shop: Shop) -> None:
        with pytest.raises(ConfigError, match=message) as refused:
            await launch(shop, model, **plan)
        assert "\n" not in str(refused.value)
        assert launch_in(shop.service.start) is None

    with_shop(tmp_path, model, use)


def test_learning_is_frozen_while_feedback_is_lost_and_goes_on_by_itself(tmp_path: Path, model: Path) -> None:
    async def use(shop: Shop) -> None:
        await shop.visits(300, {CHAMPION: 0.4})
        await shop.visits(40, {CHAMPION: 0.4}, told=False)
        assert not shop.service.settings.frozen
        await shop.visits(40, {CHAMPION: 0.4}, told=False)
        assert shop.service.settings.frozen
        assert "pixel" in (await shop.service.history())[0]["why"]
        await shop.visits(40, {CHAMPION: 0.4})
        assert not shop.service.settings.frozen

    with_shop(tmp_path, model, use)


def test_learning_is_not_frozen_where_feedback_comes_while_another_change_is_made(tmp_path: Path, model: Path) -> None:
    async def use(shop: Shop) -> None:
        await shop.visits(300, {CHAMPION: 0.4})
        await shop.visits(59, {CHAMPION: 0.4}, told=False)
        shop.time.pass_by(10.0)
        await shop.service.decide(DecideBody({"country": "de"}, [*PRODUCTS[:4]]))
        shop.tell()
        assert shop.service.current.silence is not None
        async with shop.service.current._switching:
            freezing = asyncio.create_task(shop.service.tick())
            answer = await shop.service.decide(DecideBody({"country": "de"}, [*PRODUCTS[:4]]))
            await shop.service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
            shop.tell()
        await freezing
        assert not shop.service.settings.frozen

    with_shop(tmp_path, model, use)


def test_what_a_person_freezes_while_checks_let_learning_go_on_stays_frozen(tmp_path: Path, model: Path) -> None:
    async def use(shop: Shop) -> None:
        await shop.visits(300, {CHAMPION: 0.4})
        await shop.visits(80, {CHAMPION: 0.4}, told=False)
        assert shop.service.settings.frozen
        await shop.visits(19, {CHAMPION: 0.4})
        shop.tell()
        async with shop.service.current._switching:
            freezing = asyncio.create_task(shop.service.deploy(DeploymentBody("freeze")))
            await asyncio.sleep(0)
            going_on = asyncio.create_task(shop.service.tick())
            await asyncio.sleep(0.01)
        await asyncio.gather(freezing, going_on)
        assert shop.service.settings.frozen

    with_shop(tmp_path, model, use)


def test_feedback_that_comes_once_a_day_is_no_silence() -> None:
    silence = Silence()
    time = 0
    for _ in range(4):
        for _ in range(5_000):
            time += 10_000_000
            silence.decide()
            assert silence.finding(time) is None
        for _ in range(500):
            silence.earn(time)


def test_a_plan_of_another_release_ends_the_launch_and_nothing_else() -> None:
    arm = Arm("new", "b", 0.1, "challenger", 2)
    start = Start("a", b"{}", number=2, arms=[arm])
    launch = Launch(2, "new", Plan.model_validate({}).model_dump(mode="json"), State.RUNNING, 0, 0)
    assert launch_in(with_launch(start, launch)) == launch
    launch.plan["moons"] = 2
    ended = launch_in(with_launch(start, launch))
    assert ended is not None
    assert not ended.is_running
    assert "moons" in ended.reason
