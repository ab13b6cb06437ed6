"""Amounts that are cut, returns that are booked elsewhere or not yet, and clicks that clocks lead to another row."""

from dataclasses import replace

import numpy as np

from benchmarks.quality.fooled.shop import DAY, ROWS, START, Case, Rows, Shop, Way, age, at, draw_rows
from zoosim.core.types import BoolArray, FloatArray, IntArray

SECOND = 1_000_000
RETURNED = 0.3
"""Share of the purchases that come back."""


def amounts_cut_at_the_95th_percentile(rng: np.random.Generator) -> Case:
    """Amounts above their 95th percentile are logged as that."""
    return _cut(rng, 0.95, 1.0)


def amounts_cut_at_the_90th_percentile(rng: np.random.Generator) -> Case:
    """Amounts of little spread, of which those above their 90th percentile are logged as that."""
    return _cut(rng, 0.9, 0.7)


def amounts_above_a_limit_left_out(rng: np.random.Generator) -> Case:
    """Rows of more than the 97th percentile of amounts are missing; it looks like a shop that sells nothing dearer."""
    rows, factor = _sales(rng, 0.8)
    limit = np.quantile(rows.rewards[rows.rewards > 0.0], 0.97)
    return rows.take(rows.rewards <= limit).case(rows.shop.value() * factor)


def returns_booked_on_the_decisions_of_the_day(rng: np.random.Generator) -> Case:
    """A return is booked as -1 on some decision of its day, whatever that showed; one product comes back most."""
    rows, is_returned, value = _purchases(rng)
    day = (rows.times - START) // DAY
    rewards = rows.rewards.copy()
    for returned_day in day[is_returned]:
        rewards[rng.choice(np.flatnonzero(day == returned_day))] -= 1.0
    return replace(rows, rewards=rewards).case(value)


def returns_booked_once_a_week(rng: np.random.Generator) -> Case:
    """Returns are booked as -1 on decisions of each week's last day; one product comes back most."""
    rows, is_returned, value = _purchases(rng)
    day = (rows.times - START) // DAY
    rewards = rows.rewards.copy()
    for week in day[is_returned] // 7:
        rewards[rng.choice(np.flatnonzero(day == 7 * week + 6))] -= 1.0
    return replace(rows, rewards=rewards).case(value)


def returns_not_yet_known(rng: np.random.Generator) -> Case:
    """A return takes some two weeks, and costs its row 1.5; those that are yet to come are missing."""
    rows, is_returned, _ = _purchases(rng, cost=0.5)
    delay = rng.exponential(0.5, size=len(rows))
    is_known = age(rows) + delay < 1.0
    value = _value_of_purchases(rows, 0.5)
    return replace(rows, rewards=rows.rewards - 1.5 * (is_returned & is_known)).case(value)


def returns_not_yet_known_of_the_last_week(rng: np.random.Generator) -> Case:
    """A return costs its row 1.5; those of the last week are yet to come."""
    rows, is_returned, _ = _purchases(rng, cost=0.5)
    value = _value_of_purchases(rows, 0.5)
    return replace(rows, rewards=rows.rewards - 1.5 * (is_returned & (age(rows) < 0.75))).case(value)


def clock_of_one_host_ahead(rng: np.random.Generator) -> Case:
    """Of two hosts one books clicks 40 s late, on the decision that came last before; a decision takes 15 s."""
    return _late_clicks(rng, 40 * SECOND, 15 * SECOND)


def clock_of_clicks_ahead(rng: np.random.Generator) -> Case:
    """All clicks are booked 40 s late, on the decision that came last before; a decision takes 10 s."""
    return _late_clicks(rng, 40 * SECOND, 10 * SECOND, share=1.0)


def clock_ahead_within_users(rng: np.random.Generator) -> Case:
    """Of two hosts one books clicks 40 s late, on the user's decision that came last before; users have ids."""
    return _late_clicks(rng, 40 * SECOND, 15 * SECOND, has_ids=True)


def _sales(rng: np.random.Generator, spread: float) -> tuple[Rows, float]:
    """Draw rows with amounts, and say what they are on average."""
    rows = draw_rows(Shop(rng))
    rows.rewards = rows.rewards * rng.lognormal(0.0, spread, size=len(rows))
    return rows, float(np.exp(spread**2 / 2.0))


def _cut(rng: np.random.Generator, quantile: float, spread: float) -> Case:
    rows, factor = _sales(rng, spread)
    limit = np.quantile(rows.rewards[rows.rewards > 0.0], quantile)
    return replace(rows, rewards=np.minimum(rows.rewards, limit)).case(rows.shop.value() * factor)


def _return_rates(rows: Rows) -> FloatArray:
    """Return how likely each product comes back `(K,)`, the policy's favourite more than others."""
    rates = np.full(rows.shop.n_actions, 0.6 * RETURNED)
    rates[rows.target.mean(axis=0).argmax()] = 2.5 * RETURNED
    return rates


def _value_of_purchases(rows: Rows, cost: float) -> float:
    fresh = rows.shop.visitors(20_000)
    kept = 1.0 - (1.0 + cost) * _return_rates(rows)
    return float((rows.shop.target(fresh) * rows.shop.click_rates(fresh) * kept).sum(axis=1).mean())


def _purchases(rng: np.random.Generator, cost: float = 0.0) -> tuple[Rows, BoolArray, float]:
    """Draw purchases of 1, and say which come back, and what the policy earns if these earn minus their `cost`."""
    rows = draw_rows(Shop(rng, base=-1.0))
    is_returned = (rows.rewards > 0.0) & (rng.random(len(rows)) < _return_rates(rows)[rows.actions])
    return rows, is_returned, _value_of_purchases(rows, cost)


def _late_clicks(rng: np.random.Generator, late: int, apart: int, share: float = 0.5, *, has_ids: bool = False) -> Case:
    shop = Shop(rng)
    times = START + np.cumsum(rng.exponential(apart, size=ROWS).astype(np.int64))
    users = np.zeros(ROWS, np.int64)
    if has_ids:  # each with eight decisions in a row
        users = np.arange(ROWS) // 8
    rows = draw_rows(shop, features=shop.visitors(ROWS)[users] if has_ids else None, times=times)
    is_late = (rng.random(ROWS) < share) & (rows.rewards > 0.0)
    place = np.arange(ROWS)
    place[is_late] = np.searchsorted(times, times[is_late] + late, side="right") - 1
    if has_ids:
        rows.users = users
        place = np.minimum(place, 8 * users + 7)
    return replace(rows, rewards=_booked_at(place, rows.rewards)).case(shop.value())


def _booked_at(place: IntArray, rewards: FloatArray) -> FloatArray:
    return np.minimum(1.0, np.bincount(place, rewards, len(rewards)))


def returns_on_their_own_rows(rng: np.random.Generator) -> Case:
    """A return costs its own row 1.5, whenever it was known."""
    rows, is_returned, _ = _purchases(rng, cost=0.5)
    return replace(rows, rewards=rows.rewards - 1.5 * is_returned).case(_value_of_purchases(rows, 0.5))


def likes_and_dislikes(rng: np.random.Generator) -> Case:
    """A visitor likes a product, dislikes it or says nothing; both go by the product."""
    shop = Shop(rng)
    rows = draw_rows(shop)
    is_disliked = (rows.rewards == 0.0) & (rng.random(ROWS) < 0.3 * at(shop.click_rates(-rows.features), rows.actions))
    fresh = shop.visitors(20_000)
    likes = shop.click_rates(fresh)
    values = likes - (1.0 - likes) * 0.3 * shop.click_rates(-fresh)
    value = float((shop.target(fresh) * values).sum(axis=1).mean())
    return replace(rows, rewards=rows.rewards - is_disliked).case(value)


def price_list(rng: np.random.Generator) -> Case:
    """30 prices of some 10 to 100, each as often bought."""
    rows = draw_rows(Shop(rng))
    prices = np.sort(rng.uniform(10.0, 100.0, size=30).round(2))
    rows.rewards = rows.rewards * prices[rng.integers(30, size=len(rows))]
    return rows.case(rows.shop.value() * float(prices.mean()))


def amounts_and_a_voucher(rng: np.random.Generator) -> Case:
    """Amounts, a tenth of which are a voucher of 1."""
    rows, factor = _sales(rng, 0.8)
    is_voucher = rng.random(len(rows)) < 0.1
    rewards = np.where(is_voucher & (rows.rewards > 0.0), 1.0, rows.rewards)
    return replace(rows, rewards=rewards).case(rows.shop.value() * (0.9 * factor + 0.1))


def busy_minutes(rng: np.random.Generator) -> Case:
    """A decision each 15 s, for a day; clicks are where they belong."""
    shop = Shop(rng)
    times = START + np.cumsum(rng.exponential(15 * SECOND, size=ROWS).astype(np.int64))
    return draw_rows(shop, times=times).case(shop.value())


CUT: tuple[Way, ...] = (amounts_cut_at_the_95th_percentile, amounts_cut_at_the_90th_percentile)
RETURNS: tuple[Way, ...] = (
    returns_booked_on_the_decisions_of_the_day,
    returns_booked_once_a_week,
    returns_not_yet_known,
    returns_not_yet_known_of_the_last_week,
)
CLOCKS: tuple[Way, ...] = (clock_of_one_host_ahead, clock_of_clicks_ahead, clock_ahead_within_users)
SOUND_AMOUNTS: tuple[Way, ...] = (
    returns_on_their_own_rows,
    likes_and_dislikes,
    price_list,
    amounts_and_a_voucher,
    busy_minutes,
)
