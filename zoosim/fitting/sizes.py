"""The worth of a response where that is not always the same: a hierarchical linear model of its logarithm.

Where some responses are worth less than nothing, the amounts themselves take the place of logarithms. Residuals are
kept, so that a world can draw them again: amounts need not be log-normal.
"""

import numpy as np

from zoosim.core.types import FloatArray, IntArray
from zoosim.models.glm import LEAST_SHARE, Response, fit_glm
from zoosim.models.hierarchy import Design
from zoosim.worlds.fitted.shop import ResponseWorth

MOST_RESIDUALS = 2_000


def fit_sizes(
    visitors: FloatArray,
    actions: IntArray,
    rewards: FloatArray,
    design: Design,
    draws: int,
    *,
    rng: np.random.Generator,
) -> ResponseWorth | None:
    """Fit what responses are worth, and draw coefficients from the posterior; None where all are worth 1.

    Args:
        visitors: Features of the visitors of each response `(n, q)`, the first column 1.
        actions: The product that each response was to `(n,)`.
        rewards: What each was worth `(n,)`, never 0.
        design: The products' features.
        draws: How many draws of the coefficients to make.
        rng: Draws them.
    """
    if (rewards == 1.0).all():
        return None
    are_logs = bool((rewards > 0.0).all())
    # Amounts are skewed, and what moves them multiplies: logarithms are nearer to a linear model with even noise.
    values = np.log(rewards) if are_logs else rewards
    model = fit_glm(Response.AMOUNTS, visitors, actions, values, design)
    coefficients = model.draw(draws, rng=rng)
    # Every so many of the sorted ones have the distribution of all; then to mean 0 and the model's variance.
    kept = np.sort(model.residuals)[:: max(1, len(values) // MOST_RESIDUALS)]
    kept = (kept - kept.mean()) * np.sqrt(model.noise / max(float(kept.var()), LEAST_SHARE))
    return ResponseWorth(coefficients.astype(np.float32), model.unit * kept, are_logs)
