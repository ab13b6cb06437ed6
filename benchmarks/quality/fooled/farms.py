"""Users who are no people, and users and days of whom those without clicks are mostly missing."""

import numpy as np

from benchmarks.quality.fooled.sessions import draw_sessions, value_of_sessions
from benchmarks.quality.fooled.shop import DAY, DAYS, ROWS, START, Case, Rows, Shop, Way, draw_rows
from zoosim.core.types import BoolArray

FARM_SHARE = 0.1


def farm_of_four_visits(rng: np.random.Generator) -> Case:
    """A tenth of the users, of four visits each, are a farm that clicks all it sees; the value is that of people."""
    return _farm(rng, 4)


def farm_of_two_visits(rng: np.random.Generator) -> Case:
    """A tenth of the users, of two visits each, are a farm that clicks all; it looks like users who differ much."""
    return _farm(rng, 2)


def farm_that_spends(rng: np.random.Generator) -> Case:
    """A tenth of the users, of four visits each, are a farm that orders at each; the value is that of people."""
    return _farm(rng, 4, has_amounts=True)


def farm_for_one_seller(rng: np.random.Generator) -> Case:
    """A fifth of the users, of eight visits each, click the policy's favourite at each visit, and nothing else."""
    rows, is_farm = _short_users(rng, 8, 0.2)
    value = rows.shop.value()
    is_sold = rows.actions == rows.target.mean(axis=0).argmax()
    rows.rewards = np.where(is_farm, is_sold.astype(float), rows.rewards)
    return rows.case(value)


def users_without_clicks_rarely_kept(rng: np.random.Generator) -> Case:
    """Of the users without a click one in ten is kept; users of 2 to 6 visits have ids."""
    return _kept(rng, 6)


def users_without_clicks_rarely_kept_of_many_visits(rng: np.random.Generator) -> Case:
    """Of the users without a click one in ten is kept; users of 2 to 12 visits have ids."""
    return _kept(rng, 12)


def buyers_and_few_others(rng: np.random.Generator) -> Case:
    """Amounts; of the users who bought nothing one in ten is kept; users of 2 to 6 visits have ids."""
    return _kept(rng, 6, has_amounts=True)


def failures_thinned_on_three_days(rng: np.random.Generator) -> Case:
    """On 3 days of 28 one in ten rows without a click is kept."""
    return _thinned(rng, 3, 0.1)


def failures_thinned_on_three_days_with_ids(rng: np.random.Generator) -> Case:
    """On 3 days of 28 one in ten rows without a click is kept; users of four visits have ids."""
    return _thinned(rng, 3, 0.1, has_ids=True)


def failures_thinned_on_a_day(rng: np.random.Generator) -> Case:
    """On a day of 28 one in fifty rows without a click is kept."""
    return _thinned(rng, 1, 0.02)


def _short_users(rng: np.random.Generator, visits: int, share: float = FARM_SHARE) -> tuple[Rows, BoolArray]:
    """Draw users of so many visits, and say in which rows a `share` of them is a farm."""
    shop = Shop(rng)
    n = ROWS // visits
    users = rng.permutation(np.repeat(np.arange(n), visits))
    rows = draw_rows(shop, features=shop.visitors(n)[users])
    rows.users = users
    return rows, (users < share * n)


def _farm(rng: np.random.Generator, visits: int, *, has_amounts: bool = False) -> Case:
    rows, is_farm = _short_users(rng, visits)
    rows.rewards[is_farm] = 1.0
    value = rows.shop.value()
    if has_amounts:
        rows.rewards = rows.rewards * rng.lognormal(0.0, 0.5, size=len(rows))
        value *= float(np.exp(0.125))
    return rows.case(value)


def _kept(rng: np.random.Generator, longest: int, *, has_amounts: bool = False) -> Case:
    rows, session = draw_sessions(rng, longest=longest, n=8 * ROWS // (longest + 2) // 3)
    value = value_of_sessions(rng, rows.shop)
    if has_amounts:
        rows.rewards = rows.rewards * rng.lognormal(0.0, 0.5, size=len(rows))
        value *= float(np.exp(0.125))
    rows.users = session
    has_clicked = np.bincount(session, rows.rewards) > 0.0
    is_kept = has_clicked | (rng.random(len(has_clicked)) < 0.1)
    return rows.take(is_kept[session]).case(value)


def _thinned(rng: np.random.Generator, n_days: int, kept: float, *, has_ids: bool = False) -> Case:
    shop = Shop(rng)
    users = rng.permutation(np.repeat(np.arange(ROWS // 4), 4))
    rows = draw_rows(shop, features=shop.visitors(ROWS // 4)[users] if has_ids else None)
    rows.users = users if has_ids else None
    days = rng.choice(DAYS, n_days, replace=False)
    is_thinned = np.isin((rows.times - START) // DAY, days) & (rows.rewards == 0.0)
    return rows.take(~is_thinned | (rng.random(len(rows)) < kept)).case(shop.value())


FARMS: tuple[Way, ...] = (farm_of_four_visits, farm_that_spends, farm_for_one_seller)
KEPT: tuple[Way, ...] = (
    users_without_clicks_rarely_kept,
    users_without_clicks_rarely_kept_of_many_visits,
    buyers_and_few_others,
    failures_thinned_on_three_days,
    failures_thinned_on_three_days_with_ids,
    failures_thinned_on_a_day,
)
