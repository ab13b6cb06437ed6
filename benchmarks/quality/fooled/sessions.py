"""Rewards of a user's visits that stand for one another: booked on each, on the last alone, or once a day."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.quality.fooled.shop import DAY, DAYS, START, VISITORS, Case, Rows, Shop, Way, draw_rows
from zoosim.core.types import FloatArray, IntArray

SESSIONS = 1_000
MINUTE = 60_000_000
SPREAD = 0.5
"""Standard deviation of a visitor's own taste, on the logit scale."""

Book = Callable[["Visits"], FloatArray]
"""What rewards a log ends up with `(n,)`, of those that visits earned."""


class Visits(NamedTuple):
    """Rows of a log in order of time, whose sessions are numbered `(n,)`."""

    rows: Rows
    session: IntArray

    def of_session(self, values: FloatArray) -> FloatArray:
        """Return for each row the sum of `values (n,)` over its session."""
        return np.asarray(np.bincount(self.session, values)[self.session])

    def is_last(self, among: FloatArray) -> FloatArray:
        """Return 1 in the last row of each session that has `among (n,)` above 0, and 0 elsewhere."""
        last = np.full(self.session.max() + 1, -1)
        chosen = np.flatnonzero(among > 0.0)
        last[self.session[chosen]] = chosen
        marks = np.zeros(len(self.session))
        marks[last[last >= 0]] = 1.0
        return marks

    def is_first(self, among: FloatArray) -> FloatArray:
        """Return 1 in the first row of each session that has `among (n,)` above 0, and 0 elsewhere."""
        return Visits(self.rows, self.session[::-1]).is_last(among[::-1])[::-1]


def draw_sessions(
    rng: np.random.Generator, base: float = -1.5, spread: float = SPREAD, longest: int = 6, n: int = SESSIONS
) -> Visits:
    """Draw sessions of 2 decisions up to the `longest`, a minute or two apart, of visitors with tastes of their own."""
    shop = Shop(rng, base=base)
    session = np.repeat(np.arange(n), rng.integers(2, longest + 1, size=n))
    starts = START + rng.integers(DAYS * DAY, size=n)
    place = np.arange(len(session)) - np.searchsorted(session, session)
    times = starts[session] + place * MINUTE + rng.integers(MINUTE, size=len(session))
    order = np.argsort(times, kind="stable")
    session = session[order]
    taste = spread * rng.normal(size=n)
    rows = draw_rows(shop, features=shop.visitors(n)[session], shift=taste[session][:, None], times=times[order])
    return Visits(rows, session)


def value_of_sessions(rng: np.random.Generator, shop: Shop, spread: float = SPREAD) -> float:
    """Return what a decision truly earns."""
    return shop.value(spread * rng.normal(size=(VISITORS, 1)))


def session_click_on_each_decision(rng: np.random.Generator) -> Case:
    """A click of a session is booked on each of its decisions; users have ids."""
    return _booked(rng, _on_each)


def session_click_on_each_decision_without_ids(rng: np.random.Generator) -> Case:
    """A click of a session is booked on each of its decisions."""
    return _booked(rng, _on_each, has_ids=False)


def session_revenue_on_each_decision(rng: np.random.Generator) -> Case:
    """What a session spends is booked on each of its decisions; users have ids."""
    return _booked(rng, lambda visits: visits.of_session(visits.rows.rewards), has_amounts=True)


def session_revenue_on_each_decision_without_ids(rng: np.random.Generator) -> Case:
    """What a session spends is booked on each of its decisions."""
    return _booked(rng, lambda visits: visits.of_session(visits.rows.rewards), has_ids=False, has_amounts=True)


def last_click_of_a_session(rng: np.random.Generator) -> Case:
    """Of a session's clicks the last one alone is kept; users have ids."""
    return _booked(rng, _last_click, base=-0.5)


def last_click_of_a_session_without_ids(rng: np.random.Generator) -> Case:
    """Of a session's clicks the last one alone is kept."""
    return _booked(rng, _last_click, base=-0.5, has_ids=False)


def first_click_of_a_session(rng: np.random.Generator) -> Case:
    """Of a session's clicks the first one alone is kept; users have ids."""
    return _booked(rng, lambda visits: visits.is_first(visits.rows.rewards), base=-0.5)


def session_total_on_its_last_decision(rng: np.random.Generator) -> Case:
    """All that a session spends is booked on its last decision; users have ids."""
    return _booked(rng, _on_the_last, has_amounts=True)


def session_total_on_its_last_decision_without_ids(rng: np.random.Generator) -> Case:
    """All that a session spends is booked on its last decision."""
    return _booked(rng, _on_the_last, has_amounts=True, has_ids=False)


def _on_each(visits: Visits) -> FloatArray:
    return np.asarray((visits.of_session(visits.rows.rewards) > 0.0).astype(float))


def _last_click(visits: Visits) -> FloatArray:
    return visits.is_last(visits.rows.rewards)


def _on_the_last(visits: Visits) -> FloatArray:
    return visits.is_last(np.ones(len(visits.rows))) * visits.of_session(visits.rows.rewards)


def _booked(
    rng: np.random.Generator, book: Book, base: float = -1.5, *, has_ids: bool = True, has_amounts: bool = False
) -> Case:
    visits = draw_sessions(rng, base)
    rows = visits.rows
    value = value_of_sessions(rng, rows.shop)
    if has_amounts:
        rows.rewards = rows.rewards * rng.lognormal(0.0, 0.5, size=len(rows))
        value *= float(np.exp(0.125))
    rows.rewards = book(visits)
    rows.users = visits.session if has_ids else None
    return rows.case(value)


BOOKED: tuple[Way, ...] = (
    session_click_on_each_decision,
    session_click_on_each_decision_without_ids,
    session_revenue_on_each_decision,
    session_revenue_on_each_decision_without_ids,
    last_click_of_a_session,
    last_click_of_a_session_without_ids,
    first_click_of_a_session,
    session_total_on_its_last_decision,
    session_total_on_its_last_decision_without_ids,
)
