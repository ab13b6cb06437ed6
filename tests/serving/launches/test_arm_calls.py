"""A policy that fails or is slow more often than the champion's is found, whatever is usual."""

import numpy as np
import pytest

from zoosim.monitoring.health import Action
from zoosim.monitoring.launch import State
from zoosim.monitoring.launch_plan import Plan
from zoosim.serving.events import CHAMPION
from zoosim.serving.launches.arm_calls import ArmCalls, Calls
from zoosim.serving.launches.state import Launch

SHARES = {"holdback": 0.5, "new": 0.1, CHAMPION: 0.4}


def launched(**plan: object) -> ArmCalls:
    calls = ArmCalls()
    plan_fields = Plan.model_validate(plan).model_dump(mode="json")
    calls.follow(Launch(2, "new", plan_fields, State.RUNNING, 0, 0), SHARES)
    return calls


def call(calls: ArmCalls, count: int, of_new: dict[str, float], of_champion: dict[str, float], seed: int = 0) -> None:
    """Let a fifth of the calls be those of the new arm; chances of failing and of taking .2 s rather than 1 ms."""
    rng = np.random.default_rng(seed)
    for is_new, draw in zip(rng.random(count) < 0.2, rng.random(count), strict=True):
        chances = of_new if is_new else of_champion
        has_failed = draw < chances.get("failing", 0.0)
        seconds = 0.2 if draw > 1.0 - chances.get("slow", 0.0) else 0.001
        calls.note("new" if is_new else CHAMPION, seconds, bool(has_failed))


def found(calls: ArmCalls) -> list[str]:
    return [check.check for check in calls.checks("2026-11-28 12:00 UTC")]


@pytest.mark.parametrize("seed", range(5))
def test_what_both_do_alike_is_no_finding(seed: int) -> None:
    calls = launched()
    both = {"failing": 0.05, "slow": 0.2}
    call(calls, 5_000, both, both, seed)
    assert found(calls) == []
    assert calls.by_arm[CHAMPION].decided + calls.by_arm["new"].decided == 5_000


def test_a_policy_that_fails_is_taken_back() -> None:
    calls = launched()
    call(calls, 1_000, {"failing": 0.3}, {"failing": 0.01})
    [check] = calls.checks("2026-11-28 12:00 UTC")
    assert (check.check, check.action) == ("errors", Action.ROLL_BACK)
    assert "since 2026-11-28 12:00 UTC" in check.sentence
    assert 40 < calls.by_arm["new"].failed < 80


def test_a_slow_policy_is_taken_back_and_one_that_hurts_nobody_is_not() -> None:
    calls = launched()
    call(calls, 4_000, {"slow": 0.3}, {})
    assert found(calls) == ["latency"]
    assert "slower than 50 ms" in calls.checks("")[0].sentence
    patient = launched(slow=0.3)
    call(patient, 4_000, {"slow": 0.3}, {})
    assert found(patient) == []


def test_where_the_champion_is_as_slow_that_is_the_limit() -> None:
    calls = launched()
    call(calls, 4_000, {"slow": 0.3}, {"slow": 0.05})  # its slowest hundredth takes .2 s, and nothing takes longer
    assert found(calls) == []


def test_nothing_is_compared_without_a_launch_or_where_one_of_both_gets_nobody() -> None:
    calls = launched()
    call(calls, 1_000, {"failing": 0.3}, {})
    calls.follow(Launch(2, "new", {}, State.ROLLED_BACK, 0, 0), SHARES)
    assert found(calls) == []
    alone = launched()
    alone.follow(Launch(2, "new", Plan.model_validate({}).model_dump(mode="json"), State.RUNNING, 0, 0), {"new": 1.0})
    call(alone, 1_000, {"failing": 0.3}, {})
    assert found(alone) == []
    alone.note("other", 0.5, False)
    assert alone.by_arm["other"] == Calls(1, 0, 0.5)
