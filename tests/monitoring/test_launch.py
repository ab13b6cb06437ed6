"""The states of a launch, and the rule that ships or takes back."""

import math
from datetime import UTC, datetime
from itertools import product
from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import ConfigError
from zoosim.monitoring import (
    BETTER,
    HARM,
    NOT_WORSE,
    DifferenceTest,
    Event,
    Metric,
    Reward,
    Role,
    State,
    Verdict,
    judge,
    new_tests,
    next_event,
    next_state,
    said_beforehand,
)
from zoosim.monitoring.health import Action
from zoosim.monitoring.launch import TRANSITIONS, events_in_words

ALLOWED = {
    "pending": {"prepared": "ready", "taken back by a person": "rolled back"},
    "ready": {"started": "running", "taken back by a person": "rolled back"},
    "running": {
        "next share": "running",
        "time over without a verdict": "cannot tell yet",
        "shipped": "completed",
        "held by a signal or check": "paused",
        "paused by a person": "paused",
        "harm shown": "rolled back",
        "taken back by a person": "rolled back",
    },
    "cannot tell yet": {
        "no verdict in all the time there was": "rolled back",
        "shipped": "completed",
        "held by a signal or check": "paused",
        "paused by a person": "paused",
        "harm shown": "rolled back",
        "taken back by a person": "rolled back",
    },
    "paused": {
        "signal and checks clear": "running",
        "resumed by a person": "running",
        "paused by a person": "paused",
        "harm shown": "rolled back",
        "taken back by a person": "rolled back",
    },
    "completed": {"taken back by a person": "rolled back"},
    "rolled back": {},
}


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_every_event_in_every_state(state: State, event: Event) -> None:
    after = ALLOWED[state].get(event)
    if after is None:
        with pytest.raises(ConfigError, match=rf"^launch: {state}: got {event}, expected ") as error:
            next_state(state, event)
        assert "\n" not in str(error.value)
    else:
        assert next_state(state, event) == after


VERDICTS_AND_ACTIONS = list(product(State, Verdict, [(), *((action,) for action in Action)]))


@pytest.mark.parametrize(("state", "verdict", "actions"), VERDICTS_AND_ACTIONS)
def test_what_happens_next_is_possible_and_nothing_ships_by_chance(
    state: State, verdict: Verdict, actions: tuple[Action, ...]
) -> None:
    for step_is_over, is_last_step, is_expired, by_person in product((False, True), repeat=4):
        event = next_event(
            state,
            verdict,
            actions,
            step_is_over=step_is_over,
            is_last_step=is_last_step,
            is_expired=is_expired,
            paused_by_person=by_person,
        )
        assert event is None or event in TRANSITIONS[state]
        if event is Event.EXPIRED:
            assert (verdict, is_last_step, is_expired) == (Verdict.CANNOT_TELL, True, True)
        if event is Event.SHIPPED:
            assert verdict is Verdict.SHIP
            assert is_last_step
            assert Action.HOLD not in actions
        if event is Event.HARMED:
            assert verdict is Verdict.ROLL_BACK or Action.ROLL_BACK in actions
        elif state in (State.RUNNING, State.CANNOT_TELL, State.PAUSED):
            assert verdict is not Verdict.ROLL_BACK
            assert Action.ROLL_BACK not in actions
        if state is State.PAUSED and by_person:
            assert event in (None, Event.HARMED)


def follow(state: State, verdict: Verdict, *actions: Action, over: bool = False, last: bool = False) -> State:
    event = next_event(state, verdict, actions, step_is_over=over, is_last_step=last)
    return state if event is None else next_state(state, event)


def test_a_launch_from_the_start_to_its_end_and_back() -> None:
    state = next_state(next_state(State.PENDING, Event.PREPARED), Event.STARTED)
    assert follow(state, Verdict.SHIP) is State.RUNNING  # the share has its time
    assert next_event(state, Verdict.SHIP, (), step_is_over=True, is_last_step=False) is Event.STEPPED
    assert follow(state, Verdict.CANNOT_TELL, Action.FREEZE, Action.WARN) is State.RUNNING
    held = follow(state, Verdict.CANNOT_TELL, Action.HOLD)
    assert held is State.PAUSED
    assert follow(held, Verdict.HOLD) is State.PAUSED
    assert follow(held, Verdict.CANNOT_TELL) is State.RUNNING
    waiting = follow(state, Verdict.CANNOT_TELL, over=True, last=True)
    assert waiting is State.CANNOT_TELL
    assert follow(waiting, Verdict.CANNOT_TELL, over=True, last=True) is State.CANNOT_TELL
    assert follow(waiting, Verdict.SHIP, over=True, last=True) is State.COMPLETED
    expired = next_event(waiting, Verdict.CANNOT_TELL, (), step_is_over=True, is_last_step=True, is_expired=True)
    assert expired is Event.EXPIRED
    assert next_state(waiting, expired) is State.ROLLED_BACK
    assert follow(State.COMPLETED, Verdict.ROLL_BACK) is State.COMPLETED
    assert next_state(State.COMPLETED, Event.TAKEN_BACK) is State.ROLLED_BACK


CLICK = Metric(Reward("click", lift=0.2), Role.SUCCESS)
PROFIT = Metric(Reward("profit", margin=0.1), Role.GUARDRAIL)
VIEWS = Metric(Reward("views", margin=0.1), Role.SIGNAL)


def launch(n: int, **changes: float) -> list[DifferenceTest]:
    """Return the tests of three metrics after n events, whose means the new policy changes by these factors."""
    metrics = [CLICK, PROFIT, VIEWS]
    tests = new_tests(metrics)
    rng = np.random.default_rng(1)
    treated = rng.random(n) < 0.5
    for metric, test in zip(metrics, tests, strict=True):
        chance = 0.3 * np.where(treated, changes.get(metric.reward.name, 1.0), 1.0)
        test.update(treated, 0.5, (rng.random(n) < chance).astype(float))
    return tests


def verdict(tests: list[DifferenceTest], **options: Any) -> tuple[Verdict, str]:
    judgement = judge([CLICK, PROFIT, VIEWS], tests, share=0.5, **options)
    return judgement.verdict, judgement.sentence


def test_it_ships_what_improves_and_harms_nothing() -> None:
    told, sentence = verdict(launch(20_000, click=1.2))
    assert told is Verdict.SHIP
    assert sentence.startswith("click is better, and no guardrail is worse than its margin (+0.0")


def test_no_improvement_no_proof_and_no_events_never_ship() -> None:
    assert verdict(launch(20_000))[0] is Verdict.CANNOT_TELL
    assert verdict(launch(2_000, click=1.5))[0] is Verdict.CANNOT_TELL  # better, but the guardrail is not shown yet
    assert verdict(launch(0)) == (Verdict.CANNOT_TELL, "Cannot tell yet: nothing was earned so far.")


def test_it_says_what_it_waits_for() -> None:
    tests = launch(2_000, click=1.5)
    judgement = judge([CLICK, PROFIT, VIEWS], tests, share=0.5)
    assert tests[0].shown[BETTER]
    assert judgement.remaining == tests[1].remaining(NOT_WORSE, 0.5)
    events = f"{float(f'{judgement.remaining:.1e}'):,.0f}"
    assert judgement.sentence == f"Cannot tell yet: about {events} more decisions."
    timed = judge([CLICK, PROFIT, VIEWS], tests, share=0.5, per_hour=judgement.remaining / 2.0)
    assert timed.sentence == f"Cannot tell yet: about {events} more decisions (2.0 hours)."
    now = datetime(2025, 11, 24, 23, tzinfo=UTC)
    for hours, day in [(2.0, "2.0 hours: 2025-11-25 01:00 UTC"), (72.0, "72.0 hours: Thursday, 2025-11-27")]:
        dated = judge([CLICK, PROFIT, VIEWS], tests, share=0.5, per_hour=judgement.remaining / hours, now=now)
        assert dated.sentence == f"Cannot tell yet: about {events} more decisions ({day})."
    rare = judge([CLICK, PROFIT, VIEWS], tests, share=0.5, per_hour=judgement.remaining / 1e9, now=now)
    assert rare.sentence.endswith("(1,000,000,000.0 hours).")


def test_numbers_that_no_shop_has_are_not_told() -> None:
    assert events_in_words(9.96e11, 1.0) == "1,000,000,000,000 decisions (996,000,000,000.0 hours)"
    assert events_in_words(1e12, 1.0) == events_in_words(math.inf) == "a trillion or more decisions"


def test_it_says_beforehand_what_a_guardrail_needs() -> None:
    test = new_tests([CLICK, PROFIT])[1]
    # Both lie 10% of .1 away: 9.05 x .09 / (1/4 x .01^2) = 32,587 events, and 13.5 for 9.05 where 75% are asked for.
    sentence = said_beforehand(test, mean=0.1, variance=0.09, share=0.5, per_hour=1_000.0, guardrails=2)
    assert sentence == (
        "profit: a drop of 20.0% is found after about 33,000 decisions (32.6 hours); that it is not worse by 10.0% is "
        "shown after about 49,000 decisions (48.7 hours)."
    )
    with pytest.raises(ConfigError, match="events needed: distance: got 0, expected above 0"):
        said_beforehand(test, mean=0.0, variance=0.09, share=0.5, per_hour=1_000.0)


def test_a_guardrail_takes_back_whatever_else_is_better() -> None:
    told, sentence = verdict(launch(20_000, click=1.2, profit=0.7))
    assert told is Verdict.ROLL_BACK
    assert sentence.startswith("profit is worse than the holdback by more than its margin (-0.0")
    assert "; holdback 0.3" in sentence


def test_a_signal_holds_until_its_evidence_is_gone() -> None:
    fallen = launch(6_000, click=1.2, views=0.7)
    assert verdict(fallen) == (Verdict.HOLD, verdict(fallen)[1])
    signal = fallen[2]
    rng = np.random.default_rng(2)
    while signal.evidence[HARM] >= 100.0:
        treated = rng.random(100) < 0.5
        signal.update(treated, 0.5, (rng.random(100) < np.where(treated, 0.36, 0.3)).astype(float))
    assert signal.evidence[HARM] > 1.0
    assert verdict(fallen, held=True)[0] is Verdict.HOLD
    assert verdict(fallen, held=False)[0] is not Verdict.HOLD
    treated = rng.random(20_000) < 0.5
    signal.update(treated, 0.5, (rng.random(20_000) < np.where(treated, 0.36, 0.3)).astype(float))
    assert verdict(fallen, held=True)[0] is not Verdict.HOLD


def test_levels_are_shared_where_one_of_several_decides() -> None:
    tests = new_tests([CLICK, CLICK, PROFIT, PROFIT, VIEWS], level=0.02, ship_level=0.1)
    assert [test.levels for test in tests] == [
        (0.02, 0.02, 0.05),
        (0.02, 0.02, 0.05),
        (0.01, 0.02, 0.05),
        (0.01, 0.02, 0.05),
        (0.02, 0.02, 0.02),
    ]


def test_what_is_better_is_not_worse_where_it_is_a_success() -> None:
    rng = np.random.default_rng(1)
    treated = rng.random(2_000) < 0.5
    clicks = (rng.random(2_000) < np.where(treated, 0.36, 0.3)).astype(float)
    guardrail = Metric(Reward("click", margin=0.02), Role.GUARDRAIL)
    tests = new_tests([CLICK, guardrail])
    for test in tests:
        test.update(treated, 0.5, clicks)
    assert not tests[1].shown[NOT_WORSE]
    assert judge([CLICK, guardrail], tests, share=0.5).verdict is Verdict.SHIP
    other = Metric(Reward("view", margin=0.02), Role.GUARDRAIL)
    tests = [tests[0], new_tests([CLICK, other])[1]]
    tests[1].update(treated, 0.5, clicks)
    assert judge([CLICK, other], tests, share=0.5).verdict is Verdict.CANNOT_TELL


def test_launches_that_could_never_ship_are_refused() -> None:
    with pytest.raises(ConfigError, match="launch: no metric is a success"):
        new_tests([PROFIT])
    with pytest.raises(ConfigError, match="launch: guardrail click: margin 0, expected above 0"):
        new_tests([CLICK, Metric(Reward("click"), Role.GUARDRAIL)])


def test_a_judgement_of_no_time_is_none() -> None:
    assert math.isinf(judge([CLICK, PROFIT, VIEWS], launch(0), share=0.5).remaining)
