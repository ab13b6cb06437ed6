"""Sound logs of shops in which something unusual went on, and was logged as it was."""

from dataclasses import replace

import numpy as np

from benchmarks.quality.fooled.shop import (
    DAY,
    DAYS,
    START,
    VISITORS,
    Case,
    Shop,
    Way,
    draw_rankings,
    draw_rows,
    softmax,
)
from benchmarks.quality.fooled.third_round.traffic import HOUR, come, judged, named, open_shop, visit
from zoosim.core.types import BoolArray, FloatArray


def flash_sale(rng: np.random.Generator) -> Case:
    """For two days twice as many come and click far more, and the policy will meet such days as often; ids."""
    n, extra = 4_500, 0.08
    usual, sale = rng.integers(DAYS * DAY, size=n), 16 * DAY + rng.integers(2 * DAY, size=n)
    times = np.sort(np.where(rng.random(n) < extra, sale, usual))
    is_sale = (times >= 16 * DAY) & (times < 18 * DAY)
    rows = draw_rows(Shop(rng), n, shift=np.where(is_sale, 0.9, 0.0)[:, None], times=START + times)
    rows.users = named(rng, np.arange(n))
    fresh = rng.random((VISITORS, 1)) < extra + (1.0 - extra) * 2.0 / DAYS
    return rows.case(rows.shop.value(np.where(fresh, 0.9, 0.0)))


def new_product_midway(rng: np.random.Generator) -> Case:
    """From the eleventh day on a new product can be shown, which many like; each row says what could be shown."""
    shop = Shop(rng, n_actions=7)
    n = 4_400
    times = START + np.sort(rng.integers(DAYS * DAY, size=n))
    features, liked = shop.visitors(n), np.where(np.arange(7) == 6, 0.8, 0.0)
    available = np.ones((n, 7), bool)
    available[times < START + 10 * DAY, 6] = False
    rows = draw_rows(
        shop, features=features, shift=liked, times=times, logging=_only(shop.logging(features), available)
    )
    rows = replace(rows, target=_only(rows.target, available), available=available)
    fresh, is_late = shop.visitors(VISITORS), rng.random(VISITORS) < 18.0 / 28.0
    could = np.where(np.arange(7) == 6, is_late[:, None], True)
    return rows.case(float((_only(shop.target(fresh), could) * shop.click_rates(fresh, liked)).sum(axis=1).mean()))


def holiday_without_visits(rng: np.random.Generator) -> Case:
    """The shop was closed for three days, and a few came on the day after; lists, of users with ids."""
    visits = come(rng, 1_500, sessions=(1, 4), visits=(1, 2))
    rows = visit(open_shop(rng, n_actions=10), visits, spread=0.3, has_rankings=True)
    day = visits.days
    is_open = ~np.isin(day, (12, 13, 14)) & ((day != 15) | (rng.random(len(rows)) < 0.4))
    return judged(rows.take(is_open), 0.3)


def firms_that_order_for_many(rng: np.random.Generator) -> Case:
    """A tenth of the users are firms that come ten times as often, by whose visits the policy is judged as well."""
    few, many = come(rng, 1_800, (1, 3), (1, 1)), come(rng, 110, (8, 20), (1, 1))
    users = np.concatenate([few.users, many.users + few.n_users])
    times = np.concatenate([few.times, many.times])
    order = np.argsort(times)
    both = few._replace(users=users[order], sessions=np.arange(len(users)), times=times[order])
    rows = visit(open_shop(rng), both, spread=0.4)
    rows.rewards = rows.rewards * np.round(rng.lognormal(3.0, 0.5, size=len(rows)), 2)
    return judged(rows, 0.4, float(np.exp(3.125)))


def regions_with_tastes_of_their_own(rng: np.random.Generator) -> Case:
    """Each of eight regions, which is logged, likes other products, and the policy will meet these regions."""
    shop = Shop(rng, n_actions=10)
    region = rng.integers(8, size=5_000)
    taste = 0.6 * rng.normal(size=(8, 10))
    rows = draw_rows(shop, len(region), shift=taste[region])
    rows.features = np.hstack([rows.features, np.eye(8)[region]])
    return rows.case(shop.value(taste[rng.integers(8, size=VISITORS)]))


def families_on_one_device(rng: np.random.Generator) -> Case:
    """One id stands for the two to five of a family, who come apart and like what they like."""
    people = come(rng, 2_000, sessions=(1, 3), visits=(1, 2))
    rows = visit(Shop(rng), people, spread=0.5)
    family = np.sort(rng.integers(600, size=people.n_users))
    return judged(replace(rows, users=named(rng, family[people.users])), 0.5)


def amounts_converted_as_they_should(rng: np.random.Generator) -> Case:
    """One country's amounts were converted at the rate of the day, to the cent; the others have prices in .99."""
    rows = draw_rows(open_shop(rng, n_actions=6), 4_500)
    prices = rng.choice([9.0, 14.0, 19.0, 29.0], size=len(rows)) + 0.99
    rate = 1.0 + 0.02 * rng.normal(size=DAYS)[np.minimum((rows.times - START) // DAY, DAYS - 1)]
    is_foreign = rows.features[:, 1] > 0.0
    rows.rewards = rows.rewards * np.where(is_foreign, np.round(prices * rate, 2), prices)
    return judged(rows, 0.0, 18.74)


def crowds_after_spots(rng: np.random.Generator) -> Case:
    """Each of 40 television spots brings 70 visitors within minutes, who are as all others are; others come between."""
    spots = np.repeat(rng.integers(28 * DAY, size=40), 70) + rng.integers(HOUR // 6, size=2_800)
    times = START + np.sort(np.concatenate([spots, rng.integers(28 * DAY, size=1_700)]))
    return judged(draw_rows(Shop(rng), len(times), times=times), 0.0)


def night_shifts(rng: np.random.Generator) -> Case:
    """Who comes between one and five in the morning clicks twice as much, and nights stay as they are; ids."""
    visits = come(rng, 1_100, sessions=(2, 6), visits=(1, 1))
    hour = (visits.times - START) % DAY // HOUR
    is_night = (hour >= 1) & (hour < 5)
    rows = visit(Shop(rng), visits, spread=0.3, shift=np.where(is_night, 0.8, 0.0)[:, None])
    fresh = np.where(rng.random((VISITORS, 1)) < 4.0 / 24.0, 0.8, 0.0)
    return rows.case(rows.shop.value(fresh + 0.3 * rng.normal(size=(VISITORS, 1))))


def trained_each_night(rng: np.random.Generator) -> Case:
    """What writes the log is trained anew each night and leans to other products; the day's chances are logged."""
    shop = Shop(rng)
    n = 5_000
    times = START + np.sort(rng.integers(14 * DAY, size=n))
    habits = rng.normal(0.0, 0.3, size=(14, 6, 8)).cumsum(axis=0) / 2.0
    features = shop.visitors(n)
    inputs = np.hstack([np.ones((n, 1)), features])
    scores = np.einsum("nd,ndk->nk", inputs, habits[(times - START) // DAY])
    rows = draw_rows(shop, features=features, times=times, logging=0.8 * softmax(scores) + 0.2 / 8)
    return judged(rows, 0.0)


def one_user_in_three(rng: np.random.Generator) -> Case:
    """A sample has all rows of one user in three, whatever they did."""
    visits = come(rng, 3_000, sessions=(1, 4), visits=(1, 3))
    rows = visit(Shop(rng, n_actions=6), visits, spread=0.6)
    return judged(rows.take((rng.random(visits.n_users) < 1.0 / 3.0)[visits.users]), 0.6)


def long_lists_of_many_products(rng: np.random.Generator) -> Case:
    """Lists of five of sixty products, whose top earns most; nothing names users."""
    shop = open_shop(rng, n_actions=60, base=-1.0)
    shop.taste *= 0.5
    rows = draw_rankings(shop, 4_000, length=5)
    return rows.case(shop.ranked_value(length=5))


def baskets_of_several(rng: np.random.Generator) -> Case:
    """What an order earns is a number of pieces, one to four, so that rewards are counts; users have ids."""
    rows = visit(open_shop(rng), come(rng, 1_300, sessions=(1, 4), visits=(1, 2)), spread=0.5)
    rows.rewards = rows.rewards * rng.choice(4, size=len(rows), p=[0.5, 0.3, 0.15, 0.05]) + rows.rewards
    return judged(rows, 0.5, 1.75)


def _only(chances: FloatArray, available: BoolArray) -> FloatArray:
    """Return `chances (n, K)` among what is available, which sum to 1."""
    kept = chances * available
    return np.asarray(kept / kept.sum(axis=1, keepdims=True))


SOUND: tuple[Way, ...] = (
    flash_sale,
    new_product_midway,
    holiday_without_visits,
    firms_that_order_for_many,
    regions_with_tastes_of_their_own,
    families_on_one_device,
    amounts_converted_as_they_should,
    crowds_after_spots,
    night_shifts,
    trained_each_night,
    one_user_in_three,
    long_lists_of_many_products,
    baskets_of_several,
)
