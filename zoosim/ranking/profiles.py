"""What boosts do to a request: the average boost features of the products that they bring to the top.

Rewards depend on boosts only through what is shown. A visitor looks from the top and leaves sooner or later, so
positions count less and less: position n = 0, 1, ... by fade^n.
"""

import numpy as np

from zoosim.core.checks import check_array, check_number, check_whole
from zoosim.core.jit import jit
from zoosim.core.types import FloatArray
from zoosim.ranking.top_k import top


def slate_profiles(
    base_scores: FloatArray, boost_features: FloatArray, actions: FloatArray, k: int = 20, fade: float = 0.8
) -> FloatArray:
    """Return the mean boost features of the top k under each of n boosts, weighed by fade^position, `(n, d)`.

    `base_scores (K,)`, `boost_features (K, d)`, `actions (n, d)`. Raises `DataError` and `ConfigError`.
    """
    base = check_array("base_scores", base_scores, (None,))
    features = check_array("boost_features", boost_features, (len(base), None))
    wanted = check_array("actions", actions, (None, features.shape[1]))
    weights = position_weights(min(check_whole("k", k, 1, 1_000), len(base)), check_number("fade", fade, 0.0, 1.0))
    out = np.empty(wanted.shape)
    write_profiles(base, np.ascontiguousarray(features.T), wanted, weights, out)
    return out


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
    scores, shown = np.empty(base.shape[0]), np.empty(weights.shape[0], np.int64)
    for n in range(actions.shape[0]):
        scores[:] = base
        for i in range(columns.shape[0]):
            add_scaled(columns[i], actions[n, i], scores)
        top(scores, shown)
        for i in range(columns.shape[0]):
            out[n, i] = 0.0
            for place, p in enumerate(shown):
                out[n, i] += weights[place] * columns[i, p]


@jit
def add_scaled(row: FloatArray, scale: float, out: FloatArray) -> None:
    """Add `scale` times `row (K,)` on to `out (K,)`."""
    for p in range(row.shape[0]):
        out[p] += scale * row[p]
