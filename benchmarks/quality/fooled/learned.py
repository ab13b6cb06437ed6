"""Policies whose probabilities another tool learned: from the rows that judge them, or from others of the same shop.

A way `..._of_these_rows` is a fault; its twin `..._of_other_rows` is sound, and the logs look alike.
"""

from collections.abc import Callable

import numpy as np

from benchmarks.quality.fooled.shop import ROWS, VISITORS, Case, Rows, Shop, Way, at, draw_rows, softmax
from zoosim.core.types import FloatArray, IntArray

NOISE_COLUMNS = 40

Policy = Callable[[FloatArray], FloatArray]
"""Probabilities `(n, K)` of visitors with features `(n, d)`."""

Learn = Callable[[Rows], Policy]


def mean_clicks_of_cells_of_these_rows(rng: np.random.Generator) -> Case:
    """Products are shown in proportion to their mean clicks among the rows of a cell."""
    return _judged(rng, _means, from_these=True)


def mean_clicks_of_cells_of_other_rows(rng: np.random.Generator) -> Case:
    """Products are shown in proportion to their mean clicks in a cell, in an earlier log."""
    return _judged(rng, _means, from_these=False)


def sharp_means_of_cells_of_these_rows(rng: np.random.Generator) -> Case:
    """Products are shown by a softmax of their mean revenue among the rows of a cell."""
    return _judged(rng, _sharp_means, from_these=True, has_amounts=True)


def sharp_means_of_cells_of_other_rows(rng: np.random.Generator) -> Case:
    """Products are shown by a softmax of their mean revenue in a cell, in an earlier log."""
    return _judged(rng, _sharp_means, from_these=False, has_amounts=True)


def best_of_cells_of_these_rows(rng: np.random.Generator) -> Case:
    """In each of 12 cells the product is shown that was clicked most in these rows."""
    return _judged(rng, _best, from_these=True)


def best_of_cells_of_other_rows(rng: np.random.Generator) -> Case:
    """In each of 12 cells the product is shown that was clicked most in an earlier log."""
    return _judged(rng, _best, from_these=False)


def best_of_many_cells_of_these_rows(rng: np.random.Generator) -> Case:
    """In each of 48 cells the product is shown that was clicked most in these rows."""
    return _judged(rng, _best_of_many, from_these=True)


def best_of_many_cells_of_other_rows(rng: np.random.Generator) -> Case:
    """In each of 48 cells the product is shown that was clicked most in an earlier log."""
    return _judged(rng, _best_of_many, from_these=False)


def ridge_with_noise_of_these_rows(rng: np.random.Generator) -> Case:
    """A ridge regression per product of these rows' clicks, on 40 columns of noise, too."""
    return _judged(rng, _ridge, from_these=True, noise=NOISE_COLUMNS)


def ridge_with_noise_of_other_rows(rng: np.random.Generator) -> Case:
    """A ridge regression per product of an earlier log's clicks, on 40 columns of noise, too."""
    return _judged(rng, _ridge, from_these=False, noise=NOISE_COLUMNS)


def greedy_ridge_of_these_rows(rng: np.random.Generator) -> Case:
    """The best by a ridge regression per product of these rows' revenue, on 20 columns of noise, too."""
    return _judged(rng, _greedy_ridge, from_these=True, noise=NOISE_COLUMNS // 2, has_amounts=True)


def greedy_ridge_of_other_rows(rng: np.random.Generator) -> Case:
    """The best by a ridge regression per product of an earlier log's revenue, on 20 columns of noise, too."""
    return _judged(rng, _greedy_ridge, from_these=False, noise=NOISE_COLUMNS // 2, has_amounts=True)


def best_of_cells_in_truth(rng: np.random.Generator) -> Case:
    """In each of 12 cells the product is shown that truly is clicked most there."""

    def learn(rows: Rows) -> Policy:
        fresh = rows.shop.visitors(VISITORS)
        cells = _cells(fresh)
        rates = rows.shop.click_rates(fresh)
        means = np.stack([rates[cells == cell].mean(axis=0) for cell in range(12)])
        return lambda features: _sure(means)[_cells(features)]

    return _judged(rng, learn, from_these=True)


def best_of_many_policies(rng: np.random.Generator) -> Case:
    """Of 200 policies drawn at random the one that these rows praise most; it looks like one drawn beforehand."""

    def learn(rows: Rows) -> Policy:
        tastes = 0.5 * rng.normal(size=(200, 6, rows.shop.n_actions))
        values = []
        for taste in tastes:
            weights = at(_by_taste(taste)(rows.features), rows.actions) / rows.propensities
            values.append(float((weights * rows.rewards).sum() / weights.sum()))
        return _by_taste(tastes[int(np.argmax(values))])

    return _judged(rng, learn, from_these=True)


def _by_taste(taste: FloatArray) -> Policy:
    return lambda features: softmax(2.0 * np.hstack([np.ones((len(features), 1)), features]) @ taste)


def _cells(features: FloatArray) -> IntArray:
    """Number 12 cells: a segment, and whether each of two numbers is above 0 `(n,)`."""
    return np.asarray(features[:, :3].argmax(axis=1) * 4 + 2 * (features[:, 3] > 0.0) + (features[:, 4] > 0.0))


def _many_cells(features: FloatArray) -> IntArray:
    """Number 48 cells: a segment, and the quarter that each of two numbers is in `(n,)`."""
    quarters = [np.digitize(features[:, column], [-0.67, 0.0, 0.67]) for column in (3, 4)]
    return np.asarray(features[:, :3].argmax(axis=1) * 16 + 4 * quarters[0] + quarters[1])


def _cell_means(rows: Rows, cells: IntArray, n_cells: int) -> FloatArray:
    """Return mean rewards per cell and product, shrunk a little towards that of all rows."""
    k = rows.shop.n_actions
    index = cells * k + rows.actions
    earned = np.bincount(index, rows.rewards, n_cells * k) + rows.rewards.mean()
    return np.asarray((earned / (np.bincount(index, minlength=n_cells * k) + 1.0)).reshape(n_cells, k))


def _sure(scores: FloatArray) -> FloatArray:
    k = scores.shape[1]
    return np.asarray(0.1 / k + 0.9 * (np.arange(k) == scores.argmax(axis=1)[:, None]))


def _means(rows: Rows) -> Policy:
    means = _cell_means(rows, _cells(rows.features), 12)
    shares = means / means.sum(axis=1, keepdims=True)
    return lambda features: np.asarray(shares[_cells(features)])


def _sharp_means(rows: Rows) -> Policy:
    means = _cell_means(rows, _cells(rows.features), 12)
    return lambda features: softmax(12.0 * means[_cells(features)])


def _best(rows: Rows) -> Policy:
    means = _cell_means(rows, _cells(rows.features), 12)
    return lambda features: _sure(means)[_cells(features)]


def _best_of_many(rows: Rows) -> Policy:
    means = _cell_means(rows, _many_cells(rows.features), 48)
    return lambda features: _sure(means)[_many_cells(features)]


def _ridge_scores(rows: Rows) -> Policy:
    features = np.hstack([np.ones((len(rows), 1)), rows.features])
    slopes = np.zeros((features.shape[1], rows.shop.n_actions))
    for action in range(rows.shop.n_actions):
        own = features[rows.actions == action]
        gram = own.T @ own + np.eye(own.shape[1])
        slopes[:, action] = np.linalg.solve(gram, own.T @ rows.rewards[rows.actions == action])
    return lambda asked: np.hstack([np.ones((len(asked), 1)), asked]) @ slopes


def _ridge(rows: Rows) -> Policy:
    scores = _ridge_scores(rows)
    return lambda features: softmax(12.0 * scores(features))


def _greedy_ridge(rows: Rows) -> Policy:
    scores = _ridge_scores(rows)
    return lambda features: _sure(scores(features))


def _judged(
    rng: np.random.Generator, learn: Learn, *, from_these: bool, noise: int = 0, has_amounts: bool = False
) -> Case:
    """Return a log and a policy that learned from its rows, or from as many others of the same shop."""
    shop = Shop(rng)
    logs = [draw_rows(shop) for _ in range(2)]
    factor = 1.0
    for rows in logs:
        rows.features = np.hstack([rows.features, rng.normal(size=(ROWS, noise))])
        if has_amounts:
            rows.rewards = rows.rewards * rng.lognormal(0.0, 0.5, size=ROWS)
            factor = float(np.exp(0.125))
    rows = logs[0]
    policy = learn(rows if from_these else logs[1])
    rows.target = policy(rows.features)
    fresh = shop.visitors(VISITORS)
    chances = policy(np.hstack([fresh, rng.normal(size=(VISITORS, noise))]))
    return rows.case(factor * float((chances * shop.click_rates(fresh)).sum(axis=1).mean()))


OF_THESE_ROWS: tuple[Way, ...] = (
    mean_clicks_of_cells_of_these_rows,
    sharp_means_of_cells_of_these_rows,
    best_of_cells_of_these_rows,
    best_of_many_cells_of_these_rows,
    ridge_with_noise_of_these_rows,
    greedy_ridge_of_these_rows,
)
OF_OTHER_ROWS: tuple[Way, ...] = (
    mean_clicks_of_cells_of_other_rows,
    sharp_means_of_cells_of_other_rows,
    best_of_cells_of_other_rows,
    best_of_many_cells_of_other_rows,
    ridge_with_noise_of_other_rows,
    greedy_ridge_of_other_rows,
    best_of_cells_in_truth,
)
