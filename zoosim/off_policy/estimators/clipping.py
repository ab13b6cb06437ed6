"""Choose how far to cut or shrink weights: by the least estimated mean squared error."""

from typing import Any

import numpy as np

from zoosim.core.blocks import extremes, row_blocks
from zoosim.core.order_statistics import order_statistic
from zoosim.core.types import FloatArray
from zoosim.off_policy.estimators.single import shrunk

STEPS = 20


def choose_limit(estimator: str, weights: Any, residuals: Any) -> float:
    """Return the limit, threshold or shrinkage of an `estimator` that cuts weights (Su et al. 2020).

    Tries `STEPS` limits, from the median weight above 0 to the largest, and takes that with the least squared bias,
    mean((cut w - w) residual)^2, plus variance. `residuals (n,)` are rewards less predictions, or rewards alone.
    """
    n = len(weights)
    largest = float(extremes(weights)[1])
    if largest == 0.0:
        return 1.0
    n_unused = sum(int((weights[rows] == 0.0).sum()) for rows in row_blocks(n))
    middle = ((n_unused + n - 1) // 2, (n_unused + n) // 2)  # of the weights above 0, which come after the others
    lowest = sum(float(order_statistic(weights, rank)) for rank in middle) / 2.0
    limits = [float(limit) for limit in np.geomspace(lowest, largest, STEPS)]
    if estimator == "shrunk-dr":
        # lambda w / (w^2 + lambda) is largest at w = sqrt(lambda), so squares are the like of limits;
        # the last one leaves weights nearly as they are.
        limits = [limit**2 for limit in limits] + [1e6 * largest**2]
    # Sums of what each limit takes away, of what it keeps, and of the squares of that.
    taken, kept, squares = np.zeros((3, len(limits)))
    for rows in row_blocks(n):
        block = weights[rows]
        errors = residuals[rows]
        full = block * errors
        for place, limit in enumerate(limits):
            values = limited(estimator, block, limit) * errors
            taken[place] += (values - full).sum()
            kept[place] += values.sum()
            squares[place] += (values * values).sum()
    variances = np.maximum(squares / n - (kept / n) ** 2, 0.0)
    # Full weights are unbiased, so the mean difference from them estimates the bias.
    return limits[int(np.argmin((taken / n) ** 2 + variances / n))]


def limited(estimator: str, weights: FloatArray, limit: float) -> FloatArray:
    """Return the weights `(n,)` as an estimator clips, drops or shrinks them."""
    if estimator == "shrunk-dr":
        return shrunk(weights, limit)
    if estimator == "switch-dr":
        return np.where(weights <= limit, weights, 0.0)
    return np.minimum(weights, limit)
