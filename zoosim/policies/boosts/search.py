"""Boosts that bring the most valuable products to the top: a regression, then a small search."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray
from zoosim.linear.cholesky import extend, solve_lower, solve_upper
from zoosim.linear.dense import copy_vector
from zoosim.optimizers.cem import CEMConfig, cem_optimize
from zoosim.ranking.top_k import top_of

RIDGE = 0.1
"""Ridge of the regression, in units of its matrix's mean diagonal: boost features may be collinear."""

LEAST = 1e-3
"""Values are raised to this share of the highest one before their logarithm is taken."""


SHARES = np.array([1.0, 0.5, 0.25, 0.12, 0.06, 0.03, 0.0])
"""Shares of the projected boosts that a search may begin from where leaving the base ranker's top costs something."""


class BoostRequest(NamedTuple):
    """A request: `base (K,)` scores, `features (d, K)`, `values (K,)` of products in EUR if looked at.

    `reach (m,)` is the chance that each of the first m positions is looked at; `penalty` is what a product costs that
    leaves the base ranker's first `kept` ones.
    """

    base: FloatArray
    features: FloatArray
    values: FloatArray
    reach: FloatArray
    penalty: float
    kept: int


@jit
def slate_values(request: BoostRequest, actions: FloatArray, out: FloatArray) -> None:
    """Write what the rankings by some boosts are worth, in EUR.

    Args:
        request: The request.
        actions: Boosts, `(n, d)`.
        out: Overwritten, `(n,)`.
    """
    # Deep enough to see which of the base ranker's first products have left, too.
    shown = max(request.reach.shape[0], request.kept if request.penalty > 0.0 else 0)
    baseline = top_of(request.base, min(request.kept, request.base.shape[0]))
    scores = np.empty(request.base.shape[0])
    for n in range(actions.shape[0]):
        copy_vector(request.base, scores)
        for j in range(actions.shape[1]):
            row = request.features[j]
            boost = actions[n, j]
            for p in range(scores.shape[0]):
                scores[p] += boost * row[p]
        top = top_of(scores, min(shown, scores.shape[0]))
        out[n] = 0.0
        for position in range(min(request.reach.shape[0], top.shape[0])):
            out[n] += request.reach[position] * request.values[top[position]]
        if request.penalty > 0.0:
            for p in baseline:
                out[n] -= 0.0 if np.any(top[: baseline.shape[0]] == p) else request.penalty


@jit
def projected(request: BoostRequest, a_max: float) -> FloatArray:
    """Return boosts `(d,)` along which log values rise, as large as the box allows.

    The direction is that of the regression of log values on boost features, weighted by the values, with a ridge.

    Args:
        request: The request.
        a_max: Half the width of the box.
    """
    features = request.features
    if np.max(request.values) <= 0.0:  # no product is worth anything, so there is nothing to bring to the top
        return np.zeros(features.shape[0])
    values = np.maximum(request.values, LEAST * np.max(request.values))
    d = features.shape[0]
    # Weighted by value: what matters is the order of the best products, not that of the many poor ones.
    total = np.sum(values)
    means = np.empty(d)
    matrix = np.empty((d, d))
    slope = np.empty((d, 1))
    logs = np.log(values)
    level = np.sum(values * logs) / total
    for i in range(d):
        means[i] = np.sum(values * features[i]) / total
        slope[i, 0] = np.sum(values * (features[i] - means[i]) * (logs - level)) / total
        for j in range(i + 1):
            matrix[i, j] = np.sum(values * (features[i] - means[i]) * (features[j] - means[j])) / total
    # Above 0 also where no feature varies among the products of the request.
    ridge = RIDGE * np.trace(matrix) / d + 1e-12
    lower = np.zeros((d, d))
    for i in range(d):
        extend(lower, i, matrix[i], matrix[i, i] + ridge)
    solve_lower(lower, slope)
    solve_upper(lower, slope)
    largest = np.max(np.abs(slope))
    return slope[:, 0] * (a_max / largest if largest > 0.0 else 0.0)


def best_boosts(request: BoostRequest, config: CEMConfig, rng: np.random.Generator) -> FloatArray:
    """Return the boosts `(d,)` that a search from the projected ones finds best.

    Args:
        request: The request.
        config: How to search, and the box.
        rng: The search draws one number per start from it.
    """

    def objective(actions: FloatArray) -> FloatArray:
        out = np.empty(len(actions))
        slate_values(request, actions, out)
        return out

    start = projected(request, config.a_max).clip(-config.a_max, config.a_max)  # rounding may end just outside
    if request.penalty > 0.0:
        # Where it costs to leave the base ranker's top, the best boosts may be so small that a search as wide as the
        # box draws none of their size: it begins at the best share of the projected ones, and is as wide as they are.
        share = float(SHARES[int(np.argmax(objective(SHARES[:, np.newaxis] * start)))])
        start = share * start
        width = 0.5 * config.a_max if config.init_std is None else config.init_std
        config = replace(config, init_std=max(share, float(SHARES[-2])) * width)
    return cem_optimize(objective, len(start), config, rng=rng, init_mean=start).action
