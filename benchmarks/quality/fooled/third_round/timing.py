"""Rewards that are undone later, and clocks that disagree."""

from dataclasses import replace

import numpy as np

from benchmarks.quality.fooled.shop import (
    DAY,
    DAYS,
    LENGTH,
    ROWS,
    START,
    VISITORS,
    Case,
    Rows,
    Shop,
    Way,
    draw_rankings,
    draw_rows,
    ranked_clicks,
)
from benchmarks.quality.fooled.third_round.traffic import HOUR, SECOND, Visits, come, judged, open_shop, visit
from zoosim.core.types import FloatArray, IntArray


def returns_on_decisions_of_the_day(rng: np.random.Generator) -> Case:
    """What comes back is booked as -1 on some decision of that day; the value is of orders that are kept."""
    rows, returned = _orders(rng)
    _book(rows, *_day_of(rng, rows, returned), -np.ones(len(rows)))
    return _steady(rows)


def refunds_on_decisions_of_the_day(rng: np.random.Generator) -> Case:
    """Refunds stand as negative amounts on some decision of that day; the value is of what is not refunded."""
    rows, returned = _orders(rng)
    amounts = rng.lognormal(3.0, 0.5, size=len(rows))
    rows.rewards = rows.rewards * amounts
    _book(rows, *_day_of(rng, rows, returned), -amounts)
    return _steady(rows, float(np.exp(3.125)))


def returns_on_lists_of_the_day(rng: np.random.Generator) -> Case:
    """What comes back is booked as -1 on the top of some list of that day; the value is of orders that are kept."""
    rows, returned = _orders(rng, has_rankings=True)
    _book(rows, *_day_of(rng, rows, returned), -np.ones(len(rows)))
    return _steady(rows)


def returns_on_the_next_visit(rng: np.random.Generator) -> Case:
    """What a user brings back is booked as -1 on the next decision of that user, who has an id."""
    visits = come(rng, 230, sessions=(20, 50), visits=(1, 1), span=2 * DAYS * DAY)
    rows = visit(Shop(rng), visits, spread=0.5)
    returned = _returned(rng, rows)
    following = visits.next_of_user()
    origins = np.flatnonzero((returned > 0.0) & (following >= 0))
    _book(rows, origins, following[origins], -np.ones(len(rows)))
    return _steady(rows, spread=0.5)


def returns_of_weeks_not_yet_known(rng: np.random.Generator) -> Case:
    """Orders that come back are struck out when they do, 25 days later in the mean: most still stand."""
    rows, returned = _orders(rng, n=ROWS, is_steady=False)
    return _struck(rng, rows, returned, 25.0)


def refunds_not_yet_known_with_ids(rng: np.random.Generator) -> Case:
    """Amounts are struck out when the goods come back, and the last weeks' have not; users have ids."""
    visits = come(rng, 800, sessions=(1, 4), visits=(1, 3))
    rows = visit(open_shop(rng), visits, spread=0.5)
    rows.rewards = rows.rewards * rng.lognormal(3.0, 0.4, size=len(rows))
    return _struck(rng, rows, _returned(rng, rows), 6.0, spread=0.5, scale=float(np.exp(3.08)))


def returns_from_lists_not_yet_known(rng: np.random.Generator) -> Case:
    """Orders from rankings are struck out when they come back, and the last weeks' have not."""
    rows, returned = _orders(rng, n=ROWS, is_steady=False, has_rankings=True)
    return _struck(rng, rows, returned, 25.0)


def clock_of_a_host_fast(rng: np.random.Generator) -> Case:
    """One of two hosts is 40 s ahead, so that half of the clicks meet a later page of the session; no ids."""
    return _clocks(rng, 40.0, has_ids=False)


def clock_of_a_host_slow_with_ids(rng: np.random.Generator) -> Case:
    """One of two hosts is 40 s behind, so that half of the clicks meet an earlier page of the session, or none."""
    return _clocks(rng, -40.0)


def clock_of_a_host_fast_with_lists(rng: np.random.Generator) -> Case:
    """One of two hosts is 90 s ahead, so that half of the clicks meet a later list of the session; users have ids."""
    return _clocks(rng, 90.0, has_rankings=True)


def clock_of_a_host_fast_in_a_busy_hour(rng: np.random.Generator) -> Case:
    """4,000 pages within an hour: clicks that one host saw are joined with the page shown 8 s later; no ids."""
    shop = Shop(rng)
    times = START + np.sort(rng.integers(HOUR, size=ROWS))
    rows = draw_rows(shop, times=times)
    late = np.minimum(np.searchsorted(times, times + 8 * SECOND), ROWS - 1)
    is_late = rng.random(ROWS) < 0.5
    booked = np.zeros(ROWS)
    np.add.at(booked, np.where(is_late, late, np.arange(ROWS)), rows.rewards)
    rows.rewards = np.minimum(booked, 1.0)
    return judged(rows, 0.0)


def _orders(
    rng: np.random.Generator, n: int = 2 * ROWS, *, is_steady: bool = True, has_rankings: bool = False
) -> tuple[Rows, FloatArray]:
    """Draw orders, and which of them come back; by default over twice as many days as the log will have."""
    span = 2 * DAYS * DAY if is_steady else DAYS * DAY
    times = START + np.sort(rng.integers(span, size=n))
    draw_visits = draw_rankings if has_rankings else draw_rows
    rows = draw_visits(open_shop(rng, has_rankings), n, times=times)
    return rows, _returned(rng, rows)


def return_rates(rows: Rows) -> FloatArray:
    """Return how likely each product comes back `(K,)`: the more, the better the policy likes it."""
    place = rows.target.mean(axis=0).argsort().argsort()
    return np.asarray(0.05 + 0.6 * place / (rows.shop.n_actions - 1))


def _returned(rng: np.random.Generator, rows: Rows) -> FloatArray:
    """Draw which orders come back, 1 or 0 of each row `(n,)`, or of each of its positions `(n, L)`."""
    comes_back = rng.random(rows.actions.shape) < return_rates(rows)[rows.actions]
    return np.asarray((comes_back & (rows.rewards > 0.0)).astype(float))


def _day_of(rng: np.random.Generator, rows: Rows, returned: FloatArray) -> tuple[IntArray, IntArray]:
    """Return which rows have something that comes back, and a row of the day when it does, 7 days later as a rule."""
    origins = np.flatnonzero(returned.reshape(len(rows), -1).sum(axis=1))
    when = rows.times[origins] + (rng.gamma(3.0, 7.0 / 3.0, size=len(origins)) * DAY).astype(np.int64)
    edges = np.searchsorted(rows.times, START + np.arange(2 * DAYS + 1) * DAY)
    day = (when - START) // DAY
    is_within = day < 2 * DAYS
    origins, day = origins[is_within], day[is_within]
    chosen = edges[day] + (rng.random(len(day)) * (edges[day + 1] - edges[day])).astype(np.int64)
    return origins, chosen


def _book(rows: Rows, origins: IntArray, chosen: IntArray, amounts: FloatArray) -> None:
    """Add the `amounts (n,)` of the rows `origins` to the rewards of the rows `chosen`; of a list, to its top."""
    rewards = rows.rewards if rows.rewards.ndim == 1 else rows.rewards[:, 0]
    np.add.at(rewards, chosen, amounts[origins])


def _steady(rows: Rows, scale: float = 1.0, spread: float = 0.0) -> Case:
    """Return the later half of the log, with the value of orders that are kept."""
    value = scale * kept_value(rows, spread)
    return rows.take(rows.times >= START + DAYS * DAY).case(value)


def kept_value(rows: Rows, spread: float = 0.0) -> float:
    """Return what the policy truly earns per visit in orders that are kept."""
    shop = rows.shop
    fresh = shop.visitors(VISITORS)
    rates = shop.click_rates(fresh, spread * shop.rng.normal(size=(VISITORS, 1))) * (1.0 - return_rates(rows))
    if rows.actions.ndim > 1:
        return ranked_clicks(shop.rng, shop.target(fresh), rates, LENGTH)
    return float((shop.target(fresh) * rates).sum(axis=1).mean())


def _struck(
    rng: np.random.Generator, rows: Rows, returned: FloatArray, delay: float, spread: float = 0.0, scale: float = 1.0
) -> Case:
    """Strike out orders that came back, after a `delay` in days, before the log ends; the value is of those kept."""
    days = rng.exponential(delay, size=returned.shape)
    when = rows.times.reshape(-1, *[1] * (returned.ndim - 1)) + days * DAY
    is_known = when < START + DAYS * DAY
    struck = replace(rows, rewards=np.where((returned > 0.0) & is_known, 0.0, rows.rewards))
    return struck.case(scale * kept_value(rows, spread))


def _clocks(rng: np.random.Generator, ahead: float, *, has_ids: bool = True, has_rankings: bool = False) -> Case:
    """Join clicks with the last page of the session before them, by the clock of the host that took the click."""
    coming = come(rng, 450, sessions=(1, 3), visits=(3, 7), gap=25.0)
    rows = visit(open_shop(rng, has_rankings), coming, spread=0.4, has_rankings=has_rankings)
    earned = rows.rewards.reshape(len(rows), -1)
    shown = _page_at(rng, coming, ahead)
    booked = np.zeros_like(earned)
    is_ahead = rng.random(len(rows)) < 0.5
    page = np.where(is_ahead, shown, np.arange(len(rows)))
    np.add.at(booked, page[page >= 0], earned[page >= 0])
    rows.rewards = np.minimum(booked, 1.0).reshape(rows.rewards.shape)
    if not has_ids:
        rows.users = None
    return judged(rows, 0.4)


def _page_at(rng: np.random.Generator, visits: Visits, ahead: float) -> IntArray:
    """Return which page of its session each page's click meets `(n,)`, by a clock that is `ahead`; -1 for none.

    By a right clock a click comes before the next page.
    """
    order = np.lexsort((visits.times, visits.sessions))
    session, times = visits.sessions[order], visits.times[order]
    is_same = np.append(session[1:] == session[:-1], False)
    until_next = np.where(is_same, np.append(np.diff(times), 0), 20 * SECOND)
    clicks = times + rng.random(len(times)) * np.minimum(until_next, 20 * SECOND) + ahead * SECOND
    # In order of session and time, so that one search serves all sessions.
    start = 4 * DAYS * DAY
    keys = session * start + (times - START)
    place = np.searchsorted(keys, session * start + (clicks - START), side="right") - 1
    is_met = (place >= 0) & (session[np.maximum(place, 0)] == session)
    met = np.full(len(times), -1)
    met[order] = np.where(is_met, order[np.maximum(place, 0)], -1)
    return met


RETURNS: tuple[Way, ...] = (
    returns_on_decisions_of_the_day,
    refunds_on_decisions_of_the_day,
    returns_on_lists_of_the_day,
    returns_on_the_next_visit,
    returns_of_weeks_not_yet_known,
    refunds_not_yet_known_with_ids,
    returns_from_lists_not_yet_known,
)
CLOCKS: tuple[Way, ...] = (
    clock_of_a_host_fast,
    clock_of_a_host_slow_with_ids,
    clock_of_a_host_fast_with_lists,
    clock_of_a_host_fast_in_a_busy_hour,
)
