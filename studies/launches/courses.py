"""The course of a launch in a shop, by a plan of the package, and by GrowthBook's default ramp."""

from typing import NamedTuple

import numpy as np

from studies.guardrails.growthbook import interval_half_width
from zoosim.core.durations import MICROSECONDS
from zoosim.core.types import BoolArray, FloatArray
from zoosim.monitoring.launch import Event, State, new_tests, next_event, next_state, verdict_of
from zoosim.monitoring.launch_plan import Plan
from zoosim.playground.visitors import Visitors
from zoosim.serving.rules import Rules

LOOK = 0.25
"""Hours between two looks at a launch by plan; a service looks all the time."""

RAMP = (0.01, 0.05, 0.10, 0.25, 0.50)
RAMP_LOOK = 6.0
"""The shares of GrowthBook's ramp, and the hours after which it looks, and goes on to the next."""

RAMP_LEVEL, RAMP_TUNED_TO = 0.05, 5_000.0
"""The level of its interval, one-sided, and the events to which that is tuned."""

HOUR = 3_600.0 * MICROSECONDS


class Course(NamedTuple):
    """How a launch went: its last state, the hour of it, and the new model's shares of all visitors, each from when."""

    state: State
    hour: float
    starts: tuple[float, ...]
    shares: tuple[float, ...]

    def share_at(self, hour: FloatArray) -> FloatArray:
        """Return the new model's share at each hour."""
        return np.array(self.shares)[np.searchsorted(self.starts, hour, side="right") - 1]

    def then(self, hour: float, state: State, share: float) -> "Course":
        """Return the course with another share from an hour on."""
        return Course(state, hour, (*self.starts, hour), (*self.shares, share))


def clicks_lost(course: Course, visitors: Visitors, effect: float) -> float:
    """Return how many clicks fewer there are, on average over their luck, than without the launch."""
    is_treated = visitors.arm < course.share_at(visitors.hour)
    return -effect * float(visitors.rate[is_treated].sum())


def planned_course(plan: Plan, visitors: Visitors, effect: float) -> Course:
    """Return the course by a plan, moved by the rules that move a running service, without faults of health."""
    metrics = [each.metric for each in plan.metrics]
    tests = new_tests(metrics, level=plan.level, ship_level=plan.ship_level)
    part = 1.0 - plan.holdback
    due = visitors.hour + (plan.window or Rules().wait) * MICROSECONDS / HOUR
    course = Course(State.RUNNING, 0.0, (0.0,), (part * plan.steps[0],))
    step = in_step = seen = 0
    since = 0.0
    for now in np.arange(LOOK, due[-1], LOOK).tolist():
        stop = int(np.searchsorted(due, now, side="right"))
        batch = Visitors(*(column[seen:stop] for column in visitors))
        seen = stop
        share = course.share_at(batch.hour)
        is_compared = batch.arm < part
        is_treated = batch.arm < share
        clicks = _clicks(batch, is_treated, effect)
        for test in tests:
            test.update(is_treated[is_compared], share[is_compared] / part, clicks[is_compared])
        in_step += int(is_compared.sum())
        event = next_event(
            course.state,
            verdict_of(metrics, tests)[0],
            (),
            step_is_over=now - since >= plan.duration(step) / HOUR and in_step >= plan.least,
            is_last_step=step == len(plan.steps) - 1,
        )
        if event is None:
            continue
        state = next_state(course.state, event)
        if event is Event.STEPPED:
            step += 1
            in_step = 0
            since = now
        shares = {State.COMPLETED: part, State.ROLLED_BACK: 0.0}
        course = course.then(now, state, shares.get(state, part * plan.steps[step]))
        if state in shares:
            break
    return course


def ramp_course(visitors: Visitors, effect: float) -> Course:
    """Return the course by GrowthBook's ramp: each share beside as many visitors of a control, clicks known at once.

    It is taken back where the interval of all visitors so far lies below 0, and ships at the end of the last share.
    """
    course = Course(State.RUNNING, 0.0, (0.0,), (RAMP[0],))
    for step in range(len(RAMP)):
        now = RAMP_LOOK * (step + 1)
        seen = Visitors(*(column[: np.searchsorted(visitors.hour, now)] for column in visitors))
        share = course.share_at(seen.hour)
        is_treated = seen.arm < share
        is_control = ~is_treated & (seen.arm < 2.0 * share)
        clicks = _clicks(seen, is_treated, effect)
        counts = np.array([is_control.sum(), is_treated.sum()])
        sums = np.array([clicks[is_control].sum(), clicks[is_treated].sum()])
        half = interval_half_width(counts, sums, RAMP_LEVEL, RAMP_TUNED_TO)
        means = sums / np.maximum(counts, 1)
        if sums.min() >= 1.0 and means[1] - means[0] + half < 0.0:
            return course.then(now, State.ROLLED_BACK, 0.0)
        if step + 1 < len(RAMP):
            course = course.then(now, State.RUNNING, RAMP[step + 1])
    return course.then(now, State.COMPLETED, 1.0)


def _clicks(visitors: Visitors, is_treated: BoolArray, effect: float) -> FloatArray:
    """Return who clicks: 0 or 1."""
    return np.asarray(visitors.luck < visitors.rate * (1.0 + effect * is_treated), np.float64)
