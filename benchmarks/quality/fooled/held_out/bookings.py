"""Rewards that are not yet known when the log is written, or that stand on other rows and positions."""

import numpy as np

from benchmarks.quality.fooled.shop import (
    DAY,
    DAYS,
    START,
    VISITORS,
    Case,
    Rows,
    Shop,
    Way,
    draw_rankings,
    draw_rows,
)
from benchmarks.quality.fooled.third_round.traffic import HOUR, SECOND, come, judged, open_shop, visit
from zoosim.core.types import BoolArray, FloatArray, IntArray

MINUTE = 60 * SECOND


def subscriptions_paid_after_a_trial(rng: np.random.Generator) -> Case:
    """Two thirds of the subscriptions are paid after a trial of 14 days, and 35 days are logged; users have ids."""
    visits = come(rng, 1_300, sessions=(1, 3), visits=(1, 2), span=35 * DAY)
    rows = visit(open_shop(rng, n_actions=6), visits, spread=0.3)
    fees = rng.choice([4.99, 9.99, 14.99], size=len(rows))
    has_trial = rng.random(len(rows)) < 2.0 / 3.0
    is_paid = ~has_trial | (rows.times < START + 21 * DAY)
    rows.rewards = rows.rewards * fees * is_paid
    return judged(rows, 0.3, 9.99)


def invoices_of_the_last_month(rng: np.random.Generator) -> Case:
    """Firms, a third of the visitors, pay on the 15th and 30th day, and 45 days are logged; others pay at once."""
    shop = open_shop(rng, n_actions=6)
    features = shop.visitors(4_500)
    times = START + np.sort(rng.integers(44 * DAY, size=len(features)))
    rows = draw_rows(shop, features=features, shift=1.2 * features[:, :1], times=times)
    amounts = 35.0 * rng.lognormal(0.0, 0.4, size=len(rows))
    is_open = (features[:, 0] > 0.0) & (times >= START + 30 * DAY)
    rows.rewards = np.where(is_open, 0.0, rows.rewards * amounts)
    fresh = shop.visitors(VISITORS)
    earned = (shop.target(fresh) * shop.click_rates(fresh, 1.2 * fresh[:, :1])).sum(axis=1).mean()
    return rows.case(35.0 * float(np.exp(0.08) * earned))


def clicks_sent_when_online_again(rng: np.random.Generator) -> Case:
    """Of most clicks an app hears when it is online again, and books them on the user's next visit; users have ids."""
    visits = come(rng, 170, sessions=(12, 40), visits=(1, 1))
    rows = visit(Shop(rng), visits, spread=0.4)
    return judged(_moved(rows, visits.next_of_user(), rng.random(len(rows)) < 0.7), 0.4)


def positions_counted_from_one_in_the_app(rng: np.random.Generator) -> Case:
    """The app, seven lists in ten, counts positions from 1: its clicks stand one below, and the last ones nowhere."""
    shop = open_shop(rng, n_actions=12, base=-1.2)
    rows = draw_rankings(shop, 3_500, length=4)
    is_app = rng.random(len(rows)) < 0.7
    below = np.hstack([np.zeros((len(rows), 1)), rows.rewards[:, :-1]])
    rows.rewards = np.where(is_app[:, None], below, rows.rewards)
    value = shop.ranked_value(length=4)
    rows.features = np.hstack([rows.features, is_app[:, None].astype(float)])
    return rows.case(value)


def clicks_of_a_list_on_its_top(rng: np.random.Generator) -> Case:
    """What is clicked at any position of a list of five counts at its top; users have ids."""
    shop = Shop(rng, n_actions=10, lean=0.6)
    visits = come(rng, 900, sessions=(2, 4), visits=(1, 2))
    features = shop.visitors(visits.n_users)[visits.users]
    rows = draw_rankings(shop, features=features, times=visits.times, length=5)
    rows.users = 7_000_000 + visits.users
    total = rows.rewards.sum(axis=1)
    rows.rewards = np.zeros_like(rows.rewards)
    rows.rewards[:, 0] = total
    return rows.case(shop.ranked_value(length=5))


def rewards_of_one_shard_shifted(rng: np.random.Generator) -> Case:
    """The database has three shards, and those of two of them slipped by a row when rewards were joined."""
    shop = Shop(rng)
    rows = draw_rows(shop, 4_800)
    shard = rng.integers(3, size=len(rows))
    for each in (0, 1):
        of_shard = np.flatnonzero(shard == each)
        rows.rewards[of_shard] = np.roll(rows.rewards[of_shard], 1)
    value = shop.value()
    rows.features = np.hstack([rows.features, np.eye(3)[shard]])
    return rows.case(value)


def clicks_joined_by_minute_and_product(rng: np.random.Generator) -> Case:
    """On a busy day a click counts for all who saw that product in the same minute; nothing names users."""
    rows = draw_rows(Shop(rng, n_actions=6), 5_000, times=START + np.sort(rng.integers(10 * HOUR, size=5_000)))
    minute = (rows.times - START) // MINUTE * 6 + rows.actions
    clicks = np.bincount(minute, rows.rewards)[minute]
    rows.rewards = np.minimum(clicks, 1.0)
    return judged(rows, 0.0)


def orders_credited_to_three_days(rng: np.random.Generator) -> Case:
    """What a user orders stands on all that the user was shown in the three days before; users have ids."""
    visits = come(rng, 500, sessions=(4, 12), visits=(1, 1))
    rows = visit(open_shop(rng, base=-2.4), visits, spread=0.5)
    rows.rewards = rows.rewards * 30.0 * rng.lognormal(0.0, 0.3, size=len(rows))
    order = np.lexsort((rows.times, visits.users))
    users, times, earned = visits.users[order], rows.times[order], rows.rewards[order]
    key = users * 4 * DAYS * DAY + (times - START)
    until = np.searchsorted(key, key + 3 * DAY, side="right")
    sums = np.concatenate([[0.0], np.cumsum(earned)])
    rows.rewards[order] = sums[until] - sums[np.arange(len(order))]
    return judged(rows, 0.5, 30.0 * float(np.exp(0.045)))


def queue_emptied_twice_a_day(rng: np.random.Generator) -> Case:
    """One of two hosts holds its clicks until noon or midnight, and they count for the visits of that minute."""
    rows = draw_rows(Shop(rng), 5_000)
    is_held = rng.random(len(rows)) < 0.6
    since = rows.times - START
    emptied = np.searchsorted(rows.times, START + (since // (12 * HOUR) + 1) * 12 * HOUR)
    where = emptied + rng.integers(4, size=len(rows))
    where[where >= len(rows)] = -1
    return judged(_moved(rows, where, is_held), 0.0)


def rewards_of_the_same_five_seconds(rng: np.random.Generator) -> Case:
    """Tables were sorted by time and joined row by row: visits that came within five seconds have changed places."""
    shop = Shop(rng, n_actions=5)
    times = START + np.sort(rng.integers(3 * HOUR, size=5_500)) // (5 * SECOND) * (5 * SECOND)
    rows = draw_rows(shop, len(times), times=times)
    rows.rewards = rows.rewards[np.lexsort((rng.random(len(times)), times))]
    return judged(rows, 0.0)


def likes_of_videos_watched_to_the_end(rng: np.random.Generator) -> Case:
    """Minutes watched are known when a video ends, up to an hour later; the log was read in the midst of an evening."""
    times = START + np.sort(rng.integers(3 * HOUR, size=4_000))
    rows = draw_rows(Shop(rng, base=-0.4), 4_000, times=times)
    minutes = rng.gamma(3.0, 12.0, size=len(rows))
    is_over = times + (minutes * MINUTE).astype(np.int64) < START + 3 * HOUR
    rows.rewards = rows.rewards * minutes * is_over
    return judged(rows, 0.0, 36.0)


def slow_readers_of_lists(rng: np.random.Generator) -> Case:
    """Clicks arrive the later the lower they are, days later in the mean, and those of a fortnight are read at once."""
    rows = draw_rankings(open_shop(rng), 4_200, times=START + np.sort(rng.integers(14 * DAY, size=4_200)), length=4)
    delay = rng.exponential(np.array([0.5, 2.0, 4.0, 6.0]) * DAY, size=rows.rewards.shape)
    rows.rewards = rows.rewards * (rows.times[:, None] + delay < START + 14 * DAY)
    return rows.case(rows.shop.ranked_value(length=4))


def _moved(rows: Rows, where: IntArray, is_moved: BoolArray) -> Rows:
    """Book the rewards of some rows on the rows `where (n,)`; -1 is nowhere."""
    booked: FloatArray = np.where(is_moved, 0.0, rows.rewards)
    lands = is_moved & (where >= 0)
    np.add.at(booked, where[lands], rows.rewards[lands])
    rows.rewards = booked
    return rows


NOT_YET: tuple[Way, ...] = (
    subscriptions_paid_after_a_trial,
    invoices_of_the_last_month,
    likes_of_videos_watched_to_the_end,
    slow_readers_of_lists,
)
MISPLACED: tuple[Way, ...] = (
    clicks_sent_when_online_again,
    positions_counted_from_one_in_the_app,
    clicks_of_a_list_on_its_top,
    rewards_of_one_shard_shifted,
    clicks_joined_by_minute_and_product,
    orders_credited_to_three_days,
    queue_emptied_twice_a_day,
    rewards_of_the_same_five_seconds,
)
