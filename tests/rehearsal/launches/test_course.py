"""Launches by plan among simulated visitors: they ship, are taken back or wait, however their visitors come."""

from collections.abc import Iterator

import numpy as np
import pytest

from zoosim.monitoring.launch import State
from zoosim.monitoring.launch_plan import Plan
from zoosim.rehearsal.launches.course import Arrivals, Course, looks_until, play_launch

WINDOW = 0.1
HOURS = 60.0


def plan_with(**fields: object) -> Plan:
    return Plan.model_validate(fields)


def arrivals(effect: float, n: int = 12_000) -> Arrivals:
    rng = np.random.default_rng(0)
    hour = np.sort(rng.random(n)) * HOURS
    luck = rng.random(n)
    rates = (0.3, 0.3 * (1.0 + effect))
    return Arrivals(hour, rng.random(n), *((luck < rate).astype(float) for rate in rates))


def course_of(effect: float, plan: Plan, n_batches: int = 1) -> Course:
    visitors = arrivals(effect)
    ends = np.linspace(0, len(visitors.hour), n_batches + 1).astype(int)
    batches = [visitors.part(slice(*ends[place : place + 2])) for place in range(n_batches)]
    return play_launch(plan, batches, looks_until(HOURS), WINDOW)


def test_the_better_ships_the_worse_is_taken_back_and_the_same_waits() -> None:
    plan = plan_with(ship_level=0.01)
    better, worse, same = (course_of(effect, plan) for effect in (0.5, -0.5, 0.0))
    assert better.state is State.COMPLETED
    assert better.shares[-1] == 0.95
    assert worse.state is State.ROLLED_BACK
    assert worse.shares[-1] == 0.0
    assert same.state is State.CANNOT_TELL
    assert max(better.hour, worse.hour) < HOURS


def test_batches_of_visitors_leave_the_same_course() -> None:
    assert course_of(0.2, plan_with(), 7) == course_of(0.2, plan_with())


def test_no_more_visitors_are_drawn_than_a_launch_needs() -> None:
    taken = []
    visitors = arrivals(-0.9)

    def batches() -> Iterator[Arrivals]:
        for place in range(60):
            taken.append(place)
            yield visitors.part(slice(200 * place, 200 * (place + 1)))

    course = play_launch(plan_with(), batches(), looks_until(HOURS), WINDOW)
    assert course.state is State.ROLLED_BACK
    assert len(taken) < 60


def test_what_cannot_be_told_is_taken_back_after_the_days_of_its_plan() -> None:
    course = course_of(0.0, plan_with(most_days=1, ship_level=0.01))
    assert course.state is State.ROLLED_BACK
    # Three shares of an hour, the last one for an hour, and a day: looks lie up to a hundredth of the time apart.
    assert course.hour == pytest.approx(28.0, abs=1.0)


def test_a_signal_that_falls_holds_the_launch() -> None:
    metrics = [{"role": "success"}, {"role": "signal", "drop": 0.2, "margin": 0.0}]
    course = course_of(-0.5, plan_with(metrics=metrics, ship_level=0.01))
    assert course.state is State.PAUSED


def test_the_mean_share_weighs_each_by_its_hours() -> None:
    course = Course(State.RUNNING, 0.0, (0.0,), (0.1,)).then(10.0, State.COMPLETED, 0.9)
    assert course.mean_share(40.0) == pytest.approx((10 * 0.1 + 30 * 0.9) / 40)
    assert course.mean_share(5.0) == pytest.approx(0.1)


def test_looks_are_often_at_first_and_end_with_the_horizon() -> None:
    looks = list(looks_until(100.0))
    assert looks[:3] == [0.25, 0.5, 0.75]
    assert looks[-1] == 100.0
    assert max(np.diff(looks) / looks[:-1]) <= 1.0
    assert np.diff(looks)[-5:-1].min() > 0.5
