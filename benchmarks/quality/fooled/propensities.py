"""Probabilities that are not those of the choices, and rows that are missing or come twice."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.quality.fooled.shop import Case, Rows, Shop, Way, age, at, draw, draw_rows, softmax
from zoosim.core.types import BoolArray, FloatArray, IntArray


def rounded(rng: np.random.Generator) -> Case:
    """Probabilities rounded to tenths, .1 at least."""
    return _logged_as(rng, lambda rows: np.maximum(rows.propensities.round(1), 0.1))


def of_another_policy(rng: np.random.Generator) -> Case:
    """The probabilities that another policy gives the logged actions."""
    return _logged_as(rng, lambda rows: at(rows.logging[:, ::-1], rows.actions))


def all_alike(rng: np.random.Generator) -> Case:
    """1 / K for each, as if choices were made by a die."""
    return _logged_as(rng, lambda rows: np.full(len(rows), 1.0 / rows.shop.n_actions))


def of_the_share_of_a_product(rng: np.random.Generator) -> Case:
    """How often a product is shown in the log, whoever came."""
    return _logged_as(rng, lambda rows: (np.bincount(rows.actions) / len(rows))[rows.actions])


def without_the_floor(rng: np.random.Generator) -> Case:
    """Probabilities from before a fifth of the visits was given any product."""
    return _logged_as(rng, lambda rows: (rows.propensities - 0.2 / rows.shop.n_actions) / 0.8)


def of_the_best(rng: np.random.Generator) -> Case:
    """The largest of all probabilities, whichever product was drawn."""
    return _logged_as(rng, lambda rows: rows.logging.max(axis=1))


def of_another_temperature(rng: np.random.Generator) -> Case:
    """Probabilities of scores that were not yet divided by the temperature."""

    def warm(rows: Rows) -> FloatArray:
        return at(softmax(2.0 * np.log(rows.logging)), rows.actions)

    return _logged_as(rng, warm)


def of_the_next_row(rng: np.random.Generator) -> Case:
    """Each row holds the probability of the next row."""
    return _logged_as(rng, lambda rows: np.roll(rows.propensities, -1))


def after_the_update(rng: np.random.Generator) -> Case:
    """Probabilities from after the policy had learned of the reward: higher where the product was clicked."""
    return _logged_as(rng, lambda rows: np.clip(rows.propensities * np.exp(0.5 * (rows.rewards - 0.2)), 0.0, 1.0))


def renormalised_after_a_filter(rng: np.random.Generator) -> Case:
    """Products sold out were left out of the draw, and probabilities from before that are logged."""
    rows = draw_rows(Shop(rng))
    left = rng.random(rows.logging.shape) > 0.3
    left[np.arange(len(rows)), rng.integers(rows.shop.n_actions, size=len(rows))] = True
    return _redrawn(rows, draw(rng, rows.logging * left)).case(rows.shop.value())


def drawn_again_after_a_failure(rng: np.random.Generator) -> Case:
    """Half of the draws of the two favourites fail and are drawn again; the probability is that of a single draw."""
    rows = draw_rows(Shop(rng))
    favourites = np.argsort(-rows.target.mean(axis=0))[:2]
    fails = np.isin(rows.actions, favourites) & (rng.random(len(rows)) < 0.5)
    return _redrawn(rows, np.where(fails, draw(rng, rows.logging), rows.actions)).case(rows.shop.value())


def drawn_again_until_clicked(rng: np.random.Generator) -> Case:
    """Where nothing was clicked another product was shown in half of 20,000 visits, and the last one is logged."""
    rows = draw_rows(Shop(rng), 20_000)
    again = (rows.rewards == 0.0) & (rng.random(len(rows)) < 0.5)
    second = _redrawn(rows, draw(rng, rows.logging))
    actions, clicks = np.where(again, second.actions, rows.actions), np.where(again, second.rewards, rows.rewards)
    return replace(rows, actions=actions, rewards=clicks, propensities=at(rows.logging, actions)).case(
        rows.shop.value()
    )


def half_without_clicks_missing(rng: np.random.Generator) -> Case:
    """Half of the rows without a click are missing."""
    return _missing(rng, lambda rows: 0.5 * (rows.rewards == 0.0))


def failures_of_favourites_missing(rng: np.random.Generator) -> Case:
    """60% of the rows in which one of the two favourites was not clicked are missing."""

    def share(rows: Rows) -> FloatArray:
        is_favourite = np.isin(rows.actions, np.argsort(-rows.target.mean(axis=0))[:2])
        return np.asarray(0.6 * (is_favourite & (rows.rewards == 0.0)))

    return _missing(rng, share)


def only_clicks_of_most(rng: np.random.Generator) -> Case:
    """Nine in ten rows without a click are missing."""
    return _missing(rng, lambda rows: 0.9 * (rows.rewards == 0.0))


def product_not_logged(rng: np.random.Generator) -> Case:
    """Rows of the policy's favourite are missing."""
    return _missing(rng, lambda rows: rows.actions == rows.target.mean(axis=0).argmax())


def rare_product_not_logged(rng: np.random.Generator) -> Case:
    """Rows of the product that the policy likes least are missing."""
    return _missing(rng, lambda rows: rows.actions == rows.target.mean(axis=0).argmin())


def missing_by_segment_and_product(rng: np.random.Generator) -> Case:
    """Half of the rows are missing in which a segment saw the policy's favourite."""

    def share(rows: Rows) -> FloatArray:
        return np.asarray(0.5 * ((rows.actions == rows.target.mean(axis=0).argmax()) & (rows.features[:, 0] > 0.0)))

    return _missing(rng, share)


def every_row_twice(rng: np.random.Generator) -> Case:
    """Each row is there twice, one after another."""
    return _copied(rng, lambda rows: np.full(len(rows), 2))


def blocks_copied(rng: np.random.Generator) -> Case:
    """The log's second half was appended again, in a log without times."""
    rows = draw_rows(Shop(rng))
    order = np.concatenate([np.arange(len(rows)), np.arange(len(rows) // 2, len(rows))])
    copied = rows.take(order)
    copied.has_times = False
    return copied.case(rows.shop.value())


def some_rows_many_times(rng: np.random.Generator) -> Case:
    """A tenth of the rows is there eight times."""
    return _copied(rng, lambda rows: np.where(rng.random(len(rows)) < 0.1, 8, 1))


def clicks_twice(rng: np.random.Generator) -> Case:
    """Rows with a click are there twice, from sending them again."""
    return _copied(rng, lambda rows: np.where(rows.rewards > 0.0, 2, 1))


def segments_twice(rng: np.random.Generator) -> Case:
    """Each row is there twice, and visitors have few features, so that others look the same."""
    rows = draw_rows(Shop(rng))
    value = rows.shop.value()
    rows.features = rows.features[:, :3]
    return rows.take(np.repeat(np.arange(len(rows)), 2)).case(value)


def codes_swapped_midway(rng: np.random.Generator) -> Case:
    """From the middle of the log on two products have each other's number."""
    rows = draw_rows(Shop(rng))
    best, worst = np.argsort(-rows.target.mean(axis=0))[[0, -1]]
    swapped = rows.actions.copy()
    swapped[rows.actions == best] = worst
    swapped[rows.actions == worst] = best
    actions = np.where(age(rows) > 0.5, swapped, rows.actions)
    return replace(rows, actions=actions).case(rows.shop.value())


def codes_merged(rng: np.random.Generator) -> Case:
    """Two products got the same number, the policy's favourite and its least liked one."""
    rows = draw_rows(Shop(rng))
    best, worst = np.argsort(-rows.target.mean(axis=0))[[0, -1]]
    return replace(rows, actions=np.where(rows.actions == worst, best, rows.actions)).case(rows.shop.value())


def _logged_as(rng: np.random.Generator, propensities: Callable[[Rows], FloatArray]) -> Case:
    rows = draw_rows(Shop(rng, lean=1.0))
    rows.propensities = np.maximum(propensities(rows), 1e-3)
    return rows.case(rows.shop.value())


def _redrawn(rows: Rows, actions: IntArray) -> Rows:
    """Return the rows with other actions, and what these earned."""
    clicks = (rows.shop.rng.random(len(rows)) < at(rows.click_rates, actions)).astype(float)
    return replace(rows, actions=actions, rewards=clicks, propensities=at(rows.logging, actions))


def _missing(rng: np.random.Generator, share: Callable[[Rows], FloatArray | BoolArray]) -> Case:
    """Return a log that lacks a share of its rows `(n,)`."""
    rows = draw_rows(Shop(rng))
    return rows.take(rng.random(len(rows)) >= share(rows)).case(rows.shop.value())


def _copied(rng: np.random.Generator, times: Callable[[Rows], IntArray]) -> Case:
    rows = draw_rows(Shop(rng))
    return rows.take(np.repeat(np.arange(len(rows)), times(rows))).case(rows.shop.value())


PROPENSITIES: tuple[Way, ...] = (
    rounded,
    of_another_policy,
    all_alike,
    of_the_share_of_a_product,
    without_the_floor,
    of_the_best,
    of_another_temperature,
    of_the_next_row,
    after_the_update,
    renormalised_after_a_filter,
    drawn_again_after_a_failure,
    drawn_again_until_clicked,
)
MISSING: tuple[Way, ...] = (
    half_without_clicks_missing,
    failures_of_favourites_missing,
    only_clicks_of_most,
    product_not_logged,
    rare_product_not_logged,
    missing_by_segment_and_product,
)
COPIES: tuple[Way, ...] = (every_row_twice, blocks_copied, some_rows_many_times, clicks_twice, segments_twice)
CODES: tuple[Way, ...] = (codes_swapped_midway, codes_merged)
