"""One rehearsed launch: how it went, what it earned or cost against never launching, and what asking cost."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.monitoring.launch import State
from zoosim.monitoring.launch_plan import Plan
from zoosim.rehearsal.launches.course import Arrivals, looks_until, play_launch
from zoosim.rehearsal.launches.traffic import Traffic, Visits


class Earnings(Protocol):
    """What visits earn by the champion and by the new model, in one shop.

    Attributes:
        today: What each row of the log is expected to earn by the champion `(n,)`.
        new: The same by the new model `(n,)`.
    """

    @property
    def today(self) -> FloatArray: ...

    @property
    def new(self) -> FloatArray: ...

    def draw(self, rows: IntArray, is_new: bool, rng: np.random.Generator) -> FloatArray:
        """Draw what visits earn, each a row of the log, `(m,)`, by the new model or by the champion."""
        ...


class Delays(NamedTuple):
    """How late rewards come: delays in hours that one is drawn from, `(m,)`; empty where they come at once."""

    hours: FloatArray

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Draw the delays of some rewards."""
        if not len(self.hours):
            return np.zeros(count)
        return self.hours[rng.integers(0, len(self.hours), count)]


class Terms(NamedTuple):
    """The terms of a rehearsal that hold for each of its launches.

    Attributes:
        plan: The plan.
        window: Hours in which what a visitor earns counts, from the first decision on.
        horizon: Hours that are planned for.
        delays: How late rewards come.
    """

    plan: Plan
    window: float
    horizon: float
    delays: Delays


class Outcome(NamedTuple):
    """The outcome of one launch, over the horizon; rewards are those expected, over the luck of visits.

    Attributes:
        number: The number of the shop and of its visitors.
        state: How it stands in the end.
        hour: When it shipped or was taken back; the horizon where it did neither.
        effect: By what part the new model truly earns more than the champion.
        net: What was earned above what the champion alone would have.
        asking: What was not earned since nobody knew beforehand which of both is better.
        baseline: What the champion alone would have earned.
        starts: The hours at which the new model's share changed.
        shares: The new model's share of all visitors from each on.
    """

    number: int
    state: State
    hour: float
    effect: float
    net: float
    asking: float
    baseline: float
    starts: tuple[float, ...]
    shares: tuple[float, ...]

    @property
    def has_shipped(self) -> bool:
        """True where the new model became the champion."""
        return self.state is State.COMPLETED

    @property
    def was_taken_back(self) -> bool:
        """True where the champion stayed."""
        return self.state is State.ROLLED_BACK

    def is_regretted(self, bearable: float) -> bool:
        """Return whether it cost more than a bearable part of what the champion alone would have earned."""
        return self.net < -bearable * self.baseline


def rehearse_once(number: int, earnings: Earnings, traffic: Traffic, terms: Terms, rng: np.random.Generator) -> Outcome:
    """Launch the new model once.

    Args:
        number: The number of the shop and of its visitors.
        earnings: What visits earn there.
        traffic: Who comes.
        terms: Plan and horizon.
        rng: Source of all draws.
    """
    batches = (_arrivals(visits, earnings, terms, rng) for visits in traffic.periods(rng))
    course = play_launch(terms.plan, batches, looks_until(terms.horizon), terms.window)
    today = float(earnings.today[traffic.rows].mean())
    gain = float(earnings.new[traffic.rows].mean()) - today
    visits = traffic.visits_per_hour * terms.horizon
    net = gain * visits * course.mean_share(terms.horizon)
    has_ended = course.state in (State.COMPLETED, State.ROLLED_BACK)
    return Outcome(
        number=number,
        state=course.state,
        hour=course.hour if has_ended else terms.horizon,
        effect=gain / today if today else 0.0,
        net=net,
        asking=max(gain, 0.0) * visits - net,
        baseline=today * visits,
        starts=course.starts,
        shares=course.shares,
    )


def _arrivals(visits: Visits, earnings: Earnings, terms: Terms, rng: np.random.Generator) -> Arrivals:
    """Return the visitors of a period, with what each would earn within the window in either arm."""
    firsts = np.flatnonzero(visits.is_first)
    visitor = np.cumsum(visits.is_first) - 1
    since_first = visits.hour - visits.hour[firsts][visitor]
    # A reward that comes later is earned, but not by the test, which waits for no visitor longer than for others.
    counts = since_first + terms.delays.draw(len(visitor), rng) <= terms.window
    today = _sums(earnings.draw(visits.row, False, rng), counts, visitor, len(firsts))
    new = _sums(earnings.draw(visits.row, True, rng), counts, visitor, len(firsts))
    hour = visits.hour[firsts]
    order = np.argsort(hour, kind="stable")
    return Arrivals(hour[order], rng.random(len(firsts)), today[order], new[order])


def _sums(earned: FloatArray, counts: BoolArray, visitor: IntArray, n_visitors: int) -> FloatArray:
    return np.asarray(np.bincount(visitor, np.where(counts, earned, 0.0), n_visitors), float)


def arrivals_of_a_period(earnings: Earnings, traffic: Traffic, terms: Terms, rng: np.random.Generator) -> Arrivals:
    """Return the visitors of one period, by which it is said beforehand how long a launch takes."""
    periods: Iterator[Visits] = traffic.periods(rng)
    return _arrivals(next(periods), earnings, terms, rng)
