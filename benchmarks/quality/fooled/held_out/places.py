"""Places and stretches of time whose visits go together, and clocks by which clicks meet other visits."""

import numpy as np

from benchmarks.quality.fooled.shop import DAY, START, Case, Shop, Way, draw_rankings, draw_rows
from benchmarks.quality.fooled.third_round.traffic import HOUR, SECOND, Visits, come, judged, named, open_shop, visit
from zoosim.core.types import FloatArray, IntArray

MINUTE = 60 * SECOND
WEEK = 7 * DAY


def towns_on_a_map_with_lists(rng: np.random.Generator) -> Case:
    """Visitors of 16 towns, each with a will to click of its own, whose houses the log has on a map; any town's."""
    town = rng.integers(16, size=3_800)
    mood = 0.7 * rng.normal(size=16)
    rows = draw_rankings(open_shop(rng, n_actions=10), len(town), shift=mood[town][:, None])
    value = rows.shop.ranked_value(0.7 * rng.normal(size=(20_000, 1)))
    centre = rng.normal(size=(16, 2))
    rows.features = np.hstack([rows.features, centre[town] + 0.05 * rng.normal(size=(len(town), 2))])
    return rows.case(value)


def crowds_of_spots_that_differ(rng: np.random.Generator) -> Case:
    """Each of 18 television spots brings 150 visitors within minutes, who click as the film was; any film's value."""
    spot = np.repeat(np.arange(18), 150)
    begin = rng.integers(28 * DAY, size=18)
    times = begin[spot] + rng.integers(8 * MINUTE, size=len(spot))
    between = rng.integers(28 * DAY, size=1_300)
    mood = np.concatenate([1.1 * rng.normal(size=18)[spot], np.zeros(len(between))])
    times = np.concatenate([times, between])
    order = np.argsort(times)
    rows = draw_rows(Shop(rng, n_actions=6), len(order), shift=mood[order][:, None], times=START + times[order])
    rows.users = named(rng, np.arange(len(order)))
    fresh = np.where(rng.random((20_000, 1)) < 2_700 / 4_000, 1.1, 0.0) * rng.normal(size=(20_000, 1))
    return rows.case(rows.shop.value(fresh))


def weeks_of_a_season_alike(rng: np.random.Generator) -> Case:
    """Each of 14 weeks moves all that is spent, and users with ids come two or three times; any week's value."""
    visits = come(rng, 1_900, sessions=(2, 3), visits=(1, 1), span=14 * WEEK)
    rows = visit(open_shop(rng, base=-0.8), visits, spread=0.3)
    basket = np.exp(0.6 * rng.normal(size=15))
    rows.rewards = rows.rewards * basket[(visits.times - START) // WEEK] * rng.lognormal(3.0, 0.3, size=len(rows))
    return judged(rows, 0.3, float(np.exp(0.18 + 3.045)))


def readers_of_newsletters(rng: np.random.Generator) -> Case:
    """Each of 20 newsletters goes to readers who are alike, within a day, and click as they are; any letter's value."""
    letter = rng.integers(20, size=4_400)
    times = START + rng.integers(27 * DAY, size=20)[letter] + (rng.exponential(4.0, len(letter)) * HOUR).astype(int)
    order = np.argsort(times)
    letter = letter[order]
    shop = Shop(rng)
    features = shop.visitors(len(letter))
    features[:, 3:] = rng.normal(size=(20, 2))[letter] + 0.3 * rng.normal(size=(len(letter), 2))
    mood = 0.8 * rng.normal(size=20)
    rows = draw_rows(shop, features=features, shift=mood[letter][:, None], times=times[order])
    fresh = shop.visitors(20_000)
    fresh[:, 3:] *= np.sqrt(1.09)
    rates = shop.click_rates(fresh, 0.8 * rng.normal(size=(20_000, 1)))
    return rows.case(float((shop.target(fresh) * rates).sum(axis=1).mean()))


def releases_that_break_and_mend(rng: np.random.Generator) -> Case:
    """Releases come at any time, 24 in four weeks, and each page is faster or slower; lists, ids; any release's."""
    visits = come(rng, 1_400, sessions=(2, 4), visits=(1, 1))
    at_release = START + np.sort(rng.integers(28 * DAY, size=24))
    mood = 0.9 * rng.normal(size=25)
    shift = mood[np.searchsorted(at_release, visits.times)][:, None]
    rows = visit(open_shop(rng, n_actions=6), visits, spread=0.3, shift=shift, has_rankings=True)
    return judged(rows, float(np.hypot(0.3, 0.9)))


def summer_time_of_one_host(rng: np.random.Generator) -> Case:
    """From the ninth day on two hosts in three are an hour behind, and clicks meet a visit of before; users have ids.

    Users come every half hour or so of an evening.
    """
    visits = come(rng, 560, sessions=(1, 2), visits=(4, 9), gap=1_800.0)
    is_behind = (visits.days >= 8) & (rng.random(len(visits.users)) < 0.67)
    return _joined(rng, visits, np.where(is_behind, -3_600.0, 0.0))


def clock_that_loses_seconds_each_day(rng: np.random.Generator) -> Case:
    """The clock of clicks loses two seconds a day, and clicks meet an earlier page of the visit; no ids."""
    visits = come(rng, 800, sessions=(1, 2), visits=(3, 6), gap=30.0)
    return _joined(rng, visits, -2.0 * visits.days.astype(float), has_ids=False)


def local_time_of_a_country_in_lists(rng: np.random.Generator) -> Case:
    """Clicks of one country, half of the users, are in local time, two hours ahead, and meet later lists; ids."""
    visits = come(rng, 450, sessions=(1, 3), visits=(3, 6), gap=2_700.0)
    ahead = np.where((rng.random(visits.n_users) < 0.6)[visits.users], 7_200.0, 0.0)
    return _joined(rng, visits, ahead, has_rankings=True)


def clock_that_is_set_each_night(rng: np.random.Generator) -> Case:
    """A clock gains four seconds an hour and is set at midnight: clicks of the day meet later pages; ids."""
    visits = come(rng, 600, sessions=(1, 3), visits=(3, 6), gap=35.0)
    hours = (visits.times - START) % DAY / HOUR
    return _joined(rng, visits, 4.0 * hours)


def _joined(
    rng: np.random.Generator, visits: Visits, ahead: FloatArray, *, has_ids: bool = True, has_rankings: bool = False
) -> Case:
    """Join each click with the user's last page before it, by a clock that is `ahead (n,)` seconds."""
    rows = visit(open_shop(rng, has_rankings), visits, spread=0.4, has_rankings=has_rankings)
    page = _page_before(visits, ahead + rng.uniform(1.0, 20.0, size=len(ahead)))
    earned = rows.rewards
    booked = np.zeros_like(earned)
    np.add.at(booked, page[page >= 0], earned[page >= 0])
    rows.rewards = np.minimum(booked, 1.0)
    if not has_ids:
        rows.users = None
    return judged(rows, 0.4)


def _page_before(visits: Visits, after: FloatArray) -> IntArray:
    """Return the session's page that a click so many seconds after each page meets `(n,)`, or -1."""
    span = np.int64(200 * DAY)
    order = np.lexsort((visits.times, visits.sessions))
    session = visits.sessions[order]
    keys = session * span + (visits.times[order] - START)
    clicks = keys + (after[order] * SECOND).astype(np.int64)
    place = np.searchsorted(keys, clicks, side="right") - 1
    is_met = (place >= 0) & (session[np.maximum(place, 0)] == session)
    met = np.full(len(order), -1)
    met[order] = np.where(is_met, order[np.maximum(place, 0)], -1)
    return met


ALIKE: tuple[Way, ...] = (
    towns_on_a_map_with_lists,
    crowds_of_spots_that_differ,
    weeks_of_a_season_alike,
    readers_of_newsletters,
    releases_that_break_and_mend,
)
CLOCKS: tuple[Way, ...] = (
    summer_time_of_one_host,
    clock_that_loses_seconds_each_day,
    local_time_of_a_country_in_lists,
    clock_that_is_set_each_night,
)
