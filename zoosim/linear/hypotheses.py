"""Change-point filters: a few ridge models, each a hypothesis about since when things are as they are, with a weight.

This is Bayesian online change-point detection (Adams & MacKay 2007) cut to H run lengths: with each visit a change may
have happened; the weight that is lost goes to a hypothesis that knows nothing yet, in the place of the weakest. The
models of filter f are numbers f H to f H + H - 1 of a `Ridge`.
"""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import dot
from zoosim.linear.ridge import Ridge, clear, observe, variance


def new_weights(filters: int, hypotheses: int) -> FloatArray:
    """Return the weights `(filters, H)` of filters that have seen nothing."""
    weights = np.zeros((filters, hypotheses))
    weights[:, 0] = 1.0
    return weights


@jit
def begin(ridge: Ridge, weights: FloatArray, filter: int) -> None:
    """Let a filter forget all it has seen."""
    count = weights.shape[1]
    for h in range(count):
        weights[filter, h] = 1.0 if h == 0 else 0.0
        clear(ridge, filter * count + h)


@jit
def loosen(ridge: Ridge, weights: FloatArray, filter: int, kept: float) -> None:
    """Let a change have happened with chance 1 - `kept`: a hypothesis that knows nothing replaces the weakest."""
    row = weights[filter]
    weakest = 0
    for h in range(row.shape[0]):
        row[h] *= kept
        if row[h] < row[weakest]:
            weakest = h
    row[weakest] += 1.0 - kept
    clear(ridge, filter * row.shape[0] + weakest)


@jit
def learn(ridge: Ridge, weights: FloatArray, filter: int, x: FloatArray, nonzero: IntArray, reward: float) -> None:
    """Weigh each hypothesis by how well it foresaw a reward in [0, 1], then let all learn from it."""
    row, total = weights[filter], 0.0
    for h in range(row.shape[0]):
        model = filter * row.shape[0] + h
        if row[h] > 0.0:
            chance = foreseen(ridge, model, x, nonzero)
            row[h] *= chance * reward + (1.0 - chance) * (1.0 - reward)
            total += row[h]
            observe(ridge, model, x, nonzero, reward)
    for h in range(row.shape[0]):
        row[h] /= total


@jit
def foreseen(ridge: Ridge, model: int, x: FloatArray, nonzero: IntArray) -> float:
    """Return the click probability that a model expects, in [0.01, 0.99]; one that knows nothing expects a half.

    With u = lambda x' A^-1 x / x' x, the part of the prior's variance that is left, it is theta' x + u / 2: where x
    alone was seen n times with s clicks, that is (s + c / 2) / (n + c) with c = lambda / x' x.
    """
    length = dot(x, x)
    left = ridge.regularization * variance(ridge, model, x, nonzero) / length if length > 0.0 else 1.0
    chance: float = min(max(dot(ridge.theta[model], x) + 0.5 * left, 0.01), 0.99)
    return chance
