"""Amounts that were cut, rounded or left in another currency, and rows that were sampled by what they earned."""

from collections.abc import Callable

import numpy as np

from benchmarks.quality.fooled.shop import (
    DAY,
    DAYS,
    ROWS,
    START,
    VISITORS,
    Case,
    Rows,
    Shop,
    Way,
    age,
    draw_rankings,
    draw_rows,
)
from benchmarks.quality.fooled.third_round.traffic import come, judged, open_shop, some, visit
from zoosim.core.types import BoolArray, FloatArray, IntArray

Change = Callable[[Rows], FloatArray]
"""What the log holds in place of its rewards."""


def cut_at_the_95th_percentile_with_ids(rng: np.random.Generator) -> Case:
    """Amounts above the 95th percentile of orders stand as that; users have ids; what was paid is the value."""

    def cut(rows: Rows) -> FloatArray:
        return np.asarray(np.minimum(rows.rewards, np.quantile(rows.rewards[rows.rewards > 0.0], 0.95)))

    return _paid(rng, cut, 1.2, has_ids=True)


def cut_at_the_90th_percentile_of_the_day(rng: np.random.Generator) -> Case:
    """Each day's amounts above the 90th percentile of its orders stand as that percentile."""

    def cut(rows: Rows) -> FloatArray:
        limits = [np.quantile(rows.rewards[(_day(rows) == day) & (rows.rewards > 0.0)], 0.9) for day in range(DAYS)]
        return np.asarray(np.minimum(rows.rewards, np.array(limits)[_day(rows)]))

    return _paid(rng, cut, 1.0)


def cut_at_a_limit_in_lists(rng: np.random.Generator) -> Case:
    """What a position earned stands as 60 at most, which one order in eight exceeds."""
    return _paid(rng, lambda rows: np.minimum(rows.rewards, 60.0), 1.0, has_rankings=True)


def another_currency_on_some_days(rng: np.random.Generator) -> Case:
    """On six days of 28 amounts were not converted and are 4.3 times as high."""

    def convert(rows: Rows) -> FloatArray:
        days = rng.choice(DAYS, size=6, replace=False)
        return np.asarray(rows.rewards * np.where(np.isin(_day(rows), days), 4.3, 1.0))

    return _paid(rng, convert, 0.4)


def currency_of_a_country_on_some_days(rng: np.random.Generator) -> Case:
    """On nine days of 28 one country's amounts stand in its own currency, 4.3 times as high; users have ids."""

    def convert(rows: Rows) -> FloatArray:
        is_foreign = (rows.features[:, 1] > 0.0) & np.isin(_day(rows), rng.choice(DAYS, size=9, replace=False))
        return np.asarray(rows.rewards * np.where(is_foreign, 4.3, 1.0))

    return _paid(rng, convert, 0.4, has_ids=True)


def cents_lost_after_a_release(rng: np.random.Generator) -> Case:
    """From the eighth day on amounts are whole numbers, what was behind the point being lost."""

    def truncate(rows: Rows) -> FloatArray:
        return np.asarray(np.where(age(rows) > 0.25, np.floor(rows.rewards), rows.rewards))

    return _paid(rng, truncate, 0.6, typical=2.0)


def idle_rows_one_in_ten_on_some_days_with_ids(rng: np.random.Generator) -> Case:
    """On four days of 28 one in ten of the rows without a click was kept; users have ids and tastes."""
    rows = visit(Shop(rng), come(rng, 600, sessions=(2, 6), visits=(1, 3)), spread=0.4)
    return judged(_thinned(rng, rows, 4, 0.1), 0.4)


def idle_lists_one_in_five_on_some_days(rng: np.random.Generator) -> Case:
    """On five days of 28 one in five of the lists without a click was kept."""
    rows = draw_rankings(open_shop(rng))
    return judged(_thinned(rng, rows, 5, 0.2), 0.0)


def rows_of_a_host_lost(rng: np.random.Generator) -> Case:
    """The host that serves one segment, which clicks more, lost its rows from the tenth day on; all visitors' value."""
    shop = Shop(rng)
    features = shop.visitors(ROWS)
    rows = draw_rows(shop, features=features, shift=1.2 * features[:, :1])
    fresh = shop.visitors(VISITORS)
    value = float((shop.target(fresh) * shop.click_rates(fresh, 1.2 * fresh[:, :1])).sum(axis=1).mean())
    is_lost = (features[:, 0] > 0.0) & (_day(rows) >= 9)
    return some(rng, rows, ~is_lost).case(value)


def clicks_of_a_host_lost_for_a_week(rng: np.random.Generator) -> Case:
    """Half of the users are served by a host whose clicks were lost for eight days; users have ids."""
    visits = come(rng, 350, sessions=(6, 18), visits=(1, 1))
    rows = visit(Shop(rng), visits, spread=0.4)
    is_hit = (rng.random(visits.n_users) < 0.5)[visits.users] & (visits.days >= 10) & (visits.days < 18)
    rows.rewards = np.where(is_hit, 0.0, rows.rewards)
    return judged(rows, 0.4)


def clicks_of_a_host_lost_for_hours(rng: np.random.Generator) -> Case:
    """On each of ten days all clicks of eight hours in a row were lost with the queue that held them."""
    rows = draw_rankings(open_shop(rng))
    begin = START + rng.choice(DAYS, size=10, replace=False) * DAY + rng.integers(2 * DAY // 3, size=10)
    since = rows.times[:, None] - begin
    is_hit = np.any((since >= 0) & (since < DAY // 3), axis=1, keepdims=True)
    rows.rewards = np.where(is_hit, 0.0, rows.rewards)
    return judged(rows, 0.0)


def _day(rows: Rows) -> IntArray:
    return np.asarray(np.minimum((rows.times - START) // DAY, DAYS - 1))


def _thinned(rng: np.random.Generator, rows: Rows, n_days: int, share: float) -> Rows:
    """Keep a share of the rows that earned nothing on some days."""
    is_thinned = np.isin(_day(rows), rng.choice(DAYS, size=n_days, replace=False))
    is_idle: BoolArray = rows.rewards.reshape(len(rows), -1).sum(axis=1) == 0.0
    return some(rng, rows, np.where(is_thinned & is_idle, share, 1.0))


def _paid(
    rng: np.random.Generator,
    change: Change,
    spread: float,
    *,
    typical: float = 20.0,
    has_ids: bool = False,
    has_rankings: bool = False,
) -> Case:
    """Draw orders with lognormal amounts, a `typical` one in the middle, that stand in the log as `change` has them."""
    coming = come(rng, 500, sessions=(2, 5), visits=(1, 3))
    rows = visit(open_shop(rng), coming, spread=0.4, has_rankings=has_rankings)
    rows.rewards = np.round(rows.rewards * typical * rng.lognormal(0.0, spread, size=rows.rewards.shape), 2)
    rows.rewards = change(rows)
    if not has_ids:
        rows.users = None
    return judged(rows, 0.4, typical * float(np.exp(spread**2 / 2.0)))


AMOUNTS: tuple[Way, ...] = (
    cut_at_the_95th_percentile_with_ids,
    cut_at_the_90th_percentile_of_the_day,
    cut_at_a_limit_in_lists,
    another_currency_on_some_days,
    currency_of_a_country_on_some_days,
    cents_lost_after_a_release,
)
SAMPLED: tuple[Way, ...] = (
    idle_rows_one_in_ten_on_some_days_with_ids,
    idle_lists_one_in_five_on_some_days,
    rows_of_a_host_lost,
    clicks_of_a_host_lost_for_a_week,
    clicks_of_a_host_lost_for_hours,
)
