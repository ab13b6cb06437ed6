"""What a launch says before it begins, and what the log says of it once it has ended."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from tests.core.test_forecasts import forecast
from zoosim.core.durations import HOUR
from zoosim.monitoring.difference import BETTER, HARM
from zoosim.monitoring.launch import State, new_tests
from zoosim.monitoring.launch_plan import Plan
from zoosim.monitoring.sample_size import events_needed
from zoosim.serving.forecasts.scores import EARLY, HELD, MISSED, UNKNOWN, score_of_launch
from zoosim.serving.launches.beforehand import Baseline, said_of
from zoosim.serving.launches.state import Launch

WHEN = datetime(2025, 11, 24, 16, tzinfo=UTC)
METRICS = [{"reward": "click", "role": "success", "lift": 0.1}, {"reward": "click", "role": "guardrail", "drop": 0.2}]


def plan_of(**fields: object) -> Plan:
    return Plan.model_validate({"steps": [0.5], "metrics": METRICS, "holdback": 0.0, **fields})


def baseline_of(plan: Plan, earned: list[list[float]], per_hour: float) -> Baseline:
    """Return what visitors earn who came in the last ten days."""
    baseline = Baseline(plan, HOUR, {"click": 1.0}, False)
    baseline._earned = earned
    for number in range(round(240 * per_hour)):
        baseline.time = round(WHEN.timestamp() * 1e6 + number * HOUR / per_hour)
        baseline.traffic.come(baseline.time)
    return baseline


CLICKS = [[1.0, 1.0]] * 100 + [[0.0, 0.0]] * 900


def test_at_one_share_it_is_what_the_test_needs() -> None:
    plan = plan_of()
    said = said_of(plan, baseline_of(plan, CLICKS, 100.0), 0.8, WHEN, model="a" * 32)
    tests = new_tests([each.metric for each in plan.metrics])
    lift, drop = said.forecasts
    # A rate of .1: a lift of .01, and a drop of .02 less the margin of .002; variance .1 x .9.
    for told, distance, level in [(lift, 0.01, tests[0].levels[BETTER]), (drop, 0.018, tests[1].levels[HARM])]:
        for value, power in [(told.low, 0.1), (told.value, 0.5), (told.high, 0.9)]:
            assert value == pytest.approx(events_needed(distance, 0.09, 0.5, level, power=power))
        assert (told.level, told.rows, told.by) == (0.8, 1_000, "zoosim deploy launch")
    assert (lift.about, drop.about) == ("a lift of 10.0%", "a drop of 20.0%")
    hours = drop.value / 80.0
    assert 24.0 < hours < 240.0
    [_, sentence] = said.sentences
    assert sentence.startswith("click: a drop of 20.0% is found after about ")
    assert f"visitors ({hours:,.0f}" in sentence.replace(f"({hours:,.1f}", f"({hours:,.0f}")
    assert "day, 2025-1" in sentence


def test_small_shares_before_it_take_their_time() -> None:
    """At 1% a visitor tells a 25th of what one tells at one half, so a first hour at 1% is nearly lost."""
    at_once = plan_of()
    ramped = plan_of(steps=[0.01, 0.5], hours=10.0, least=0)
    said = [said_of(plan, baseline_of(plan, CLICKS, 100.0), 1.0, WHEN).forecasts[1].value for plan in (at_once, ramped)]
    lost = 1_000.0 * (1.0 - 0.01 * 0.99 / 0.25)
    assert said[1] - said[0] == pytest.approx(lost, rel=0.01)


@pytest.mark.parametrize(("lift", "size"), [(1e-200, 1.0), (1e-9, 1.0), (0.1, 5e-324), (0.1, 1e-300)])
def test_what_takes_more_visitors_than_there_are_is_told_without_a_number(lift: float, size: float) -> None:
    """A reward may be the smallest number of all, and must keep nobody from launching."""
    plan = plan_of(metrics=[{"reward": "click", "role": "success", "lift": lift}])
    said = said_of(plan, baseline_of(plan, [[size], [0.0]] * 100, 100.0), 1.0, WHEN)
    assert said.forecasts == []
    assert len(said.sentences[0]) < 100


@pytest.mark.parametrize(
    ("earned", "sentence"),
    [
        (CLICKS[:99], "How long it takes cannot be said beforehand: got 99 visitors whose rewards are known"),
        ([[0.0, 0.0]] * 200, "click: when a lift of 10.0% is found cannot be said: nothing was earned so far."),
    ],
)
def test_it_says_where_nobody_can_know(earned: list[list[float]], sentence: str) -> None:
    plan = plan_of()
    said = said_of(plan, baseline_of(plan, earned, 100.0), 1.0, WHEN)
    assert not said.forecasts
    assert said.sentences[0].startswith(sentence)


def test_a_launch_is_scored_by_the_visitors_until_it_found_what_it_was_set_to_find() -> None:
    drop = forecast(
        quantity="visitors until found", value=1_000, low=500, high=2_000, about="a drop of 20.0%", model="b" * 32
    )
    launch = Launch(2, "new", {}, State.ROLLED_BACK, 3, 0, model="b" * 32, verdict="roll back", visitors=300)
    assert (score_of_launch(drop, launch).outcome, score_of_launch(drop, launch).came) == (HELD, 300.0)
    late = replace(launch, visitors=2_001)
    assert score_of_launch(drop, late).outcome == MISSED
    plan = {"metrics": [{"role": "success"}, {"reward": drop.reward, "role": "guardrail", "drop": 0.2}]}
    smaller = replace(late, plan=plan, changes={drop.reward: -0.1})
    assert score_of_launch(drop, smaller).outcome == UNKNOWN
    assert score_of_launch(drop, smaller).reason == "the launch found a change of -10.0%, which is smaller"
    assert score_of_launch(drop, replace(smaller, changes={drop.reward: -0.2})).outcome == MISSED
    assert score_of_launch(drop, replace(smaller, visitors=300)).outcome == HELD
    lift = drop.model_copy(update={"about": "a lift of 10.0%"})
    assert score_of_launch(lift, late).outcome == UNKNOWN
    assert score_of_launch(lift, replace(late, verdict="ship")).outcome == MISSED
    running = replace(late, state=State.CANNOT_TELL)
    assert score_of_launch(lift, running).reason == "the launch is cannot tell yet"
    assert score_of_launch(lift, running).outcome == EARLY
