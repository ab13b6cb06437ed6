"""The study of launches: its visitors, the courses that launches take, what they cost, and its page."""

from dataclasses import replace

import numpy as np
import pytest

from studies.launches import build_page, measure
from studies.launches.courses import clicks_lost, planned_course, ramp_course
from studies.launches.measuring import EFFECTS, METHODS, PLAN, Run
from zoosim.core.errors import ConfigError
from zoosim.monitoring.launch import State
from zoosim.monitoring.launch_plan import Plan
from zoosim.playground.visitors import Visitors, draw_visitors
from zoosim.rehearsal.launches.course import Course


def test_visitors_are_as_they_say() -> None:
    visitors = draw_visitors(0, days=20)
    assert len(visitors.hour) == pytest.approx(400_000, rel=0.1)
    assert (np.diff(visitors.hour) >= 0.0).all()
    assert set(visitors.rate) == {0.05 * 0.8, 0.05 * 1.2}
    by_hour = np.bincount(visitors.hour.astype(int) % 24)
    assert by_hour.max() > 2.0 * by_hour.min()


def test_what_is_lost_is_what_the_new_model_decides() -> None:
    visitors = Visitors(np.arange(4.0), np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.0, 0.6, 0.6, 0.0]), np.zeros(4))
    course = Course(State.RUNNING, 0.0, (0.0,), (0.5,)).then(2.0, State.COMPLETED, 1.0)
    assert clicks_lost(course, visitors, -0.2) == pytest.approx(0.2 * (0.1 + 0.3 + 0.4))
    assert clicks_lost(course.then(3.0, State.ROLLED_BACK, 0.0), visitors, 0.1) == pytest.approx(-0.1 * (0.1 + 0.3))


def test_a_ruinous_model_is_taken_back_and_a_far_better_one_ships() -> None:
    visitors = draw_visitors(1, days=4)
    plan = Plan.model_validate({})
    worse = planned_course(plan, visitors, -0.9)
    assert worse.state is State.ROLLED_BACK
    assert worse.shares[0] == pytest.approx(plan.steps[0] * 0.95)
    assert worse.shares[-1] == 0.0
    better = planned_course(plan, visitors, 1.0)
    assert better.state is State.COMPLETED
    assert better.shares[-1] == 0.95
    hours = [plan.duration(step) / 3.6e9 for step in range(len(plan.steps) - 1)]
    assert better.starts[1 : len(plan.steps)] == pytest.approx(np.cumsum(hours), abs=0.5)


def test_the_ramp_ships_what_it_cannot_tell_after_thirty_hours() -> None:
    visitors = draw_visitors(1, days=2)
    same = ramp_course(visitors, 0.0)
    assert (same.state, same.hour) == (State.COMPLETED, 30.0)
    assert same.starts == (0.0, 6.0, 12.0, 18.0, 24.0, 30.0)
    assert ramp_course(visitors, -0.9).state is State.ROLLED_BACK


def test_launches_are_measured_by_seed() -> None:
    rows = measure(seeds="0:1", jobs=1, days=2)
    assert [(row.effect, row.method) for row in rows] == [(e, m) for e in EFFECTS for m in METHODS]


def test_the_page_says_what_was_found() -> None:
    rows = [
        Run(seed, effect, method, *ended, -effect * 1_000 * (1 + (method != PLAN)), (0.0, 30.0), (0.01, 1.0))
        for seed in range(8)
        for effect in EFFECTS
        for method in METHODS
        for ended in [
            (State.ROLLED_BACK, 20.0)
            if method == PLAN and effect < 0.0
            else (State.COMPLETED, 30.0 + 15 * (method == PLAN))
        ]
    ]
    page = build_page(rows)
    assert (
        page.answer == "A model 20% worse costs 200 clicks (GrowthBook 400); one 10% better ships after 45 hours (30)."
    )
    found = [replace(row, state=State.ROLLED_BACK) if row.effect < 0.0 and row.seed < 3 else row for row in rows]
    assert build_page(found).details == [
        "In the 3 shops in which the ramp takes the worse model back, too, that costs 400 clicks, and 200 by plan."
    ]
    outcomes, targets = page.tables
    assert outcomes.rows[0][2:5] == ("0 (0\N{EN DASH}32%)", "8", "0")
    assert outcomes.rows[0][6] == "\N{EN DASH}"
    assert [row[1] for row in targets.rows[:2]] == ["0.50 (0.50\N{EN DASH}0.50)", "1.50 (1.50\N{EN DASH}1.50)"]


def test_options_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="launches: days"):
        measure(seeds="0:1", jobs=1, days=1)
    with pytest.raises(ConfigError, match="launches: plan"):
        measure(seeds="0:1", jobs=1, plan={"step": 1})
