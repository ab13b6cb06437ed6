"""Sound logs of users with ids, beside those that fool the verdict; and faults among users that no log can show."""

import numpy as np

from benchmarks.quality.fooled.sessions import draw_sessions, value_of_sessions
from benchmarks.quality.fooled.shop import DAY, DAYS, ROWS, START, VISITORS, Case, Shop, Way, draw_rows


def sessions_with_ids(rng: np.random.Generator) -> Case:
    """Sessions of 2 to 6 decisions, each with an id and a taste of its own."""
    visits = draw_sessions(rng)
    visits.rows.users = visits.session
    return visits.rows.case(value_of_sessions(rng, visits.rows.shop))


def sessions_of_strong_tastes(rng: np.random.Generator) -> Case:
    """Sessions of 2 to 6 decisions with ids; some click hardly anything, others most of what they see."""
    visits = draw_sessions(rng, spread=1.5)
    visits.rows.users = visits.session
    return visits.rows.case(value_of_sessions(rng, visits.rows.shop, 1.5))


def sessions_that_click_much(rng: np.random.Generator) -> Case:
    """Sessions of 2 to 6 decisions with ids, of which two in three are clicked."""
    visits = draw_sessions(rng, base=0.8)
    visits.rows.users = visits.session
    return visits.rows.case(value_of_sessions(rng, visits.rows.shop))


def sessions_that_spend(rng: np.random.Generator) -> Case:
    """Sessions of 2 to 6 decisions with ids, and amounts."""
    visits = draw_sessions(rng)
    rows = visits.rows
    rows.users = visits.session
    rows.rewards = rows.rewards * rng.lognormal(0.0, 0.5, size=len(rows))
    return rows.case(value_of_sessions(rng, rows.shop) * float(np.exp(0.125)))


def traffic_that_grows(rng: np.random.Generator) -> Case:
    """Three times as many visits come at the log's end as at its beginning."""
    shop = Shop(rng)
    times = START + np.sort((np.sqrt(rng.uniform(1.0, 9.0, size=ROWS)) - 1.0) / 2.0 * DAYS * DAY).astype(np.int64)
    return draw_rows(shop, times=times).case(shop.value())


def towns(rng: np.random.Generator) -> Case:
    """25 towns whose clicks differ, each with a column; the policy will meet the same ones."""
    shop = Shop(rng)
    moods = 0.5 * rng.normal(size=25)
    town = rng.integers(25, size=ROWS)
    rows = draw_rows(shop, shift=moods[town][:, None])
    rows.features = np.hstack([rows.features, np.eye(25)[town]])
    return rows.case(shop.value(moods[rng.integers(25, size=VISITORS)][:, None]))


def stores_without_a_trace(rng: np.random.Generator) -> Case:
    """25 stores whose clicks differ, not logged; it looks like a log of as many visitors who have nothing in common."""
    shop = Shop(rng)
    moods = 0.5 * rng.normal(size=25)
    rows = draw_rows(shop, shift=moods[rng.integers(25, size=ROWS)][:, None])
    return rows.case(shop.value(0.5 * rng.normal(size=(VISITORS, 1))))


def farm_of_single_visits(rng: np.random.Generator) -> Case:
    """A tenth of the visits is a farm that clicks all it sees, each with a new id; it looks like happier visitors."""
    rows = draw_rows(Shop(rng))
    rows.users = np.arange(ROWS)
    rows.rewards = np.where(rng.random(ROWS) < 0.1, 1.0, rows.rewards)
    return rows.case(rows.shop.value())


SOUND_USERS: tuple[Way, ...] = (
    sessions_with_ids,
    sessions_of_strong_tastes,
    sessions_that_click_much,
    sessions_that_spend,
    traffic_that_grows,
    towns,
)
HIDDEN_USERS: tuple[Way, ...] = (stores_without_a_trace, farm_of_single_visits)
