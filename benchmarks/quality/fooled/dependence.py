"""Rows that belong together, and nothing that says so."""

from collections.abc import Callable

import numpy as np

from benchmarks.quality.fooled.shop import DAY, DAYS, ROWS, START, VISITORS, Case, Rows, Shop, Way, draw_rows
from zoosim.core.types import FloatArray, IntArray

SPREAD = 1.0
"""Standard deviation of a visitor's own taste, on the logit scale."""

N_BOTS = ROWS // 7
HOUR = DAY // 24

Arrive = Callable[[np.random.Generator, IntArray], IntArray]
"""When visits come, by the user of each `(n,)`."""


def users_of_many_visits(rng: np.random.Generator) -> Case:
    """25 to 60 visits of each user, at any time."""
    return _judged(_users(rng, _visits(rng), _any_time))


def users_in_time_blocks(rng: np.random.Generator) -> Case:
    """25 to 60 visits of each user, within three days."""
    return _judged(_users(rng, _visits(rng), _within(3 * DAY)))


def users_in_bursts(rng: np.random.Generator) -> Case:
    """25 to 60 visits of each user, within an hour."""
    return _judged(_users(rng, _visits(rng), _within(HOUR)))


def users_whose_features_move(rng: np.random.Generator) -> Case:
    """25 to 60 visits of each user within an hour, with numbers that differ a little from visit to visit."""
    return _judged(_users(rng, _visits(rng), _within(HOUR), noise=0.3))


def users_without_times(rng: np.random.Generator) -> Case:
    """25 to 60 visits of each user at any time, in a log without times."""
    rows = _users(rng, _visits(rng), _any_time)
    rows.has_times = False
    return _judged(rows)


def ids_of_visits(rng: np.random.Generator) -> Case:
    """25 to 60 visits of each user, each with an id of its own."""
    rows = _users(rng, _visits(rng), _any_time)
    rows.users = np.arange(len(rows))
    return _judged(rows)


def few_heavy_users(rng: np.random.Generator) -> Case:
    """15 users make half of the visits; the value is that of any user, whose visits are that many."""
    visits = np.concatenate([np.full(15, ROWS // 30), np.ones(ROWS // 2, int)])
    return _judged(_users(rng, visits, _any_time))


def segments_for_users(rng: np.random.Generator) -> Case:
    """25 to 60 visits of each user at any time, of whom the segment alone is logged."""
    rows = _users(rng, _visits(rng), _any_time)
    rows.features = rows.features[:, :3]
    return _judged(rows)


def days_alike(rng: np.random.Generator) -> Case:
    """Each day moves all its clicks up or down; the value is that of any day."""
    shop = Shop(rng)
    times = START + np.sort(rng.integers(DAYS * DAY, size=ROWS))
    mood = 0.5 * rng.normal(size=DAYS)
    rows = draw_rows(shop, times=times, shift=mood[(times - START) // DAY][:, None])
    return rows.case(shop.value(0.5 * rng.normal(size=(VISITORS, 1))))


def bot_that_never_clicks(rng: np.random.Generator) -> Case:
    """A robot makes a seventh of the visits, in bursts, and clicks nothing; the value is that of people."""
    return _bots(rng, 0.0)


def bot_that_always_clicks(rng: np.random.Generator) -> Case:
    """A robot makes a seventh of the visits, in bursts, and clicks all it sees; the value is that of people."""
    return _bots(rng, 1.0)


def bot_of_many_faces(rng: np.random.Generator) -> Case:
    """A robot clicks all it sees in a seventh of the visits, in bursts, each with the features of some visitor."""
    return _bots(rng, 1.0, is_one_visitor=False)


def _visits(rng: np.random.Generator) -> IntArray:
    """Draw how many visits each user makes."""
    return rng.integers(25, 61, size=ROWS // 42)


def _any_time(rng: np.random.Generator, users: IntArray) -> IntArray:
    return np.asarray(START + rng.integers(DAYS * DAY, size=len(users)))


def _within(span: int) -> Arrive:
    """Return how users come whose visits lie within a `span` of microseconds."""

    def arrive(rng: np.random.Generator, users: IntArray) -> IntArray:
        starts = rng.integers(DAYS * DAY - span, size=users.max() + 1)
        return np.asarray(START + starts[users] + rng.integers(span, size=len(users)))

    return arrive


def _users(rng: np.random.Generator, visits: IntArray, arrive: Arrive, noise: float = 0.0) -> Rows:
    """Draw a log of users who each make some `visits (n_users,)`, and have tastes of their own."""
    shop = Shop(rng)
    users = np.repeat(np.arange(len(visits)), visits)
    times = arrive(rng, users)
    order = np.argsort(times)
    users = users[order]
    features = shop.visitors(len(visits))[users]
    features[:, 3:] += noise * rng.normal(size=(len(users), 2))
    taste = SPREAD * rng.normal(size=len(visits))
    return draw_rows(shop, features=features, shift=taste[users][:, None], times=times[order])


def _judged(rows: Rows) -> Case:
    """Return a log of `_users` with the value of any user."""
    taste: FloatArray = SPREAD * rows.shop.rng.normal(size=(VISITORS, 1))
    return rows.case(rows.shop.value(taste))


def _bots(rng: np.random.Generator, click_rate: float, is_one_visitor: bool = True) -> Case:
    shop = Shop(rng)
    n_bursts = 8
    bursts = START + rng.integers(DAYS * DAY - HOUR, size=n_bursts)
    bot_times = bursts[rng.integers(n_bursts, size=N_BOTS)] + rng.integers(HOUR, size=N_BOTS)
    times = np.concatenate([START + rng.integers(DAYS * DAY, size=ROWS - N_BOTS), bot_times])
    is_bot = np.arange(ROWS) >= ROWS - N_BOTS
    order = np.argsort(times)
    is_bot = is_bot[order]
    features = shop.visitors(ROWS)
    if is_one_visitor:
        features[is_bot] = features[0]
    rows = draw_rows(shop, features=features, times=times[order])
    rows.rewards[is_bot] = click_rate
    return rows.case(shop.value())


USERS: tuple[Way, ...] = (
    users_of_many_visits,
    users_in_time_blocks,
    users_in_bursts,
    users_whose_features_move,
    users_without_times,
    ids_of_visits,
    few_heavy_users,
    days_alike,
)
BOTS: tuple[Way, ...] = (bot_that_never_clicks, bot_that_always_clicks, bot_of_many_faces)
