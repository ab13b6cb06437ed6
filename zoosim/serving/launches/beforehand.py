"""What a launch says before it begins: after how many visitors, and when, it finds what it is set to find.

By what visitors earned in the newest rows of the log. A drop, or a lift, of just the size that the plan names is found
by half of such launches before the number that is told, and by eight of ten within the interval.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec
import numpy as np

from zoosim.core.durations import HOUR
from zoosim.core.forecasts import UNTIL_FOUND, Forecast
from zoosim.monitoring.difference import BETTER, HARM, DifferenceTest
from zoosim.monitoring.launch import MOST_TOLD, Role, events_in_words, new_tests
from zoosim.monitoring.launch_plan import MetricPlan, Plan
from zoosim.monitoring.sample_size import information, information_needed
from zoosim.serving.events import Choice, Feedback, Row, Start
from zoosim.serving.forecasts.kept import with_forecasts
from zoosim.serving.launches.state import launch_in, with_launch
from zoosim.serving.launches.traffic import Traffic
from zoosim.serving.launches.windows import VisitorWindows
from zoosim.serving.projection import Projection

ROWS = 20_000
"""Rows of the log, the newest, by which it is said."""

LEAST_VISITORS = 100
"""Visitors whose rewards must be known."""

POWERS = (0.1, 0.5, 0.9)
"""Chances that it is found by the lower end of the interval, by the number that is told, and by the upper end."""


class Baseline(Projection):
    """Follows the log to what its visitors earn, as a launch would count them.

    Attributes:
        traffic: How many come.
        time: When the newest row came.
    """

    def __init__(self, plan: Plan, window: int, weights: Mapping[str, float], by_event: bool) -> None:
        """Begin without visitors.

        Args:
            plan: The plan of the launch.
            window: Microseconds in which what a visitor earns counts.
            weights: The weight of each reward in the objective.
            by_event: Whether each decision counts for itself.
        """
        self._plan = plan
        self._window = window
        self._weights = weights
        self._windows = VisitorWindows(by_event)
        self._earned: list[list[float]] = []
        self.traffic = Traffic()
        self.time = 0

    def apply(self, row: Row) -> None:
        """Read the next row."""
        self.time = row.time
        super().apply(row)

    def on_choice(self, row: Row, choice: Choice) -> None:
        """Count a decision's visitor, if that is a new one."""
        if choice.is_forgotten:
            return
        visitor = self._windows.number_of(row, choice)
        if self._windows.is_first(visitor):
            self._windows.open(row, visitor, self._window, False, 0.0)
            self.traffic.come(row.time)
        self._windows.enter(row, visitor)

    def on_feedback(self, row: Row, feedback: Feedback) -> None:
        """Enter what a visitor earned."""
        self._windows.earn(row, feedback)

    def on_tick(self, row: Row) -> None:
        """Take the visitors whose windows are over."""
        for visitor in self._windows.close(row.time):
            values = [visitor.earned(metric.reward, self._weights) for metric in self._plan.metrics]
            self._earned.append(values)

    @property
    def visitors(self) -> int:
        """Visitors whose rewards are known."""
        return len(self._earned)

    def moments(self, place: int) -> tuple[float, float]:
        """Return the mean and the variance of what visitors earn by the metric at a place of the plan."""
        metric = self._plan.metrics[place]
        values = np.clip([earned[place] for earned in self._earned], metric.low, metric.high)
        return float(values.mean()), float(values.var())


class Beforehand(NamedTuple):
    """Sentences on what a launch will find and when, and the same as forecasts."""

    sentences: list[str]
    forecasts: list[Forecast]


def said_of(plan: Plan, baseline: Baseline, part: float, when: datetime, **made: str) -> Beforehand:
    """Return what a launch says beforehand.

    Args:
        plan: Its plan.
        baseline: What visitors earn now.
        part: The part of the visitors that the new model and the champion have together.
        when: When it begins.
        **made: Further fields of the forecasts: of which model, by which version.
    """
    if baseline.visitors < LEAST_VISITORS:
        known = f"{baseline.visitors:,} visitors whose rewards are known, expected {LEAST_VISITORS:,}"
        return Beforehand([f"How long it takes cannot be said beforehand: got {known}."], [])
    per_hour = baseline.traffic.per_hour(baseline.time) * part
    tests = new_tests([each.metric for each in plan.metrics], level=plan.level, ship_level=plan.ship_level)
    said = Beforehand([], [])
    for place, (metric, test) in enumerate(zip(plan.metrics, tests, strict=True)):
        claim = BETTER if metric.role is Role.SUCCESS else HARM
        effect = _effect(metric, claim)
        found = _visitors_until_found(plan, test, claim, baseline.moments(place), per_hour)
        if found is None:
            said.sentences.append(f"{metric.reward}: when {effect} is found cannot be said: nothing was earned so far.")
            continue
        low, value, high = found
        if not high < MOST_TOLD:
            said.sentences.append(
                f"{metric.reward}: {effect} may take more than {MOST_TOLD:,.0f} visitors to be found."
            )
            continue
        within = events_in_words(value, per_hour, "visitors", when)
        said.sentences.append(f"{metric.reward}: {effect} is found after about {within}.")
        forecast = Forecast(
            quantity=UNTIL_FOUND,
            reward=metric.reward,
            value=value,
            low=low,
            high=high,
            level=POWERS[2] - POWERS[0],
            horizon=round(high),
            made=when.isoformat(timespec="seconds"),
            by="zoosim deploy launch",
            rows=baseline.visitors,
            about=effect,
            **made,
        )
        said.forecasts.append(forecast)
    return said


def with_said(start: Start, said: Beforehand) -> Start:
    """Return a start that holds what its launch says beforehand."""
    launch = launch_in(start)
    assert launch is not None
    return with_forecasts(with_launch(start, msgspec.structs.replace(launch, said=said.sentences)), said.forecasts)


def _effect(metric: MetricPlan, claim: int) -> str:
    size = metric.lift if claim == BETTER else metric.drop
    noun = "a lift" if claim == BETTER else "a drop"
    return f"{noun} of {size:.1%}" if metric.relative else f"{noun} of {size:.3g}"


def _visitors_until_found(
    plan: Plan, test: DifferenceTest, claim: int, moments: tuple[float, float], per_hour: float
) -> tuple[float, float, float] | None:
    """Return after how many visitors a test has shown a claim, with each of `POWERS`; None where nobody knows."""
    mean, variance = moments
    distance = float(test.reward.distances[claim]) * (mean if test.reward.relative else 1.0)
    if not distance > 0.0 or not variance > 0.0:
        return None
    needed = [information_needed(1.0 / test.levels[claim], power=power) for power in POWERS]
    low, value, high = (_through_the_steps(plan, each, distance, variance, per_hour) for each in needed)
    return low, value, high


def _through_the_steps(plan: Plan, needed: float, distance: float, variance: float, per_hour: float) -> float:
    """Return after how many visitors the shares of a plan, one after the other, have told as much as is needed."""
    visitors = 0.0
    for step, share in enumerate(plan.steps):
        of_each = information(distance, variance, share)
        in_step = max(plan.duration(step) / HOUR * per_hour, float(plan.least))
        if step + 1 == len(plan.steps) or in_step * of_each >= needed:
            break
        visitors += in_step
        needed -= in_step * of_each
    # What tells a small part of nothing tells nothing, as numbers have it.
    return visitors + needed / of_each if of_each else math.inf
