"""Policies of other tools that have seen the rewards of the rows by which they are judged."""

from collections.abc import Callable

import numpy as np
from sklearn.cluster import KMeans
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from benchmarks.quality.fooled.shop import (
    DAY,
    START,
    VISITORS,
    Case,
    Rows,
    Shop,
    Way,
    at,
    draw_rankings,
    draw_rows,
    ranked_clicks,
    softmax,
)
from benchmarks.quality.fooled.third_round.traffic import come, open_shop, visit
from zoosim.core.types import FloatArray, IntArray

Guess = Callable[[Rows, Rows], FloatArray]
"""What each product earns for the visitors of the second rows, learned from the first `(n, K)`."""


def boosted_trees_of_these_rows(rng: np.random.Generator) -> Case:
    """30 boosted trees per product of six choose the product."""
    rows = draw_rows(Shop(rng, n_actions=6), 4_500)
    return _same_visitors(rows, _mostly_best(boosted(rows, rows)))


def five_nearest_neighbours_by_revenue(rng: np.random.Generator) -> Case:
    """Products are shown as the visitor's five nearest neighbours among its buyers and others spent; ids."""
    rows = visit(open_shop(rng), come(rng, 2_000, sessions=(1, 3), visits=(1, 1)), spread=0.3)
    rows.rewards = rows.rewards * rng.lognormal(0.0, 0.4, size=len(rows))
    return _same_visitors(rows, _softly_best(neighbours(rows, rows), 5.0), float(np.exp(0.08)))


def lists_by_extra_trees(rng: np.random.Generator) -> Case:
    """Lists of four are sorted by what extra trees learned of their own products' clicks, as a tool prints it."""
    rows = draw_rankings(open_shop(rng, n_actions=8), 4_000, length=4)
    return _same_visitors(rows, _softly_best(extra_trees(rows, rows), 8.0))


def lists_that_remember_each_user(rng: np.random.Generator) -> Case:
    """Each of 160 users has lists topped by what that user clicked in these rows; users have ids."""
    visits = come(rng, 160, sessions=(18, 36), visits=(1, 1))
    rows = visit(open_shop(rng), visits, spread=0.4, has_rankings=True)
    return _same_visitors(rows, _softly_best(_means(rows, visits.users), 6.0))


def best_of_fifteen_policies_in_each_cell(rng: np.random.Generator) -> Case:
    """In each of 24 cells that one of fifteen policies decides which these rows praise most there."""
    rows = draw_rows(Shop(rng), 4_500)
    inputs = np.hstack([np.ones((len(rows), 1)), rows.features])
    policies = [softmax(inputs @ weights) for weights in 1.2 * rng.normal(size=(15, 6, 8))]
    per_chance = rows.rewards / rows.propensities
    cell = _grid(rows, 2, 4)
    praise = np.stack([np.bincount(cell, at(each, rows.actions) * per_chance, 24) for each in policies])
    chosen = praise.argmax(axis=0)[cell]
    return _same_visitors(rows, np.stack(policies)[chosen, np.arange(len(rows))])


def ridge_with_sixty_postcodes(rng: np.random.Generator) -> Case:
    """A ridge per product, with a column for each of 60 postcodes that mean nothing, chooses the product; ids."""
    visits = come(rng, 1_500, sessions=(1, 4), visits=(1, 2))
    rows = visit(Shop(rng, n_actions=6), visits, spread=0.3)
    code = rng.integers(60, size=visits.n_users)[visits.users]
    rows.features = np.hstack([rows.features, np.eye(60)[code]])
    return _same_visitors(rows, _mostly_best(_per_product(rows, rows, lambda: Ridge(1.0))))


def lists_by_means_of_towns(rng: np.random.Generator) -> Case:
    """In each of 40 towns, which are logged and alike, lists prefer what was clicked there in these rows."""
    rows = draw_rankings(open_shop(rng, n_actions=10), 4_500)
    town = rng.integers(40, size=len(rows))
    rows.features = np.hstack([rows.features, np.eye(40)[town]])
    return _same_visitors(rows, _softly_best(_means(rows, town), 8.0))


def posterior_draws_of_cells(rng: np.random.Generator) -> Case:
    """Thompson sampling after the fact: the chance that a product is best in its cell of 54, given these rows."""
    rows = draw_rows(Shop(rng, n_actions=6), 4_500)
    return _same_visitors(rows, thompson(rng, rows, rows))


def clusters_of_visitors(rng: np.random.Generator) -> Case:
    """40 clusters of visitors each see what earned most in them in these rows, in amounts."""
    rows = draw_rows(open_shop(rng, n_actions=6), 4_000)
    rows.rewards = rows.rewards * rng.lognormal(0.0, 0.4, size=len(rows))
    cluster = KMeans(40, n_init=1, random_state=0).fit_predict(rows.features)
    return _same_visitors(rows, _mostly_best(_means(rows, cluster)), float(np.exp(0.08)))


def best_product_of_each_day(rng: np.random.Generator) -> Case:
    """Each segment sees what was clicked most on that day, by a report of the day's own rows; users have ids."""
    visits = come(rng, 1_500, sessions=(1, 4), visits=(1, 2))
    rows = visit(Shop(rng, n_actions=5), visits, spread=0.3)
    cell = np.minimum((rows.times - START) // DAY, 28) * 3 + rows.features[:, :3].argmax(axis=1)
    return _same_visitors(rows, _mostly_best(_means(rows, cell)))


def column_of_boosted_trees(rng: np.random.Generator) -> Case:
    """The column of a tool's chances of what was shown, whose boosted trees saw these rows' amounts; ids."""
    rows = visit(open_shop(rng, n_actions=6), come(rng, 2_100, sessions=(1, 3), visits=(1, 1)), spread=0.3)
    rows.rewards = rows.rewards * rng.lognormal(0.0, 0.4, size=len(rows))
    return _same_visitors(rows, _mostly_best(boosted(rows, rows)), float(np.exp(0.08)))._replace(policy=None)


def boosted_trees_of_another_month(rng: np.random.Generator) -> Case:
    """30 boosted trees per product choose the product; they learned from another month."""
    return _of_another_month(Shop(rng, n_actions=6), lambda earlier, now: _mostly_best(boosted(earlier, now)))


def neighbours_of_another_month(rng: np.random.Generator) -> Case:
    """Products are shown as the visitor's five nearest neighbours of another month clicked."""
    return _of_another_month(open_shop(rng), lambda earlier, now: _softly_best(neighbours(earlier, now), 5.0))


def posterior_draws_of_another_month(rng: np.random.Generator) -> Case:
    """Thompson sampling of the cells of another month, as chances."""
    return _of_another_month(Shop(rng, n_actions=6), lambda earlier, now: thompson(rng, earlier, now))


def lists_by_extra_trees_of_another_month(rng: np.random.Generator) -> Case:
    """Lists of four are sorted by what extra trees learned of another month's lists."""
    shop = open_shop(rng, n_actions=8)
    earlier, rows = draw_rankings(shop, 4_000, length=4), draw_rankings(shop, 4_000, length=4)
    fresh = draw_rows(shop, VISITORS // 2)
    rows.target, chances = (_softly_best(extra_trees(earlier, each), 8.0) for each in (rows, fresh))
    return rows.case(ranked_clicks(rng, chances, fresh.click_rates, 4))


def boosted(rows: Rows, of: Rows) -> FloatArray:
    """Guess by boosted trees."""
    return _per_product(rows, of, lambda: GradientBoostingRegressor(n_estimators=30, max_depth=3, random_state=0))


def neighbours(rows: Rows, of: Rows) -> FloatArray:
    """Guess by five nearest neighbours."""
    return _per_product(rows, of, lambda: KNeighborsRegressor(5))


def extra_trees(rows: Rows, of: Rows) -> FloatArray:
    """Guess by extra trees, from the clicks at any position."""
    return _per_product(rows, of, lambda: ExtraTreesRegressor(15, min_samples_leaf=4, random_state=0))


def thompson(rng: np.random.Generator, rows: Rows, of: Rows) -> FloatArray:
    """Return how often each product is best in 200 draws of the posteriors of its visitor's cell `(n, K)`."""
    cell, k = _grid(rows, 3, 6), rows.shop.n_actions
    clicks = np.bincount(cell * k + rows.actions, rows.rewards, 54 * k).reshape(54, k)
    seen = np.bincount(cell * k + rows.actions, minlength=54 * k).reshape(54, k)
    draws = rng.beta(1.0 + clicks, 4.0 + seen - clicks, size=(200, 54, k)).argmax(axis=2)
    shares = np.stack([np.mean(draws == product, axis=0) for product in range(k)], axis=1)
    return np.asarray(0.95 * shares + 0.05 / k)[_grid(of, 3, 6)]


def _of_another_month(shop: Shop, decide: Guess) -> Case:
    earlier, rows, fresh = draw_rows(shop, 4_500), draw_rows(shop, 4_500), draw_rows(shop, VISITORS)
    together = np.concatenate([rows.features, fresh.features])
    chances = decide(earlier, draw_rows(shop, features=together))
    rows.target, of_fresh = chances[: len(rows)], chances[len(rows) :]
    return rows.case(float((of_fresh * fresh.click_rates).sum(axis=1).mean()))


def _same_visitors(rows: Rows, target: FloatArray, scale: float = 1.0) -> Case:
    """Return the log with what `target (n, K)` truly earns of the same visitors, at other visits."""
    rows.target = target
    if rows.actions.ndim > 1:
        return rows.case(scale * ranked_clicks(rows.shop.rng, target, rows.click_rates, rows.actions.shape[1]))
    return rows.case(scale * float((target * rows.click_rates).sum(axis=1).mean()))


def _per_product(rows: Rows, of: Rows, make: Callable[[], object]) -> FloatArray:
    guesses = []
    for product in range(rows.shop.n_actions):
        is_shown = (rows.actions == product).reshape(len(rows), -1)
        row = np.flatnonzero(is_shown.any(axis=1))
        earned = (rows.rewards.reshape(len(rows), -1) * is_shown).sum(axis=1)[row]
        guesses.append(make().fit(rows.features[row], earned).predict(of.features))  # type: ignore[attr-defined]
    return np.stack(guesses, axis=1)


def _means(rows: Rows, cell: IntArray) -> FloatArray:
    """Return each product's mean reward at any position in the cell of each row `(n, K)`, drawn to that of all."""
    k = rows.shop.n_actions
    actions, rewards = rows.actions.reshape(len(rows), -1), rows.rewards.reshape(len(rows), -1)
    place = (cell[:, None] * k + actions).ravel()
    n_places = (int(cell.max()) + 1) * k
    earned = np.bincount(place, rewards.ravel(), n_places) + rewards.mean()
    seen = np.bincount(place, minlength=n_places) + 1.0
    return np.asarray((earned / seen).reshape(-1, k)[cell])


def _grid(rows: Rows, first: int, second: int) -> IntArray:
    """Number the cells of segment and both numbers, cut evenly between -1.2 and 1.2 `(n,)`."""
    cell = rows.features[:, :3].argmax(axis=1)
    for column, parts in ((3, first), (4, second)):
        cut = ((rows.features[:, column] + 1.2) / 2.4 * parts).astype(int)
        cell = cell * parts + np.clip(cut, 0, parts - 1)
    return np.asarray(cell)


def _mostly_best(guess: FloatArray) -> FloatArray:
    k = guess.shape[1]
    return np.asarray(0.15 / k + 0.85 * (np.arange(k) == guess.argmax(axis=1)[:, None]))


def _softly_best(guess: FloatArray, sharpness: float) -> FloatArray:
    return np.asarray(0.1 / guess.shape[1] + 0.9 * softmax(sharpness * guess))


OF_CELLS: tuple[Way, ...] = (
    lists_that_remember_each_user,
    best_of_fifteen_policies_in_each_cell,
    lists_by_means_of_towns,
    posterior_draws_of_cells,
    clusters_of_visitors,
    best_product_of_each_day,
)
OF_MODELS: tuple[Way, ...] = (
    boosted_trees_of_these_rows,
    five_nearest_neighbours_by_revenue,
    lists_by_extra_trees,
    ridge_with_sixty_postcodes,
    column_of_boosted_trees,
)
OF_OTHER_ROWS: tuple[Way, ...] = (
    boosted_trees_of_another_month,
    neighbours_of_another_month,
    posterior_draws_of_another_month,
    lists_by_extra_trees_of_another_month,
)
