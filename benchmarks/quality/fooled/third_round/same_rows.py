"""Policies that another tool made from the log's own rewards, and handed in as probabilities."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from benchmarks.quality.fooled.shop import (
    DAY,
    FADING,
    START,
    Case,
    Rows,
    Shop,
    Way,
    draw_rankings,
    draw_rows,
    ranked_clicks,
    softmax,
)
from benchmarks.quality.fooled.third_round.traffic import HOUR, SPREAD, come, open_shop, visit
from zoosim.core.types import FloatArray, IntArray

Learn = Callable[[Rows, FloatArray], FloatArray]
"""Guesses of what each product earns for the visitors `(n, d)`, `(n, K)`, by a tool that learns from rows."""

FLOOR = 0.1


def shares_by_mean_clicks_of_cells_with_ids(rng: np.random.Generator) -> Case:
    """Products are shown in proportion to their mean clicks in each of 48 cells of the same rows; users have ids."""
    rows = visit(Shop(rng), come(rng, 600, sessions=(2, 6), visits=(1, 3)), spread=0.4)
    guess = means_of_cells(rows, rows, (3, 4, 4)) + 0.01
    return same_visitors(rows, guess / guess.sum(axis=1, keepdims=True))


def best_product_of_twelve_cells(rng: np.random.Generator) -> Case:
    """Each of twelve cells of visitors sees what earned most there in the same rows."""
    rows = draw_rows(Shop(rng))
    return same_visitors(rows, greedy(means_of_cells(rows, rows, (3, 2, 2))))


def best_product_of_cells_by_revenue(rng: np.random.Generator) -> Case:
    """Each of 18 cells sees what brought most revenue there in the same rows, of users with ids."""
    rows = visit(open_shop(rng), come(rng, 600, sessions=(2, 6), visits=(1, 3)), spread=0.4)
    rows.rewards = rows.rewards * rng.lognormal(0.0, 0.5, size=len(rows))
    return same_visitors(rows, greedy(means_of_cells(rows, rows, (3, 3, 2))), float(np.exp(0.125)))


def best_product_of_each_hour_of_the_week(rng: np.random.Generator) -> Case:
    """Each segment sees in each of 28 parts of the week what earned most there in the same rows."""
    rows = draw_rows(Shop(rng))
    part = (rows.times - START) % (7 * DAY) // (6 * HOUR)
    cell = part * 3 + rows.features[:, :3].argmax(axis=1)
    return same_visitors(rows, greedy(means_by(rows, cell, cell)))


def best_of_forty_products_by_segment(rng: np.random.Generator) -> Case:
    """Each segment sees one of its five best sellers, of forty products, by the same rows."""
    rows = draw_rows(Shop(rng, n_actions=40, lean=0.2))
    segment = rows.features[:, :3].argmax(axis=1)
    guess = means_by(rows, segment, segment)
    is_seller = guess >= np.sort(guess, axis=1)[:, -5:-4]
    return same_visitors(rows, FLOOR / 40 + (1.0 - FLOOR) * is_seller / is_seller.sum(axis=1, keepdims=True))


def ridge_with_forty_noise_columns_and_ids(rng: np.random.Generator) -> Case:
    """A ridge per product, on 40 columns of noise among others, chooses the product; fitted to the same rows; ids."""
    rows = visit(Shop(rng), come(rng, 600, sessions=(2, 6), visits=(1, 3)), spread=0.4)
    return _learned(rows, noisy(rng, 40), ridge)


def deep_tree(rng: np.random.Generator) -> Case:
    """A tree per product, down to leaves of 15 rows, chooses the product; grown on the same rows."""

    def learn(rows: Rows, visitors: FloatArray) -> FloatArray:
        return _per_product(rows, visitors, lambda: DecisionTreeRegressor(min_samples_leaf=15, random_state=0))

    return _learned(draw_rows(Shop(rng)), visitors_of, learn)


def forest_by_revenue_with_ids(rng: np.random.Generator) -> Case:
    """A forest per product guesses what visitors spend, and softly prefers the best; grown on the same rows."""
    rows = visit(open_shop(rng), come(rng, 600, sessions=(2, 6), visits=(1, 3)), spread=0.4)
    rows.rewards = rows.rewards * rng.lognormal(0.0, 0.5, size=len(rows))

    def make() -> RandomForestRegressor:
        return RandomForestRegressor(20, min_samples_leaf=5, random_state=0)

    guess = _per_product(rows, rows.features, make)
    return same_visitors(rows, FLOOR / 8 + (1.0 - FLOOR) * softmax(8.0 * guess), float(np.exp(0.125)))


def favourites_of_each_user(rng: np.random.Generator) -> Case:
    """Each of 250 users with ids sees above all what that user clicked most often in the same rows."""
    visits = come(rng, 250, sessions=(10, 22), visits=(1, 1))
    shop = open_shop(rng)
    rows = visit(shop, visits, spread=SPREAD / 2.0)
    guess = means_by(rows, visits.users, visits.users, prior=2.0)
    return same_visitors(rows, FLOOR / 8 + (1.0 - FLOOR) * softmax(8.0 * guess))


def lists_sorted_by_clicks_of_cells(rng: np.random.Generator) -> Case:
    """Rankings are drawn in proportion to mean clicks in each of 75 cells of the same rows, at any position."""
    rows = draw_rankings(open_shop(rng, n_actions=10))
    guess = means_of_cells(rows, rows, (3, 5, 5)) + 0.01
    return same_visitors(rows, guess / guess.sum(axis=1, keepdims=True))


def lists_topped_by_the_best_of_cells(rng: np.random.Generator) -> Case:
    """The best product of each of 60 cells tops most rankings; chosen by the same rows, of users with ids."""
    rows = visit(open_shop(rng), come(rng, 600, sessions=(2, 6), visits=(1, 3)), spread=0.4, has_rankings=True)
    guess = means_of_cells(rows, rows, (3, 5, 4))
    return same_visitors(rows, 0.5 / 8 + 0.5 * softmax(30.0 * guess))


def column_of_a_model_of_the_same_rows(rng: np.random.Generator) -> Case:
    """The column of another system's probabilities, whose ridge with 40 columns of noise saw the same rows."""
    return _learned(draw_rows(Shop(rng)), noisy(rng, 40), ridge)._replace(policy=None)


def same_visitors(rows: Rows, target: FloatArray, scale: float = 1.0) -> Case:
    """Return the log with what `target (n, K)` truly earns of the same visitors, at other visits."""
    rows.target = target
    if rows.actions.ndim > 1:
        return rows.case(scale * ranked_clicks(rows.shop.rng, target, rows.click_rates, rows.actions.shape[1]))
    return rows.case(scale * float((target * rows.click_rates).sum(axis=1).mean()))


def greedy(guess: FloatArray) -> FloatArray:
    """Return probabilities `(n, K)` that are high for the best guess."""
    k = guess.shape[1]
    return np.asarray(FLOOR / k + (1.0 - FLOOR) * (np.arange(k) == guess.argmax(axis=1)[:, None]))


def cells_of(features: FloatArray, counts: tuple[int, int, int]) -> IntArray:
    """Return the cell of each visitor `(n,)`: of the segment, and of both numbers cut evenly between -1.5 and 1.5."""
    cell = features[:, :3].argmax(axis=1)
    for column, count in zip(features.T[3:5], counts[1:], strict=True):
        cell = cell * count + np.clip((column + 1.5) * count / 3.0, 0, count - 1).astype(np.int64)
    return np.asarray(cell)


def means_of_cells(rows: Rows, visitors: Rows, counts: tuple[int, int, int]) -> FloatArray:
    """Return each product's mean reward in the cell of each of the `visitors`, by `rows`, `(n, K)`."""
    return means_by(rows, cells_of(rows.features, counts), cells_of(visitors.features, counts))


def means_by(rows: Rows, cells: IntArray, of: IntArray, prior: float = 0.5) -> FloatArray:
    """Return each product's mean reward in some cells `of (m,)`, by rows in `cells (n,)`: `(m, K)`.

    A product counts as seen `prior` times more, with the mean reward of all. What lower positions earn counts as much
    as it would at the top.
    """
    shape = (int(max(cells.max(), of.max())) + 1, rows.shop.n_actions)
    actions, rewards = rows.actions.reshape(len(rows), -1), rows.rewards.reshape(len(rows), -1)
    rewards = rewards / FADING ** np.arange(rewards.shape[1])
    earned, seen = np.full(shape, prior * rewards.mean()), np.full(shape, prior)
    np.add.at(earned, (cells[:, None], actions), rewards)
    np.add.at(seen, (cells[:, None], actions), 1.0)
    return np.asarray((earned / seen)[of])


def visitors_of(rows: Rows) -> FloatArray:
    """Return the features `(n, d)`."""
    return rows.features


def noisy(rng: np.random.Generator, n_columns: int) -> Callable[[Rows], FloatArray]:
    """Return what adds columns of noise to the features `(n, d)`, in the log, too."""

    def add(rows: Rows) -> FloatArray:
        rows.features = np.hstack([rows.features, rng.normal(size=(len(rows), n_columns))])
        return rows.features

    return add


def ridge(rows: Rows, visitors: FloatArray) -> FloatArray:
    """Return a ridge's guesses."""
    return _per_product(rows, visitors, lambda: Ridge(1.0))


def _per_product(rows: Rows, visitors: FloatArray, make: Callable[[], object]) -> FloatArray:
    guesses = []
    for product in range(rows.shop.n_actions):
        is_shown = rows.actions == product
        model: Any = make()
        guesses.append(model.fit(rows.features[is_shown], rows.rewards[is_shown]).predict(visitors))
    return np.stack(guesses, axis=1)


def _learned(rows: Rows, features: Callable[[Rows], FloatArray], learn: Learn) -> Case:
    known = features(rows)
    return same_visitors(rows, greedy(learn(rows, known)))


CELLS: tuple[Way, ...] = (
    shares_by_mean_clicks_of_cells_with_ids,
    best_product_of_twelve_cells,
    best_product_of_cells_by_revenue,
    best_product_of_each_hour_of_the_week,
    best_of_forty_products_by_segment,
    favourites_of_each_user,
    lists_sorted_by_clicks_of_cells,
    lists_topped_by_the_best_of_cells,
)
MODELS: tuple[Way, ...] = (
    ridge_with_forty_noise_columns_and_ids,
    deep_tree,
    forest_by_revenue_with_ids,
    column_of_a_model_of_the_same_rows,
)
