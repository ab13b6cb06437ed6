"""Rewards of a session, booked on other decisions than those that earned them."""

import numpy as np

from benchmarks.quality.fooled.shop import Case, Way
from benchmarks.quality.fooled.third_round.traffic import Book, Visits, come, judged, open_shop, visit
from zoosim.core.types import FloatArray

ORDER, SPREAD_OF_ORDER = 20.0, 0.5


def conversion_on_each_decision(rng: np.random.Generator) -> Case:
    """A session that ends in an order has it on each of its decisions; users have ids."""
    return _booked(rng, _flag_on_each)


def conversion_on_each_decision_without_ids(rng: np.random.Generator) -> Case:
    """A session that ends in an order has it on each of its decisions, and nothing names users."""
    return _booked(rng, _flag_on_each, has_ids=False)


def order_value_on_each_decision(rng: np.random.Generator) -> Case:
    """The amount that a session spent stands on each of its decisions; users have ids."""
    return _booked(rng, _sum_on_each, has_amounts=True)


def clicks_of_the_session_on_each_list(rng: np.random.Generator) -> Case:
    """Each list of a session holds, at each position, the clicks there in all of its lists; users have ids."""
    return _booked(rng, _flag_on_each, has_rankings=True)


def clicks_of_the_day_on_each_visit(rng: np.random.Generator) -> Case:
    """Visits and clicks were joined by user and day: each visit of the day has the day's click."""

    def book(visits: Visits, earned: FloatArray) -> FloatArray:
        by_day = visits._replace(sessions=np.unique(visits.users * 1_000 + visits.days, return_inverse=True)[1])
        return _flag_on_each(by_day, earned)

    return _booked(rng, book, sessions=(4, 14), visits=(1, 3), n_users=200)


def order_value_shared_out(rng: np.random.Generator) -> Case:
    """The amount that a session spent is shared out evenly among its decisions; users have ids."""

    def book(visits: Visits, earned: FloatArray) -> FloatArray:
        return np.asarray((visits.by_session(earned) / np.bincount(visits.sessions))[visits.sessions])

    return _booked(rng, book, has_amounts=True)


def clicks_on_the_last_decision(rng: np.random.Generator) -> Case:
    """All clicks of a session are booked on its last decision; users have ids."""
    return _booked(rng, _sum_on_last)


def clicks_on_the_last_decision_without_ids(rng: np.random.Generator) -> Case:
    """All clicks of a session are booked on its last decision, and nothing names users."""
    return _booked(rng, _sum_on_last, has_ids=False)


def orders_on_the_last_list(rng: np.random.Generator) -> Case:
    """What a session bought is booked on its last list, by position; users have ids."""
    return _booked(rng, _sum_on_last, has_rankings=True, has_amounts=True)


def orders_on_the_first_decision(rng: np.random.Generator) -> Case:
    """The amount that a session spent is booked on the decision by which it began; users have ids."""

    def book(visits: Visits, earned: FloatArray) -> FloatArray:
        booked = np.zeros_like(earned)
        booked[visits.first_of_session()] = visits.by_session(earned)
        return booked

    return _booked(rng, book, has_amounts=True)


def _flag_on_each(visits: Visits, earned: FloatArray) -> FloatArray:
    return np.asarray((visits.by_session(earned)[visits.sessions] > 0.0).astype(float))


def _sum_on_each(visits: Visits, earned: FloatArray) -> FloatArray:
    return visits.by_session(earned)[visits.sessions]


def _sum_on_last(visits: Visits, earned: FloatArray) -> FloatArray:
    booked = np.zeros_like(earned)
    booked[visits.last_of_session()] = visits.by_session(earned)
    return booked


def _booked(
    rng: np.random.Generator,
    book: Book,
    *,
    has_ids: bool = True,
    has_rankings: bool = False,
    has_amounts: bool = False,
    n_users: int = 500,
    sessions: tuple[int, int] = (1, 3),
    visits: tuple[int, int] = (2, 6),
) -> Case:
    """Draw sessions, and book what they earned by `book`; the value is what a decision truly earns."""
    coming = come(rng, n_users, sessions, visits)
    rows = visit(open_shop(rng, has_rankings or has_amounts), coming, spread=0.5, has_rankings=has_rankings)
    scale = 1.0
    if has_amounts:
        rows.rewards = rows.rewards * ORDER * rng.lognormal(0.0, SPREAD_OF_ORDER, size=rows.rewards.shape)
        scale = ORDER * float(np.exp(SPREAD_OF_ORDER**2 / 2.0))
    rows.rewards = book(coming, rows.rewards)
    if not has_ids:
        rows.users = None
    return judged(rows, 0.5, scale)


SESSIONS: tuple[Way, ...] = (
    conversion_on_each_decision,
    conversion_on_each_decision_without_ids,
    order_value_on_each_decision,
    clicks_of_the_session_on_each_list,
    clicks_of_the_day_on_each_visit,
    order_value_shared_out,
    clicks_on_the_last_decision,
    clicks_on_the_last_decision_without_ids,
    orders_on_the_last_list,
    orders_on_the_first_decision,
)
