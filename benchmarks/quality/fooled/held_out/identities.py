"""Ids that do not name people, and visits that are no people's."""

from dataclasses import replace

import numpy as np

from benchmarks.quality.fooled.shop import (
    DAY,
    DAYS,
    START,
    Case,
    Rows,
    Shop,
    Way,
    draw_rankings,
    draw_rows,
)
from benchmarks.quality.fooled.third_round.traffic import HOUR, SECOND, come, judged, named, open_shop, visit, worth
from zoosim.core.types import BoolArray, FloatArray, IntArray

MINUTE = 60 * SECOND


def visits_before_the_login(rng: np.random.Generator) -> Case:
    """Of 34 users, who differ by far, three sessions in four come before the login and have an id of their own."""
    visits = come(rng, 34, sessions=(40, 90), visits=(1, 3))
    rows = visit(open_shop(rng), visits, spread=1.5)
    rows.rewards = rows.rewards * np.round(rng.lognormal(3.0, 0.4, size=len(rows)), 2)
    is_named = rng.random(visits.n_sessions) < 0.25
    ids = np.where(is_named[visits.sessions], visits.users, 1_000 + visits.sessions)
    return judged(replace(rows, users=named(rng, ids)), 1.5, float(np.exp(3.08)))


def ids_salted_by_product_and_week(rng: np.random.Generator) -> Case:
    """The id is a hash of user, product and week, so that each of 28 users has ids by the dozen."""
    visits = come(rng, 28, sessions=(90, 210), visits=(1, 1))
    rows = visit(open_shop(rng, n_actions=30), visits, spread=1.8)
    return judged(replace(rows, users=named(rng, (visits.users * 30 + rows.actions) * 5 + visits.days // 7)), 1.8)


def ids_salted_by_the_top_of_a_list(rng: np.random.Generator) -> Case:
    """The id is a hash of user and the product at the top, so that each of 24 users has 16."""
    visits = come(rng, 24, sessions=(90, 220), visits=(1, 1))
    rows = visit(open_shop(rng, n_actions=16), visits, spread=1.6, has_rankings=True)
    return judged(replace(rows, users=named(rng, visits.users * 16 + rows.actions[:, 0])), 1.6)


def resellers_with_many_accounts(rng: np.random.Generator) -> Case:
    """45 resellers order by accounts of one to three visits, all with the reseller's profile, but for noise."""
    visits = come(rng, 45, sessions=(30, 60), visits=(1, 3))
    shop = open_shop(rng)
    rows = visit(shop, visits, spread=1.1)
    rows.rewards = rows.rewards * rng.lognormal(4.0, 0.3, size=len(rows))
    rows.features[:, 3:] += 0.01 * rng.normal(size=(len(rows), 2))
    return judged(replace(rows, users=named(rng, visits.sessions)), 1.1, float(np.exp(4.045)))


def monitor_every_forty_minutes(rng: np.random.Generator) -> Case:
    """A monitor asks every forty minutes in the name of one of six profiles, and never clicks; people's value."""
    shop = Shop(rng, n_actions=6)
    features = shop.visitors(3_200)
    beats = START + np.arange(DAYS * 36) * 40 * MINUTE + rng.integers(2 * SECOND, size=DAYS * 36)
    profiles = shop.visitors(6)[np.arange(len(beats)) % 6]
    return _mixed(shop, features, START + rng.integers(DAYS * DAY, size=3_200), profiles, beats, 0.0)


def price_bot_on_lists_at_three_in_the_morning(rng: np.random.Generator) -> Case:
    """Each night from three to half past a bot reads 40 lists with a new profile each; no ids; people's value."""
    shop = open_shop(rng, n_actions=12)
    nights = START + np.repeat(np.arange(DAYS), 40) * DAY + 3 * HOUR
    times = nights + rng.integers(30 * MINUTE, size=len(nights))
    people = START + rng.integers(DAYS * DAY, size=3_200)
    return _mixed(shop, shop.visitors(3_200), people, shop.visitors(len(times)), times, 0.0, has_rankings=True)


def orders_of_testers(rng: np.random.Generator) -> Case:
    """On three days before a release testers order all they see, by accounts of five visits; people's value."""
    shop = open_shop(rng)
    visits = come(rng, 1_000, sessions=(1, 3), visits=(1, 3))
    n_accounts = 70
    accounts = np.repeat(np.arange(n_accounts), 5)
    day = START + rng.integers(9, 12, size=n_accounts) * DAY + 9 * HOUR
    times = day[accounts] + rng.integers(7 * HOUR, size=len(accounts))
    features = shop.visitors(visits.n_users)[visits.users]
    testers = shop.visitors(n_accounts)[accounts]
    users = np.concatenate([visits.users, visits.n_users + accounts])
    case = _mixed(shop, features, visits.times, testers, times, 1.0, users=users)
    amounts = np.round(rng.lognormal(2.5, 0.4, size=len(case.log)), 2)
    log = replace(case.log, rewards=case.log.rewards * amounts)
    return case._replace(log=log, value=case.value * float(np.exp(2.58)))


def rival_that_clicks_the_top_of_lists(rng: np.random.Generator) -> Case:
    """A rival has the top of lists clicked, one list per id, from one place at all hours; people's value."""
    shop = open_shop(rng, n_actions=10, base=-2.0)
    n_people, n_rival = 3_400, 500
    place = shop.visitors(1) + np.zeros((n_rival, 1))
    place[:, 3:] += 0.05 * rng.normal(size=(n_rival, 2))
    times = rng.integers(DAYS * DAY, size=n_people + n_rival) + START
    users = np.arange(n_people + n_rival)
    people, rival = times[:n_people], times[n_people:]
    return _mixed(shop, shop.visitors(n_people), people, place, rival, None, has_rankings=True, users=users)


def crawler_with_a_new_id_every_two_seconds(rng: np.random.Generator) -> Case:
    """In twelve nights a crawler follows all that it is shown, a page every two seconds, each with a new id."""
    shop = Shop(rng)
    nights = START + rng.choice(DAYS, size=12, replace=False) * DAY + rng.integers(5 * HOUR, size=12)
    times = (nights[:, None] + np.arange(45) * 2 * SECOND).ravel()
    people = START + rng.integers(DAYS * DAY, size=3_600)
    users = np.arange(3_600 + len(times))
    return _mixed(shop, shop.visitors(3_600), people, shop.visitors(len(times)), times, 1.0, users=users)


def mail_clients_that_open_each_link(rng: np.random.Generator) -> Case:
    """Every morning at seven newsletters go out, and within a minute mail clients click all that they show."""
    shop = Shop(rng, n_actions=5)
    mornings = START + np.repeat(np.arange(DAYS), 18) * DAY + 7 * HOUR
    times = mornings + rng.integers(MINUTE, size=len(mornings))
    people = START + rng.integers(DAYS * DAY, size=3_500)
    return _mixed(shop, shop.visitors(3_500), people, shop.visitors(len(times)), times, 1.0)


def _mixed(
    shop: Shop,
    features: FloatArray,
    times: IntArray,
    robots: FloatArray,
    robot_times: IntArray,
    clicks: float | None,
    *,
    has_rankings: bool = False,
    users: IntArray | None = None,
) -> Case:
    """Draw people's visits and robots', which have a reward of `clicks` each, or click the top alone (None)."""
    together = np.concatenate([times, robot_times])
    order = np.argsort(together, kind="stable")
    is_robot: BoolArray = order >= len(times)
    draw_visits = draw_rankings if has_rankings else draw_rows
    rows: Rows = draw_visits(shop, features=np.vstack([features, robots])[order], times=together[order])
    if users is not None:
        rows.users = named(shop.rng, users[order])
    of_robots = np.full(rows.actions.shape, 0.0 if clicks is None else clicks)
    if clicks is None:
        of_robots[:, 0] = 1.0
    rows.rewards = np.where(is_robot.reshape(-1, *[1] * (rows.actions.ndim - 1)), of_robots, rows.rewards)
    return rows.case(worth(rows, 0.0))


RENEWED: tuple[Way, ...] = (
    visits_before_the_login,
    ids_salted_by_product_and_week,
    ids_salted_by_the_top_of_a_list,
    resellers_with_many_accounts,
)
ROBOTS: tuple[Way, ...] = (
    monitor_every_forty_minutes,
    price_bot_on_lists_at_three_in_the_morning,
    orders_of_testers,
    rival_that_clicks_the_top_of_lists,
    crawler_with_a_new_id_every_two_seconds,
    mail_clients_that_open_each_link,
)
