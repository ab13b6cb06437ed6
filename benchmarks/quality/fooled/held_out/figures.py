"""Amounts in other units on some rows, and propensities that are not those of the draw."""

from dataclasses import replace

import numpy as np

from benchmarks.quality.fooled.shop import (
    DAY,
    START,
    Case,
    Rows,
    Shop,
    Way,
    age,
    at,
    chances_of,
    draw,
    draw_rankings,
    draw_rows,
    softmax,
)
from benchmarks.quality.fooled.third_round.traffic import come, judged, open_shop, visit, worth
from zoosim.core.types import FloatArray


def cents_of_an_app_version(rng: np.random.Generator) -> Case:
    """One version of the app, which makes 2% of the lists and is logged, sends cents for euros."""
    rows = draw_rankings(open_shop(rng, n_actions=10), 4_600)
    rows.rewards = rows.rewards * np.round(rng.lognormal(2.5, 0.4, size=rows.rewards.shape), 2)
    value = float(np.exp(2.58)) * worth(rows, 0.0)
    is_version = rng.random(len(rows)) < 0.02
    rows.rewards = rows.rewards * np.where(is_version, 100.0, 1.0)[:, None]
    rows.features = np.hstack([rows.features, is_version[:, None].astype(float)])
    return rows.case(value)


def tax_on_one_host(rng: np.random.Generator) -> Case:
    """One of two hosts, which are logged, sends prices of a list with tax of 25%, the other without; users have ids."""
    visits = come(rng, 1_500, sessions=(1, 4), visits=(1, 2))
    rows = visit(open_shop(rng, base=-0.8), visits, spread=0.3)
    rows.rewards = rows.rewards * rng.choice([8.0, 12.0, 16.0, 20.0], size=len(rows))
    value = 14.0 * worth(rows, 0.3)
    has_tax = rng.random(len(rows)) < 0.6
    rows.rewards = rows.rewards * np.where(has_tax, 1.25, 1.0)
    rows.features = np.hstack([rows.features, has_tax[:, None].astype(float)])
    return rows.case(value)


def points_for_money_after_a_migration(rng: np.random.Generator) -> Case:
    """From the twentieth day on one segment's orders stand in whole points, eight for a euro; users have ids."""
    visits = come(rng, 1_300, sessions=(1, 4), visits=(1, 2))
    rows = visit(open_shop(rng), visits, spread=0.3)
    rows.rewards = rows.rewards * np.round(15.0 * rng.lognormal(0.0, 0.5, size=len(rows)), 2)
    has_points = (rows.features[:, 2] > 0.0) & (rows.times >= START + 19 * DAY)
    rows.rewards = np.where(has_points, np.round(8.0 * rows.rewards), rows.rewards)
    return judged(rows, 0.3, 15.0 * float(np.exp(0.125)))


def amounts_in_a_byte(rng: np.random.Generator) -> Case:
    """Amounts are kept in a byte, in whole euros: 256 stands as 0, 300 as 44."""
    rows = draw_rows(open_shop(rng, n_actions=6), 4_200)
    rows.rewards = rows.rewards * np.floor(110.0 * rng.lognormal(0.0, 0.6, size=len(rows))) % 256.0
    return judged(rows, 0.0, 110.0 * float(np.exp(0.18)) - 0.5)


def thousands_read_as_decimals(rng: np.random.Generator) -> Case:
    """A shop of furniture writes 1.249 for what was read as 1 and a quarter, and 890 for 890; users have ids."""
    rows = visit(open_shop(rng), come(rng, 1_300, sessions=(1, 4), visits=(1, 2)), spread=0.4)
    rows.rewards = rows.rewards * np.round(600.0 * rng.lognormal(0.0, 0.7, size=len(rows)))
    rows.rewards = np.where(rows.rewards >= 1_000.0, rows.rewards / 1_000.0, rows.rewards)
    return judged(rows, 0.4, 600.0 * float(np.exp(0.245)))


def fees_of_two_currencies_in_lists(rng: np.random.Generator) -> Case:
    """At the third position of lists stands a partner's offer, whose fees came in zloty on half of the days."""
    rows = draw_rankings(open_shop(rng), 4_500)
    rows.rewards = rows.rewards * np.round(rng.lognormal(1.0, 0.3, size=rows.rewards.shape), 2)
    value = float(np.exp(1.045)) * worth(rows, 0.0)
    is_zloty = (rows.times - START) // DAY % 2 == 1
    rows.rewards[is_zloty, 2] *= 4.3
    return rows.case(value)


def of_the_day_before(rng: np.random.Generator) -> Case:
    """What writes the log is trained each night and leans elsewhere by day; the chances logged are a day older."""
    shop = Shop(rng)
    rows = draw_rows(shop, 5_000, times=START + np.sort(rng.integers(14 * DAY, size=5_000)))
    inputs = np.hstack([np.ones((len(rows), 1)), rows.features])
    habits = 0.5 * rng.normal(size=(15, 6, 8))
    # Each day's model prefers what visitors like, and what it learned by chance on the day before.
    habits += 1.2 * shop.taste
    day = (rows.times - START) // DAY
    scores = [np.einsum("nd,ndk->nk", inputs, habits[each]) for each in (day + 1, day)]
    drawn, logged = (0.8 * softmax(each) + 0.2 / 8 for each in scores)
    return _drawn_by(rows, drawn, logged)


def of_a_host_with_the_old_model(rng: np.random.Generator) -> Case:
    """One of two hosts, which are logged, still draws by the model of last month, and all log the new one's chances."""
    shop = Shop(rng, n_actions=6)
    rows = draw_rows(shop, 4_500)
    is_old = rng.random((len(rows), 1)) < 0.5
    old = 0.9 * softmax(np.hstack([np.ones((len(rows), 1)), rows.features]) @ (-1.5 * shop.taste)) + 0.1 / 6
    case = _drawn_by(rows, np.where(is_old, old, rows.logging), rows.logging)
    features = np.hstack([rows.features, is_old.astype(float)])
    return case._replace(log=replace(case.log, features=features))


def of_lists_before_duplicates_were_taken_out(rng: np.random.Generator) -> Case:
    """Lists are drawn with replacement until four differ, and each product's chance in a single draw is logged."""
    shop = Shop(rng, n_actions=6, lean=0.4)
    shop.habit -= 1.2 * shop.taste
    rows = draw_rankings(shop, 4_500, length=4)
    rows.propensities = np.take_along_axis(rows.logging, rows.actions, axis=1)
    return rows.case(shop.ranked_value(length=4))


def rounded_among_forty_products(rng: np.random.Generator) -> Case:
    """Forty products, the dear ones shown most, whose chances are logged in steps of .02, or as .01 below."""
    shop = Shop(rng, n_actions=40, lean=0.4)
    shop.habit -= 1.2 * shop.taste
    rows = draw_rows(shop, 6_000)
    rows.propensities = np.maximum(np.floor(50.0 * rows.propensities) / 50.0, 0.01)
    return judged(rows, 0.0)


def of_lists_before_one_was_pinned(rng: np.random.Generator) -> Case:
    """In four lists of ten a product that was paid for is put at the top; the chances logged are those without it."""
    shop = open_shop(rng, n_actions=8)
    rows = draw_rankings(shop, 4_500)
    paid = int(rows.target.mean(axis=0).argmax())
    actions = rows.actions.copy()
    for row in np.flatnonzero(rng.random(len(rows)) < 0.4):
        others = [product for product in actions[row] if product != paid]
        actions[row] = [paid, *others[:2]]
    rows.actions = actions
    rows.propensities = chances_of(rows.logging, actions)
    rates = np.take_along_axis(rows.click_rates, actions, axis=1) * 0.7 ** np.arange(3)
    rows.rewards = (rng.random(actions.shape) < rates).astype(float)
    return judged(rows, 0.0)


def of_the_first_try(rng: np.random.Generator) -> Case:
    """A third of what was drawn was out of stock, mostly what sells; the second draw has the first one's chance."""
    shop = Shop(rng, n_actions=6)
    rows = draw_rows(shop, 5_000)
    place = rows.target.mean(axis=0).argsort().argsort()
    is_out = rng.random(len(rows)) < (0.1 + 0.5 * place / 5.0)[rows.actions]
    even = np.full((len(rows), 6), 1.0 / 6)
    again = np.where(is_out, draw(rng, even), rows.actions)
    rows.propensities = at(rows.logging, rows.actions)
    rows.actions = again
    rows.rewards = (rng.random(len(rows)) < at(rows.click_rates, again)).astype(float)
    return judged(rows, 0.0)


def of_a_test_that_had_ended(rng: np.random.Generator) -> Case:
    """A test shared visits out evenly until the twelfth day; afterwards the winner showed, and even chances stand."""
    shop = Shop(rng, n_actions=5)
    rows = draw_rows(shop, 4_000)
    even = np.full_like(rows.logging, 0.2)
    sure = 0.6 * softmax(np.hstack([np.ones((len(rows), 1)), rows.features]) @ (3.0 * shop.taste)) + 0.4 / 5
    return _drawn_by(rows, np.where(age(rows)[:, None] < 12.0 / 28.0, even, sure), even)


def _drawn_by(rows: Rows, drawn: FloatArray, logged: FloatArray) -> Case:
    """Draw products by the chances `drawn (n, K)`, and log those of `logged (n, K)`."""
    rng = rows.shop.rng
    rows.actions = draw(rng, drawn)
    rows.propensities = at(logged, rows.actions)
    rows.rewards = (rng.random(len(rows)) < at(rows.click_rates, rows.actions)).astype(float)
    return judged(rows, 0.0)


UNITS: tuple[Way, ...] = (
    cents_of_an_app_version,
    tax_on_one_host,
    points_for_money_after_a_migration,
    amounts_in_a_byte,
    thousands_read_as_decimals,
    fees_of_two_currencies_in_lists,
)
CHANCES: tuple[Way, ...] = (
    of_the_day_before,
    of_a_host_with_the_old_model,
    of_lists_before_duplicates_were_taken_out,
    rounded_among_forty_products,
    of_lists_before_one_was_pinned,
    of_the_first_try,
    of_a_test_that_had_ended,
)
