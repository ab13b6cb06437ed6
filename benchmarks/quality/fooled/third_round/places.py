"""Hours, days, stores and regions that move all of their clicks, in logs whose rows are told apart by users."""

from dataclasses import replace

import numpy as np

from benchmarks.quality.fooled.shop import DAY, DAYS, ROWS, START, Case, Shop, Way, draw_rows
from benchmarks.quality.fooled.third_round.traffic import HOUR, come, judged, named, open_shop, visit
from zoosim.core.types import FloatArray, IntArray

STORES = 25


def hours_of_a_busy_week_with_ids(rng: np.random.Generator) -> Case:
    """Each hour of a busy week moves all its clicks, and users with ids come two or three times; any hour's value."""
    visits = come(rng, 1_600, sessions=(2, 3), visits=(1, 1), span=7 * DAY)
    mood = 1.0 * rng.normal(size=8 * 24)
    rows = visit(Shop(rng), visits, spread=0.3, shift=mood[(visits.times - START) // HOUR][:, None])
    return judged(rows, float(np.hypot(0.3, 1.0)))


def weather_moves_days_with_ids(rng: np.random.Generator) -> Case:
    """Each day moves all its clicks, as weather does, and users with ids come now and then; any day's value."""
    return _days(rng)


def days_alike_in_lists(rng: np.random.Generator) -> Case:
    """Each day moves all clicks on its rankings, and users with ids come now and then; any day's value."""
    return _days(rng, has_rankings=True)


def days_of_large_baskets(rng: np.random.Generator) -> Case:
    """Each day has offers that move all its amounts, and users with ids come now and then; any day's value."""
    visits = come(rng, 1_000, sessions=(2, 6), visits=(1, 1))
    rows = visit(open_shop(rng), visits, spread=0.3)
    basket = np.exp(0.5 * rng.normal(size=DAYS + 1))
    rows.rewards = rows.rewards * basket[visits.days] * rng.lognormal(0.0, 0.4, size=len(rows))
    return judged(rows, 0.3, float(np.exp(0.125 + 0.08)))


def files_of_stores_joined(rng: np.random.Generator) -> Case:
    """The files of 25 stores that differ were joined, with ids and without times or stores; any store's value."""
    rows_store, shift = _stores(rng)
    order = np.argsort(rows_store, kind="stable")
    shop = Shop(rng)
    rows = draw_rows(shop, len(order), shift=shift[rows_store[order]][:, None])
    rows = replace(rows, users=named(rng, rng.integers(2 * ROWS, size=len(order))), has_times=False)
    return judged(rows, 0.7)


def stores_joined_one_by_one(rng: np.random.Generator) -> Case:
    """Store by store tries the shop's system for three days, and baskets differ by store; any store's value."""
    store, _ = _stores(rng)
    opening = rng.permutation(np.arange(STORES))
    times = START + opening[store] * DAY + rng.integers(3 * DAY, size=len(store))
    order = np.argsort(times)
    store, times = store[order], times[order]
    basket = np.exp(0.5 * rng.normal(size=STORES))
    rows = draw_rows(open_shop(rng), len(store), times=times)
    rows.rewards = rows.rewards * basket[store] * rng.lognormal(0.0, 0.4, size=len(store))
    rows.users = named(rng, store * 1_000 + rng.integers(100, size=len(store)))
    return judged(rows, 0.0, float(np.exp(0.125 + 0.08)))


def regions_known_by_coordinates(rng: np.random.Generator) -> Case:
    """Visitors of 25 towns that differ, of which the log has latitude and longitude; any town's value."""
    store, mood = _stores(rng)
    rng.shuffle(store)
    shop = Shop(rng)
    rows = draw_rows(shop, len(store), shift=mood[store][:, None])
    town = np.round(rng.uniform((47.0, 6.0), (55.0, 15.0), size=(STORES, 2)), 2)
    rows.features = np.hstack([rows.features, town[store] + 0.02 * rng.normal(size=(len(store), 2))])
    rows.users = named(rng, rng.integers(2 * ROWS, size=len(store)))
    return judged(rows, 0.7)


def _days(rng: np.random.Generator, *, has_rankings: bool = False) -> Case:
    visits = come(rng, 1_000, sessions=(2, 6), visits=(1, 1))
    mood = 0.8 * rng.normal(size=DAYS + 1)
    shop = open_shop(rng, has_rankings)
    rows = visit(shop, visits, spread=0.3, shift=mood[visits.days][:, None], has_rankings=has_rankings)
    return judged(rows, float(np.hypot(0.3, 0.8)))


def _stores(rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Draw the store of each row `(n,)`, and by how much each store moves the logits of its clicks `(STORES,)`."""
    return np.repeat(np.arange(STORES), rng.integers(110, 211, size=STORES)), 0.7 * rng.normal(size=STORES)


HOURS_AND_DAYS: tuple[Way, ...] = (
    hours_of_a_busy_week_with_ids,
    weather_moves_days_with_ids,
    days_alike_in_lists,
    days_of_large_baskets,
)
STORES_ALIKE: tuple[Way, ...] = (
    files_of_stores_joined,
    stores_joined_one_by_one,
    regions_known_by_coordinates,
)
