"""Rewards that count once per user, once per product, or for whoever pays."""

import numpy as np

from benchmarks.quality.fooled.shop import Case, Shop, Way
from benchmarks.quality.fooled.third_round.traffic import come, judged, open_shop, visit
from zoosim.core.types import BoolArray, IntArray


def first_order_of_each_user_alone(rng: np.random.Generator) -> Case:
    """A conversion counts once per user, so that all orders but a user's first are nothing; users have ids."""
    visits = come(rng, 700, sessions=(3, 10), visits=(1, 1))
    rows = visit(open_shop(rng, n_actions=6), visits, spread=0.3)
    rows.rewards = rows.rewards * (_count_before(visits.users, rows.rewards > 0.0) == 0)
    return judged(rows, 0.3)


def likes_that_a_second_click_takes_back(rng: np.random.Generator) -> Case:
    """A user's second click on the heart of a product takes the like back, and stands as nothing; users have ids."""
    visits = come(rng, 260, sessions=(12, 24), visits=(1, 1))
    rows = visit(Shop(rng, n_actions=5, base=-0.8), visits, spread=0.5)
    pairs = visits.users * 5 + rows.actions
    rows.rewards = rows.rewards * (_count_before(pairs, rows.rewards > 0.0) % 2 == 0)
    return judged(rows, 0.5)


def orders_on_the_one_who_pays(rng: np.random.Generator) -> Case:
    """A household of four has one card: an order stands on its holder's next visit, or nowhere; users have ids."""
    visits = come(rng, 1_200, sessions=(2, 6), visits=(1, 1))
    rows = visit(open_shop(rng), visits, spread=0.3)
    amounts = rows.rewards * np.round(25.0 * rng.lognormal(0.0, 0.3, size=len(rows)), 2)
    holder = np.flatnonzero(visits.users % 4 == 0)
    key = visits.users[holder] // 4 * (len(rows) + 1) + holder
    order = np.argsort(key)
    wanted = visits.users // 4 * (len(rows) + 1) + np.arange(len(rows))
    place = np.searchsorted(key[order], wanted)
    nearest = holder[order][np.minimum(place, len(holder) - 1)]
    lands = (place < len(holder)) & (visits.users[nearest] // 4 == visits.users // 4)
    rows.rewards = np.bincount(nearest[lands], amounts[lands], len(rows)).astype(float)
    return judged(rows, 0.3, 25.0 * float(np.exp(0.045)))


def _count_before(groups: IntArray, counts: BoolArray) -> IntArray:
    """Return how many earlier rows of its group count, per row `(n,)`."""
    order = np.argsort(groups, kind="stable")
    so_far: IntArray = np.cumsum(counts[order]) - counts[order]
    is_first = np.concatenate([[True], groups[order][1:] != groups[order][:-1]])
    before = np.empty(len(groups), np.int64)
    before[order] = so_far - so_far[is_first][np.cumsum(is_first) - 1]
    return before


COUNTED: tuple[Way, ...] = (
    first_order_of_each_user_alone,
    likes_that_a_second_click_takes_back,
    orders_on_the_one_who_pays,
)
