"""The course of a launch by its plan among simulated visitors: the shares that it gets, and how it ends.

The rules are those that move a running service (`zoosim.monitoring`), without its health checks. Visitors come in
batches, so that a launch that ends early draws no more of them than it needs.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from zoosim.core.durations import HOUR
from zoosim.core.types import FloatArray
from zoosim.monitoring.difference import DifferenceTest
from zoosim.monitoring.launch import Event, Metric, State, new_tests, next_event, next_state, verdict_of
from zoosim.monitoring.launch_plan import Plan

LOOK = 0.25
"""Hours between two looks at a launch, at first; a service looks all the time."""

LOOK_PART = 0.03
"""Part of the time passed that lies between two looks where that is longer than `LOOK`."""

ENDED = (State.COMPLETED, State.ROLLED_BACK)


class Arrivals(NamedTuple):
    """Visitors in the order in which they come, `(n,)` each, and what each would earn in either arm.

    Attributes:
        hour: Hours since the launch began, at their first decision.
        arm: A uniform draw that says who decides for them.
        today: What they earn within the window by the champion.
        new: The same by the new model.
    """

    hour: FloatArray
    arm: FloatArray
    today: FloatArray
    new: FloatArray

    def part(self, rows: slice) -> "Arrivals":
        """Return some of them."""
        return Arrivals(*(column[rows] for column in self))

    def and_then(self, others: "Arrivals") -> "Arrivals":
        """Return them with others behind them."""
        return Arrivals(*(np.concatenate(pair) for pair in zip(self, others, strict=True)))


class Course(NamedTuple):
    """How a launch went: its last state, the hour of it, and the new model's shares of all visitors, each from when."""

    state: State
    hour: float
    starts: tuple[float, ...]
    shares: tuple[float, ...]

    def share_at(self, hour: FloatArray) -> FloatArray:
        """Return the new model's share at each hour."""
        return np.array(self.shares)[np.searchsorted(self.starts, hour, side="right") - 1]

    def mean_share(self, horizon: float) -> float:
        """Return the new model's mean share over the hours from 0 to `horizon`."""
        ends = np.minimum([*self.starts[1:], horizon], horizon)
        hours = np.maximum(ends - np.array(self.starts), 0.0)
        return float(hours @ np.array(self.shares)) / horizon

    def then(self, hour: float, state: State, share: float) -> "Course":
        """Return the course with another share from an hour on."""
        return Course(state, hour, (*self.starts, hour), (*self.shares, share))


def looks_until(horizon: float) -> Iterator[float]:
    """Yield the hours at which a launch is looked at: often at first, later by parts of the time passed."""
    now = LOOK
    while now < horizon:
        yield now
        now += max(LOOK, LOOK_PART * now)
    yield horizon


class LaunchByPlan:
    """A launch that is moved by its plan, from one look at it to the next."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._metrics: list[Metric] = [each.metric for each in plan.metrics]
        self._tests: list[DifferenceTest] = new_tests(self._metrics, level=plan.level, ship_level=plan.ship_level)
        self._compared = 1.0 - plan.holdback
        self._step = 0
        self._since = 0.0
        self._in_step = 0
        self.course = Course(State.RUNNING, 0.0, (0.0,), (self._compared * plan.steps[0],))

    @property
    def has_ended(self) -> bool:
        """True once it has shipped or was taken back."""
        return self.course.state in ENDED

    def count(self, visitors: Arrivals) -> None:
        """Count visitors whose window is over."""
        is_compared = visitors.arm < self._compared
        compared = Arrivals(*(column[is_compared] for column in visitors))
        share = self.course.share_at(compared.hour)
        is_new = compared.arm < share
        earned = np.where(is_new, compared.new, compared.today)
        for metric, test in zip(self._metrics, self._tests, strict=True):
            within = earned.clip(metric.reward.low, metric.reward.high)
            test.update(is_new, share / self._compared, within)
        self._in_step += len(earned)

    def look(self, now: float) -> None:
        """Do what is due at an hour: go on to the next share, ship, take back, or nothing."""
        plan = self._plan
        state = self.course.state
        passed = now - self._since
        event = next_event(
            state,
            verdict_of(self._metrics, self._tests, held=state is State.PAUSED)[0],
            (),
            step_is_over=passed >= plan.duration(self._step) / HOUR and self._in_step >= plan.least,
            is_last_step=self._step == len(plan.steps) - 1,
            is_expired=plan.is_expired(round(passed * HOUR)),
        )
        if event is None:
            return
        if event is Event.STEPPED:
            self._step += 1
            self._in_step = 0
            self._since = now
        after = next_state(state, event)
        shares = {State.COMPLETED: self._compared, State.ROLLED_BACK: 0.0}
        self.course = self.course.then(now, after, shares.get(after, self._compared * plan.steps[self._step]))


def play_launch(plan: Plan, batches: Iterable[Arrivals], looks: Iterable[float], window: float) -> Course:
    """Return the course of a launch by its plan.

    Args:
        plan: The plan.
        batches: Visitors in the order in which they come, in batches; no more are taken than the launch needs.
        looks: The hours at which it is looked at, growing.
        window: Hours in which what a visitor earns counts, from the first decision on.
    """
    launch = LaunchByPlan(plan)
    coming = iter(batches)
    waiting = Arrivals(*(np.zeros(0) for _ in Arrivals._fields))
    is_all = False
    for now in looks:
        # Those who come later than this look are not needed yet.
        while not is_all and (not len(waiting.hour) or waiting.hour[-1] + window <= now):
            batch = next(coming, None)
            is_all = batch is None
            waiting = waiting if batch is None else waiting.and_then(batch)
        due = int(np.searchsorted(waiting.hour + window, now, side="right"))
        launch.count(waiting.part(slice(due)))
        waiting = waiting.part(slice(due, None))
        launch.look(now)
        if launch.has_ended:
            break
    return launch.course
