"""Rows that are kept or lost by what they earned, by host, country, hour or user."""

import numpy as np

from benchmarks.quality.fooled.shop import (
    DAY,
    START,
    VISITORS,
    Case,
    Shop,
    Way,
    draw_rankings,
    draw_rows,
)
from benchmarks.quality.fooled.third_round.traffic import HOUR, come, judged, open_shop, some, visit, worth


def idle_rows_of_a_country_one_in_six(rng: np.random.Generator) -> Case:
    """One country asks for consent, which one in six of those gives who click nothing; no ids."""
    rows = draw_rows(Shop(rng, n_actions=6), 6_000)
    value = worth(rows, 0.0)
    is_idle = (rows.features[:, 1] > 0.0) & (rows.rewards == 0.0)
    return some(rng, rows, np.where(is_idle, 1.0 / 6.0, 1.0)).case(value)


def evenings_of_buyers_only(rng: np.random.Generator) -> Case:
    """A day's quota is full by eight in the evening, from when on orders alone are kept; users have ids."""
    rows = visit(open_shop(rng), come(rng, 1_200, sessions=(1, 5), visits=(1, 2)), spread=0.4)
    rows.rewards = rows.rewards * np.round(rng.lognormal(3.2, 0.4, size=len(rows)), 2)
    value = float(np.exp(3.28)) * worth(rows, 0.4)
    is_full = (rows.times - START) % DAY >= 20 * HOUR
    return rows.take(~is_full | (rows.rewards > 0.0)).case(value)


def idle_lists_of_a_host_one_in_eight(rng: np.random.Generator) -> Case:
    """One of four hosts, which the log names, writes one in eight of the lists that were not clicked."""
    shop = open_shop(rng, n_actions=10)
    rows = draw_rankings(shop, 5_500, length=4)
    value = shop.ranked_value(length=4)
    host = rng.integers(4, size=len(rows))
    rows.features = np.hstack([rows.features, np.eye(4)[host]])
    is_idle = (host == 2) & (rows.rewards.sum(axis=1) == 0.0)
    return some(rng, rows, np.where(is_idle, 0.125, 1.0)).case(value)


def best_row_of_each_user_and_product(rng: np.random.Generator) -> Case:
    """Duplicates were taken out: of a user's visits that showed one product, the one that earned most is left."""
    visits = come(rng, 500, sessions=(8, 22), visits=(1, 1))
    rows = visit(Shop(rng), visits, spread=0.4)
    value = worth(rows, 0.4)
    order = np.lexsort((rng.random(len(rows)), -rows.rewards, rows.actions, visits.users))
    pair = visits.users[order] * rows.shop.n_actions + rows.actions[order]
    is_first = np.concatenate([[True], pair[1:] != pair[:-1]])
    return rows.take(np.sort(order[is_first])).case(value)


def large_orders_kept_and_others_one_in_three(rng: np.random.Generator) -> Case:
    """A sample of the log has all orders from 40 on, and one in three of all other rows; users have ids."""
    rows = visit(open_shop(rng), come(rng, 2_700, sessions=(1, 5), visits=(1, 2)), spread=0.3)
    rows.rewards = rows.rewards * np.round(30.0 * rng.lognormal(0.0, 0.6, size=len(rows)), 2)
    value = 30.0 * float(np.exp(0.18)) * worth(rows, 0.3)
    return some(rng, rows, np.where(rows.rewards >= 40.0, 1.0, 1.0 / 3.0)).case(value)


def country_lost_for_a_fortnight(rng: np.random.Generator) -> Case:
    """The country that buys most went missing from the log for its last 17 days; the value is of all visitors."""
    shop = open_shop(rng)
    features = shop.visitors(5_500)
    rows = draw_rows(shop, features=features, shift=1.5 * features[:, 2:3])
    amounts = rng.lognormal(3.0, 0.3, size=len(rows))
    rows.rewards = rows.rewards * amounts
    fresh = shop.visitors(VISITORS)
    earned = (shop.target(fresh) * shop.click_rates(fresh, 1.5 * fresh[:, 2:3])).sum(axis=1).mean()
    is_lost = (features[:, 2] > 0.0) & (rows.times >= START + 11 * DAY)
    return rows.take(~is_lost).case(float(np.exp(3.045) * earned))


def users_gone_after_a_day_without_a_click(rng: np.random.Generator) -> Case:
    """Rows of a user's day are written when the user clicks that day, and otherwise one day in five; ids."""
    visits = come(rng, 700, sessions=(2, 5), visits=(2, 4))
    rows = visit(Shop(rng), visits, spread=0.4)
    day = np.unique(visits.users * 1_000 + visits.days, return_inverse=True)[1]
    is_idle = np.bincount(day, rows.rewards) == 0.0
    is_kept = ~is_idle | (rng.random(len(is_idle)) < 0.2)
    return judged(rows.take(is_kept[day]), 0.4)


KEPT: tuple[Way, ...] = (
    idle_rows_of_a_country_one_in_six,
    evenings_of_buyers_only,
    idle_lists_of_a_host_one_in_eight,
    best_row_of_each_user_and_product,
    large_orders_kept_and_others_one_in_three,
    country_lost_for_a_fortnight,
    users_gone_after_a_day_without_a_click,
)
