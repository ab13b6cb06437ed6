"""Profiles of boosts: the average boost features of the products that they bring to the top of a request.

Rewards depend on boosts only through what is shown. A visitor looks from the top and leaves sooner or later, so
positions count less and less: position n = 0, 1, ... by fade^n.
"""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray
from zoosim.linear.dense import copy_vector
from zoosim.ranking.top_k import top


def position_weights(k: int, fade: float) -> FloatArray:
    """Return the weights fade^n of k positions, scaled to add up to 1."""
    weights: FloatArray = np.power(fade, np.arange(k, dtype=np.float64))
    scaled: FloatArray = weights / weights.sum()
    return scaled


@jit
def write_profiles(
    base: FloatArray, columns: FloatArray, actions: FloatArray, weights: FloatArray, out: FloatArray
) -> None:
    """Write profiles to `out (n, d)`: `base (K,)`, features in `columns (d, K)`, `actions (n, d)`, `weights (k,)`."""
    scores = np.empty(base.shape[0])
    shown = np.empty(weights.shape[0], np.int64)
    for n in range(actions.shape[0]):
        copy_vector(base, scores)
        for i in range(columns.shape[0]):
            add_scaled(columns[i], actions[n, i], scores)
        top(scores, shown)
        for i in range(columns.shape[0]):
            out[n, i] = 0.0
            for position, p in enumerate(shown):
                out[n, i] += weights[position] * columns[i, p]


@jit
def add_scaled(row: FloatArray, scale: float, out: FloatArray) -> None:
    """Add `scale` times `row (K,)` on to `out (K,)`."""
    for p in range(row.shape[0]):
        out[p] += scale * row[p]
