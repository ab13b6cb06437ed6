"""Users who have ids, and whose rewards go together beyond them: days, stores, and ids that are not those of users."""

import numpy as np

from benchmarks.quality.fooled.shop import DAY, DAYS, ROWS, START, VISITORS, Case, Rows, Shop, Way, draw_rows
from zoosim.core.types import IntArray

HOUR = DAY // 24
STORES = 25
TASTE = 1.0


def days_alike_with_ids(rng: np.random.Generator) -> Case:
    """Each day moves all its clicks up or down; users of four visits have ids; the value is that of any day."""
    return _moods(rng, DAY)


def hours_alike_with_ids(rng: np.random.Generator) -> Case:
    """Each hour of two days moves all its clicks; users of four visits have ids; the value is that of any hour."""
    return _moods(rng, HOUR, days=2)


def stores_one_after_another(rng: np.random.Generator) -> Case:
    """25 stores whose clicks differ, each with its rows in a row; users have ids, the store is not logged."""
    rows, store = _stores(rng)
    order = np.argsort(store, kind="stable")
    times = rows.times
    rows = rows.take(order)
    rows.times = times
    return rows.case(_value_of_moods(rng, rows.shop))


def stores_known_by_a_number(rng: np.random.Generator) -> Case:
    """25 stores whose clicks differ, known by their size alone, a measured number; users have ids."""
    rows, store = _stores(rng)
    rows.features = np.hstack([rows.features, rng.normal(size=STORES)[store][:, None]])
    return rows.case(_value_of_moods(rng, rows.shop))


def stores_known_by_what_they_have(rng: np.random.Generator) -> Case:
    """25 stores whose clicks differ, each with products of its own choice; users have ids, the store is not logged."""
    rows, store = _stores(rng)
    has = rng.random((STORES, rows.shop.n_actions)) > 0.25
    has[:, :2] = True
    logging = rows.logging * has[store]
    logging /= logging.sum(axis=1, keepdims=True)
    mood = 0.5 * rng.normal(size=STORES)
    again = draw_rows(rows.shop, features=rows.features, shift=mood[store][:, None], times=rows.times, logging=logging)
    again.users = rows.users
    again.available = has[store]
    again.target = rows.target * has[store]
    again.target /= again.target.sum(axis=1, keepdims=True)
    fresh = rows.shop.visitors(VISITORS)
    fresh_has = rng.random((VISITORS, rows.shop.n_actions)) > 0.25
    fresh_has[:, :2] = True
    target = rows.shop.target(fresh) * fresh_has
    target /= target.sum(axis=1, keepdims=True)
    rates = rows.shop.click_rates(fresh, 0.5 * rng.normal(size=(VISITORS, 1)))
    return again.case(float((target * rates).sum(axis=1).mean()))


def ids_renewed_after_five_visits(rng: np.random.Generator) -> Case:
    """25 to 60 visits of each user, who gets another id after each five."""
    rows, user = _users(rng)
    place = _place(user)
    rows.users = user * 100 + place // 5
    return rows.case(_value_of_users(rng, rows.shop))


def ids_of_devices(rng: np.random.Generator) -> Case:
    """25 to 60 visits of each user, who has three devices with an id each; which one is a feature."""
    rows, user = _users(rng)
    device = rng.integers(3, size=len(user))
    rows.users = user * 3 + device
    rows.features = np.hstack([rows.features, (device == 1.0)[:, None]])
    return rows.case(_value_of_users(rng, rows.shop))


def ids_of_days(rng: np.random.Generator) -> Case:
    """25 to 60 visits of each user, whose id is renewed each night; one of the numbers is that of the visit."""
    rows, user = _users(rng)
    rows.users = user * DAYS + (rows.times - START) // DAY
    rows.features = np.hstack([rows.features, rng.normal(size=(len(user), 1))])
    return rows.case(_value_of_users(rng, rows.shop))


def _moods(rng: np.random.Generator, span: int, days: int = DAYS) -> Case:
    shop = Shop(rng)
    times = START + np.sort(rng.integers(days * DAY, size=ROWS))
    mood = 0.5 * rng.normal(size=days * DAY // span)
    users = rng.permutation(np.repeat(np.arange(ROWS // 4), 4))
    features = shop.visitors(ROWS // 4)[users]
    rows = draw_rows(shop, features=features, times=times, shift=mood[(times - START) // span][:, None])
    rows.users = users
    return rows.case(_value_of_moods(rng, shop))


def _stores(rng: np.random.Generator) -> tuple[Rows, IntArray]:
    """Draw users of four visits, each of one store."""
    shop = Shop(rng)
    users = rng.permutation(np.repeat(np.arange(ROWS // 4), 4))
    store = rng.integers(STORES, size=ROWS // 4)[users]
    mood = 0.5 * rng.normal(size=STORES)
    rows = draw_rows(shop, features=shop.visitors(ROWS // 4)[users], shift=mood[store][:, None])
    rows.users = users
    return rows, store


def _users(rng: np.random.Generator) -> tuple[Rows, IntArray]:
    """Draw users of 25 to 60 visits at any time, with tastes of their own."""
    shop = Shop(rng)
    visits = rng.integers(25, 61, size=ROWS // 42)
    users = rng.permutation(np.repeat(np.arange(len(visits)), visits))
    taste = TASTE * rng.normal(size=len(visits))
    rows = draw_rows(shop, len(users), shop.visitors(len(visits))[users], taste[users][:, None])
    return rows, users


def _place(users: IntArray) -> IntArray:
    """Return how many visits of the same user came before each one `(n,)`."""
    order = np.argsort(users, kind="stable")
    place = np.empty(len(users), np.int64)
    place[order] = np.arange(len(users)) - np.searchsorted(users[order], users[order])
    return place


def _value_of_moods(rng: np.random.Generator, shop: Shop) -> float:
    return shop.value(0.5 * rng.normal(size=(VISITORS, 1)))


def _value_of_users(rng: np.random.Generator, shop: Shop) -> float:
    return shop.value(TASTE * rng.normal(size=(VISITORS, 1)))


GROUPS: tuple[Way, ...] = (
    days_alike_with_ids,
    hours_alike_with_ids,
    stores_one_after_another,
    stores_known_by_a_number,
    stores_known_by_what_they_have,
    ids_renewed_after_five_visits,
    ids_of_devices,
    ids_of_days,
)
