"""Choose how far to cut or shrink weights: by the least estimated mean squared error."""

import numpy as np

from zoosim.core.types import FloatArray
from zoosim.off_policy.estimators.single import shrunk

STEPS = 20


def choose_limit(estimator: str, weights: FloatArray, residuals: FloatArray) -> float:
    """Return the limit, threshold or shrinkage of an `estimator` that cuts weights (Su et al. 2020).

    Tries `STEPS` limits, from the median weight above 0 to the largest, and takes that with the least squared bias,
    mean((cut w - w) residual)^2, plus variance. `residuals (n,)` are rewards less guesses, or rewards alone.
    """
    largest = float(weights.max())
    if largest == 0.0:
        return 1.0
    lowest = float(np.median(weights[weights > 0.0]))
    tried = [float(limit) for limit in np.geomspace(lowest, largest, STEPS)]
    options = [limit**2 for limit in tried] + [1e6 * largest**2] if estimator == "shrunk-dr" else tried
    full = weights * residuals
    errors = [_squared_error(cut(estimator, weights, limit) * residuals, full) for limit in options]
    return options[int(np.argmin(errors))]


def cut(estimator: str, weights: FloatArray, limit: float) -> FloatArray:
    """Return the weights as an estimator cuts them."""
    if estimator == "shrunk-dr":
        return shrunk(weights, limit)
    if estimator == "switch-dr":
        return np.where(weights <= limit, weights, 0.0)
    return np.minimum(weights, limit)


def _squared_error(kept: FloatArray, full: FloatArray) -> float:
    return float((kept - full).mean()) ** 2 + float(kept.var()) / len(kept)
