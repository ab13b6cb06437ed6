"""Faults that no log can show, each beside the sound log that looks just the same."""

import numpy as np

from benchmarks.quality.fooled.shop import ROWS, VISITORS, Case, Shop, Way, at, draw_rows, softmax
from benchmarks.quality.fooled.third_round.traffic import come, judged, named, open_shop, visit

CANDIDATES = 300


def stores_at_all_hours(rng: np.random.Generator) -> Case:
    """12 stores differ, and users with ids come to one of them at any time, which is not logged; any store's value.

    It looks like one shop whose users differ as much: whose tastes go together is known by the store alone.
    """
    visits = come(rng, 1_000, sessions=(2, 6), visits=(1, 1))
    mood = 0.7 * rng.normal(size=12)
    store = rng.integers(12, size=visits.n_users)
    rows = visit(Shop(rng), visits, spread=0.4, shift=mood[store][visits.users][:, None])
    return judged(rows, float(np.hypot(0.4, 0.7)))


def best_of_three_hundred_by_the_same_rows(rng: np.random.Generator) -> Case:
    """Of 300 policies that somebody thought of, the one is judged that this log itself estimates best.

    It looks like a policy that was alone: one choice among 300 leaves no trace in the probabilities of a visit.
    """
    rows = draw_rows(Shop(rng))
    inputs = np.hstack([np.ones((ROWS, 1)), rows.features])
    weights = 0.25 * rng.normal(size=(CANDIDATES, inputs.shape[1], rows.shop.n_actions))
    per_chance = rows.rewards / rows.propensities
    estimates = [(at(softmax(inputs @ each), rows.actions) * per_chance).mean() for each in weights]
    best = weights[int(np.argmax(estimates))]
    rows.target = softmax(inputs @ best)
    fresh = rows.shop.visitors(VISITORS)
    chances = softmax(np.hstack([np.ones((VISITORS, 1)), fresh]) @ best)
    return rows.case(float((chances * rows.shop.click_rates(fresh)).sum(axis=1).mean()))


def amounts_in_whole_tens(rng: np.random.Generator) -> Case:
    """All amounts were cut to whole tens, 19.99 to 10; the value is of what was paid.

    It looks like a shop whose prices are 10, 20 and 30, as a shop of vouchers has.
    """
    rows = draw_rows(open_shop(rng))
    rows.rewards = np.floor(rows.rewards * 24.0 * rng.lognormal(0.0, 0.5, size=len(rows)) / 10.0) * 10.0
    return judged(rows, 0.0, 24.0 * float(np.exp(0.125)))


def currency_of_a_country(rng: np.random.Generator) -> Case:
    """One country's amounts stand in its own currency, four times as high, from beginning to end; users have ids.

    It looks like a country that spends four times as much.
    """
    rows = visit(open_shop(rng), come(rng, 600, sessions=(2, 6), visits=(1, 3)), spread=0.4)
    amounts = 20.0 * rng.lognormal(0.0, 0.4, size=len(rows))
    rows.rewards = rows.rewards * amounts * np.where(rows.features[:, 1] > 0.0, 4.0, 1.0)
    return judged(rows, 0.4, 20.0 * float(np.exp(0.08)))


def farm_at_all_hours_for_one_seller(rng: np.random.Generator) -> Case:
    """A sixth of the visits are of accounts, seen once each, that click one seller's product; people's value.

    It looks like a product that visitors like as much as people and accounts together do.
    """
    rows = draw_rows(Shop(rng))
    is_farm = rng.random(ROWS) < 1.0 / 6.0
    product = rows.target.mean(axis=0).argmax()
    rows.rewards = np.where(is_farm, (rows.actions == product).astype(float), rows.rewards)
    rows.users = named(rng, np.arange(ROWS))
    return judged(rows, 0.0)


def returns_that_are_never_booked(rng: np.random.Generator) -> Case:
    """A third of what was bought comes back, and the log never hears of it; the value is of orders that are kept.

    It looks like a shop to which nothing comes back.
    """
    rows = visit(Shop(rng), come(rng, 600, sessions=(2, 6), visits=(1, 3)), spread=0.4)
    return judged(rows, 0.4, 2.0 / 3.0)


def ids_of_visits_without_a_profile(rng: np.random.Generator) -> Case:
    """Each of 25 to 60 visits of a user has an id of its own, and features of its own; any user's value.

    It looks like visitors who come once: no two visits have anything in common that is logged.
    """
    visits = come(rng, 95, sessions=(25, 60), visits=(1, 1))
    taste = rng.normal(size=visits.n_users)
    rows = draw_rows(Shop(rng), len(visits.users), shift=taste[visits.users][:, None], times=visits.times)
    rows.users = named(rng, np.arange(len(rows)))
    return judged(rows)


def lists_of_which_half_the_clicks_were_lost(rng: np.random.Generator) -> Case:
    """Half of the clicks on rankings, whichever they were, never arrived; the value is of all clicks.

    It looks like a shop in which half as much is clicked.
    """
    visits = come(rng, 600, sessions=(2, 6), visits=(1, 3))
    rows = visit(open_shop(rng), visits, spread=0.3, has_rankings=True)
    rows.rewards = rows.rewards * (rng.random(rows.rewards.shape) < 0.5)
    return judged(rows, 0.3)


HIDDEN: tuple[Way, ...] = (
    stores_at_all_hours,
    best_of_three_hundred_by_the_same_rows,
    amounts_in_whole_tens,
    currency_of_a_country,
    farm_at_all_hours_for_one_seller,
    returns_that_are_never_booked,
    ids_of_visits_without_a_profile,
    lists_of_which_half_the_clicks_were_lost,
)
