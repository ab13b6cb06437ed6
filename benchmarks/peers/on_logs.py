"""What other libraries learn from a shop's log, set as their documentation says; settings are chosen by later rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sparse

from benchmarks.peers.vowpal_wabbit import INTERACTIONS, as_text
from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.log import Log

FITTING = 0.9
"""Share of the rows, the earliest, on which a peer is fitted while its settings are chosen by the rest."""
PENALTIES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
LEAVES, SMOOTHINGS, MOST_ROUNDS, PATIENCE = (7, 31), (10.0, 100.0), 1_000, 30
VW_OPTIONS = f"--cb_adf --cb_type mtr {INTERACTIONS} --learning_rate 0.05 --random_seed 1 --quiet"
"""The best of rates .01, .05 and .5, and of mtr and dr, on the shop of seed 0."""


Scores = Callable[[FloatArray], FloatArray]
"""Scores of all products `(m, K)` for visitors `(m, d_u)`."""
Rates = Callable[[FloatArray, IntArray], FloatArray]
"""Predicted click rates `(n,)` of visitors `(n, d_u)` with products `(n,)`."""


def logistic_regression(log: Log) -> Scores:
    """Fit scikit-learn's logistic regression to products, visitors' features, and these times products' features."""
    from sklearn.linear_model import LogisticRegression

    def columns(features: FloatArray, actions: IntArray) -> sparse.csr_matrix:
        products = np.asarray(log.products, float)[actions]
        crossed = (features[:, :, None] * products[:, None, :]).reshape(len(features), -1)
        identity = sparse.eye(len(log.products), format="csr")[actions]
        return sparse.hstack([features, products, crossed, identity], format="csr")

    def fit(rows: slice, penalty: float) -> Rates:
        model = LogisticRegression(C=penalty, max_iter=1_000)
        model.fit(columns(log.features[rows], log.actions[rows]), log.rewards[rows])
        return lambda features, actions: np.asarray(model.predict_proba(columns(features, actions))[:, 1])

    penalty = min(PENALTIES, key=lambda c: _loss(log, fit(_earlier(log), c)))
    return _for_all_products(log, fit(slice(None), penalty))


def lightgbm(log: Log) -> Scores:
    """Fit LightGBM to visitors' and products' features, the product itself a category; later rows stop it early."""
    import lightgbm as library

    def columns(features: FloatArray, actions: IntArray) -> FloatArray:
        return np.column_stack([features, np.asarray(log.products, float)[actions], actions])

    def fit(rows: slice, settings: dict[str, Any], rounds: int, **options: Any) -> Any:
        inputs = columns(log.features[rows], log.actions[rows])
        data = library.Dataset(inputs, log.rewards[rows], categorical_feature=[inputs.shape[1] - 1])
        if "stop_by" in options:
            later = options.pop("stop_by")
            check = data.create_valid(columns(log.features[later], log.actions[later]), log.rewards[later])
            options = {"valid_sets": [check], "callbacks": [library.early_stopping(PATIENCE, verbose=False)]}
        return library.train(settings, data, rounds, **options)

    plain = {"objective": "binary", "learning_rate": 0.05, "min_data_in_leaf": 50, "verbosity": -1, "num_threads": 1}
    tried: list[tuple[float, int, int, dict[str, Any]]] = []
    for leaves in LEAVES:
        for smoothing in SMOOTHINGS:
            settings = {**plain, "num_leaves": leaves, "cat_smooth": smoothing, "seed": 0}
            model = fit(_earlier(log), settings, MOST_ROUNDS, stop_by=_later(log))
            tried.append((model.best_score["valid_0"]["binary_logloss"], len(tried), model.best_iteration, settings))
    _, _, rounds, settings = min(tried)
    model = fit(slice(None), settings, rounds)
    return _for_all_products(log, lambda features, actions: np.asarray(model.predict(columns(features, actions))))


def vowpal_wabbit(log: Log) -> Scores:
    """Let Vowpal Wabbit learn a contextual bandit from the log: visitors' features times products and their features.

    What SquareCB or epsilon-greedy add is exploration, which a log leaves no room for.
    """
    from vowpalwabbit import Workspace

    products = [f"|p {k} |c {as_text(row)}" for k, row in enumerate(np.asarray(log.products, float))]
    model = Workspace(VW_OPTIONS)
    for row in range(len(log)):
        action = log.actions[row]
        lines = products.copy()
        lines[action] = f"{action}:{-log.rewards[row]}:{log.propensities[row]:.6g} {lines[action]}"
        model.learn([f"shared |u {as_text(log.features[row])}", *lines])

    def scores(visitors: FloatArray) -> FloatArray:
        costs = [model.predict([f"shared |u {as_text(visitor)}", *products]) for visitor in visitors]
        return -np.array(costs)

    return scores


def _earlier(log: Log) -> slice:
    return slice(0, int(FITTING * len(log)))


def _later(log: Log) -> slice:
    return slice(int(FITTING * len(log)), len(log))


def _loss(log: Log, rates: Rates) -> float:
    """Return the mean log loss on the later rows."""
    later = _later(log)
    predicted = rates(log.features[later], log.actions[later]).clip(1e-9, 1.0 - 1e-9)
    rewards = log.rewards[later]
    return float(-(rewards * np.log(predicted) + (1.0 - rewards) * np.log(1.0 - predicted)).mean())


def _for_all_products(log: Log, rates: Rates) -> Scores:
    actions = np.arange(len(log.products))

    def scores(visitors: FloatArray) -> FloatArray:
        return np.array([rates(np.tile(visitor, (len(actions), 1)), actions) for visitor in visitors])

    return scores
