"""The course of a launch in a shop, by a plan of the package, and by GrowthBook's default ramp."""

import numpy as np

from studies.guardrails.growthbook import interval_half_width
from zoosim.core.durations import MICROSECONDS
from zoosim.core.types import BoolArray, FloatArray
from zoosim.monitoring.launch import State
from zoosim.monitoring.launch_plan import Plan
from zoosim.playground.visitors import Visitors
from zoosim.rehearsal.launches.course import LOOK, Arrivals, Course, play_launch
from zoosim.serving.rules import Rules

RAMP = (0.01, 0.05, 0.10, 0.25, 0.50)
RAMP_LOOK = 6.0
"""The shares of GrowthBook's ramp, and the hours after which it looks, and goes on to the next."""

RAMP_LEVEL, RAMP_TUNED_TO = 0.05, 5_000.0
"""The level of its interval, one-sided, and the events to which that is tuned."""

HOUR = 3_600.0 * MICROSECONDS


def clicks_lost(course: Course, visitors: Visitors, effect: float) -> float:
    """Return how many clicks fewer there are, on average over their luck, than without the launch."""
    is_treated = visitors.arm < course.share_at(visitors.hour)
    return -effect * float(visitors.rate[is_treated].sum())


def planned_course(plan: Plan, visitors: Visitors, effect: float) -> Course:
    """Return the course by a plan, moved by the rules that move a running service, without faults of health."""
    everybody = np.ones(len(visitors.hour), bool)
    clicks = [_clicks(visitors, is_new, effect) for is_new in (~everybody, everybody)]
    window = (plan.window or Rules().wait) * MICROSECONDS / HOUR
    looks = np.arange(LOOK, visitors.hour[-1] + window, LOOK).tolist()
    return play_launch(plan, [Arrivals(visitors.hour, visitors.arm, *clicks)], looks, window)


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
