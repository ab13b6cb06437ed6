"""What the console says of a launch."""

import inspect

from zoosim.core.durations import MICROSECONDS
from zoosim.monitoring.difference import DifferenceTest
from zoosim.monitoring.launch import State
from zoosim.serving.console.launch_view import first_of_arm, launch_heading, launch_story, launch_values
from zoosim.serving.console.series import Change

TIME = 1_700_000_000 * MICROSECONDS
METRIC = {"reward": "objective", "difference": 0.01, "low": -0.02, "high": 0.04, "champion": 0.3, "margin": 0.006}


def launch(state: State, **values: object) -> dict[str, object]:
    plan = {"steps": [0.2, 0.5, 1.0]}
    return {
        "arm": "new",
        "state": state,
        "reason": "",
        "since": TIME,
        "step": 1,
        "plan": plan,
        "report": None,
        **values,
    }


def test_a_launch_that_is_over_is_called_the_last_one() -> None:
    assert launch_heading(None) == ""
    assert launch_heading(launch(State.PAUSED)) == "Rewards and guardrails of the launch of new"
    assert launch_heading(launch(State.ROLLED_BACK)) == "The last launch, of new: rolled back"


def test_an_arm_began_when_it_last_got_a_share() -> None:
    shares = [{}, {"new": 0.2}, {"new": 0.0}, {"new": 0.1}, {"new": 0.3}, {"old": 0.1}]
    changes = [Change(time, "maya", "why", each) for time, each in enumerate(shares)]
    assert first_of_arm(changes, "new") == changes[3]
    assert first_of_arm(changes, "old") == changes[5]
    assert first_of_arm(changes, "other") is None


def test_a_launch_is_told_from_its_beginning_to_its_end() -> None:
    changes = [Change(TIME, "maya", "ahead in the rehearsal.", {"new": 0.2})]
    begin = "maya launched it at 2023-11-14 22:13:20: ahead in the rehearsal."
    assert launch_story(launch(State.RUNNING), changes) == begin
    over = launch(State.ROLLED_BACK, reason="fewer orders")
    ended = [*changes, Change(TIME + MICROSECONDS, "", "", {"new": 0.0}), Change(TIME + 9 * MICROSECONDS, "", "", {})]
    assert launch_story(over, ended) == f"{begin} It was rolled back at 2023-11-14 22:13:21: fewer orders."
    assert launch_story(launch(State.COMPLETED), []) == "It was completed at 2023-11-14 22:13:20."
    assert launch_story(None, []) == ""


def test_a_reward_that_is_a_success_and_a_guardrail_has_one_tile() -> None:
    metrics = [{**METRIC, "role": "success"}, {**METRIC, "role": "guardrail"}]
    report = {"visitors": 9, "metrics": [*metrics, {**METRIC, "reward": "click", "role": "guardrail", "low": None}]}
    shown = launch_values(launch(State.RUNNING, report=report), {"click": 1.0, "revenue": 0.1}, [])
    first, second = shown["tiles"]
    assert (first.reward, first.role) == ("objective (click + 0.1 revenue)", "success and guardrail")
    assert (second.reward, second.verdict, second.band) == ("click", "no evidence yet", None)
    assert shown["steps"] == [("20%", "past"), ("50%", "current"), ("100%", "to come")]


def test_the_confidence_that_the_page_names_is_that_of_the_intervals() -> None:
    assert inspect.signature(DifferenceTest.estimate).parameters["level"].default == 0.01
