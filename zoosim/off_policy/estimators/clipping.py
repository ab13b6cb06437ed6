"""Choose how far to cut or shrink weights: by the least estimated mean squared error."""

import numpy as np

from zoosim.core.types import FloatArray
from zoosim.off_policy.estimators.single import shrunk

STEPS = 20


def choose_limit(estimator: str, weights: FloatArray, residuals: FloatArray) -> float:
    """Return the limit, threshold or shrinkage of an `estimator` that cuts weights (Su et al. 2020).

    Tries `STEPS` limits, from the median weight above 0 to the largest, and takes that with the least squared bias,
    mean((cut w - w) residual)^2, plus variance. `residuals (n,)` are rewards less predictions, or rewards alone.
    """
    largest = float(weights.max())
    if largest == 0.0:
        return 1.0
    lowest = float(np.median(weights[weights > 0.0]))
    limits = [float(limit) for limit in np.geomspace(lowest, largest, STEPS)]
    if estimator == "shrunk-dr":
        # lambda w / (w^2 + lambda) is largest at w = sqrt(lambda), so squares are the like of limits;
        # the last one leaves weights nearly as they are.
        limits = [limit**2 for limit in limits] + [1e6 * largest**2]
    full = weights * residuals
    errors = [_squared_error(limited(estimator, weights, limit) * residuals, full) for limit in limits]
    return limits[int(np.argmin(errors))]


def limited(estimator: str, weights: FloatArray, limit: float) -> FloatArray:
    """Return the weights `(n,)` as an estimator clips, drops or shrinks them."""
    if estimator == "shrunk-dr":
        return shrunk(weights, limit)
    if estimator == "switch-dr":
        return np.where(weights <= limit, weights, 0.0)
    return np.minimum(weights, limit)


def _squared_error(kept: FloatArray, full: FloatArray) -> float:
    # Full weights are unbiased, so the mean difference from them estimates the bias.
    return float((kept - full).mean()) ** 2 + float(kept.var()) / len(kept)
