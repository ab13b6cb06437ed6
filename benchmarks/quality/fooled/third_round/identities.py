"""Ids that do not name people, and accounts that are no customers."""

from dataclasses import replace

import numpy as np

from benchmarks.quality.fooled.shop import DAY, DAYS, ROWS, START, Case, Rows, Shop, Way, draw_rankings, draw_rows
from benchmarks.quality.fooled.third_round.traffic import HOUR, come, judged, named, open_shop, some, visit
from zoosim.core.types import BoolArray, IntArray

FARM_VISITS = ROWS // 5


def id_of_each_device(rng: np.random.Generator) -> Case:
    """Users come on two to five devices, each of which has an id; their profile comes along."""
    visits = come(rng, 85, sessions=(12, 36), visits=(1, 3))
    rows = visit(open_shop(rng), visits, spread=1.5)
    devices = rng.integers(2, 6, size=visits.n_users)[visits.user_of_session]
    device = (rng.random(visits.n_sessions) * devices).astype(np.int64)
    rows.users = named(rng, visits.users * 10 + device[visits.sessions])
    return judged(rows, 1.5)


def id_renewed_after_six_visits(rng: np.random.Generator) -> Case:
    """A cookie lasts for six visits, and users make 25 to 60."""
    visits = come(rng, 95, sessions=(25, 60), visits=(1, 1))
    rows = visit(Shop(rng), visits)
    rows.users = named(rng, visits.users * 100 + _count_within(visits.users) // 6)
    return judged(rows)


def id_renewed_each_week(rng: np.random.Generator) -> Case:
    """A cookie lasts until the week ends, and users make 30 to 70 visits, in which they spend."""
    visits = come(rng, 80, sessions=(30, 70), visits=(1, 1))
    rows = visit(open_shop(rng), visits)
    rows.rewards = rows.rewards * rng.lognormal(0.0, 0.4, size=len(rows))
    rows.users = named(rng, visits.users * 10 + visits.days // 7)
    return judged(rows, scale=float(np.exp(0.08)))


def id_renewed_with_each_list(rng: np.random.Generator) -> Case:
    """Each ranking has an id of its own, and users with a profile see 25 to 60."""
    visits = come(rng, 95, sessions=(25, 60), visits=(1, 1))
    rows = visit(open_shop(rng), visits, has_rankings=True)
    rows.users = named(rng, np.arange(len(rows)))
    return judged(rows)


def farm_of_accounts_with_three_visits(rng: np.random.Generator) -> Case:
    """By night hundreds of accounts make three visits each and click all they see; the value is that of people."""
    return _farm(rng, clicks_all=True)


def farm_by_night_for_one_seller(rng: np.random.Generator) -> Case:
    """By night hundreds of accounts click what one seller sells, and nothing else; the value is that of people."""
    return _farm(rng, clicks_all=False, n_farm=ROWS // 3)


def farm_by_night_for_one_seller_without_ids(rng: np.random.Generator) -> Case:
    """The same, and nothing names users."""
    case = _farm(rng, clicks_all=False, n_farm=ROWS // 4)
    return case._replace(log=replace(case.log, user_ids=None))


def farm_on_lists(rng: np.random.Generator) -> Case:
    """By night accounts of three visits click what one seller has in their lists; the value is that of people."""
    return _farm(rng, clicks_all=False, n_farm=ROWS // 4, has_rankings=True)


def scraper_that_never_clicks(rng: np.random.Generator) -> Case:
    """A crawler takes another account after four pages, and never clicks; the value is that of people."""
    return _farm(rng, clicks_all=None, visits=4)


def users_without_clicks_one_in_ten(rng: np.random.Generator) -> Case:
    """Of the users who clicked nothing one in ten was kept; each makes two to eight visits, and has an id."""
    visits = come(rng, 1_300, sessions=(1, 2), visits=(2, 4))
    rows = visit(Shop(rng), visits, spread=0.7)
    return judged(_without_idle(rng, rows, visits.users), 0.7)


def users_without_orders_one_in_five(rng: np.random.Generator) -> Case:
    """Of the users who bought nothing one in five was kept; orders have amounts, and users ids."""
    visits = come(rng, 1_300, sessions=(1, 3), visits=(1, 3))
    rows = visit(Shop(rng), visits, spread=0.5)
    rows.rewards = rows.rewards * rng.lognormal(3.0, 0.5, size=len(rows))
    kept = _without_idle(rng, rows, visits.users, 0.2)
    return judged(kept, 0.5, float(np.exp(3.125)))


def lists_of_idle_users_one_in_ten(rng: np.random.Generator) -> Case:
    """Of the users who clicked nothing in any list one in ten was kept."""
    visits = come(rng, 1_500, sessions=(1, 2), visits=(1, 3))
    rows = visit(open_shop(rng, base=-2.2), visits, spread=0.5, has_rankings=True)
    return judged(_without_idle(rng, rows, visits.users), 0.5)


def _count_within(users: IntArray) -> IntArray:
    """Return how many visits the user of each has made before `(n,)`."""
    order = np.argsort(users, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(users))[:-1]])
    counts = np.empty(len(users), np.int64)
    counts[order] = np.arange(len(users)) - starts[users[order]]
    return counts


def _without_idle(rng: np.random.Generator, rows: Rows, users: IntArray, share: float = 0.1) -> Rows:
    """Keep a share of the users who never earned anything, and all others."""
    earned = rows.rewards.reshape(len(rows), -1).sum(axis=1)
    is_idle = np.bincount(users, earned) == 0.0
    is_kept: BoolArray = ~is_idle | (rng.random(len(is_idle)) < share)
    return some(rng, rows, is_kept[users])


def _farm(
    rng: np.random.Generator,
    clicks_all: bool | None,
    n_farm: int = FARM_VISITS,
    visits: int = 3,
    *,
    has_rankings: bool = False,
) -> Case:
    """Draw customers of 1 to 9 visits, and accounts that come in ten nights; these click all, nothing, or one seller.

    The seller has two of the products that the policy likes.
    """
    shop = open_shop(rng, has_rankings)
    people = come(rng, (ROWS - n_farm) // 5, sessions=(1, 3), visits=(1, 4))
    n_accounts = n_farm // visits
    nights = START + rng.choice(DAYS, size=10, replace=False) * DAY + 2 * HOUR
    accounts = np.repeat(np.arange(n_accounts), visits)
    begin = nights[rng.integers(10, size=n_accounts)] + rng.integers(HOUR, size=n_accounts)
    times = np.concatenate([people.times, begin[accounts] + rng.integers(HOUR, size=len(accounts))])
    users = np.concatenate([people.users, people.n_users + accounts])
    order = np.argsort(times, kind="stable")
    users = users[order]
    n_users = people.n_users + n_accounts
    features = shop.visitors(n_users)[users]
    taste = 0.5 * rng.normal(size=n_users)
    draw_visits = draw_rankings if has_rankings else draw_rows
    rows = draw_visits(shop, features=features, shift=taste[users][:, None], times=times[order])
    rows.users = named(rng, users)
    of_seller = np.argsort(-rows.target.mean(axis=0))[:2]
    farmed = np.isin(rows.actions, of_seller) if clicks_all is False else np.full(rows.actions.shape, bool(clicks_all))
    is_farm = (users >= people.n_users).reshape(-1, *[1] * (rows.actions.ndim - 1))
    rows.rewards = np.where(is_farm, farmed.astype(float), rows.rewards)
    return judged(rows, 0.5)


RENEWED: tuple[Way, ...] = (
    id_of_each_device,
    id_renewed_after_six_visits,
    id_renewed_each_week,
    id_renewed_with_each_list,
)
FARMS: tuple[Way, ...] = (
    farm_of_accounts_with_three_visits,
    farm_by_night_for_one_seller,
    farm_by_night_for_one_seller_without_ids,
    farm_on_lists,
    scraper_that_never_clicks,
)
IDLE: tuple[Way, ...] = (
    users_without_clicks_one_in_ten,
    users_without_orders_one_in_five,
    lists_of_idle_users_one_in_ten,
)
