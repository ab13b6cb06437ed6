"""What a response is worth where that is not always the same: a hierarchical linear model of its logarithm.

Where some responses are worth less than nothing, the amounts themselves take the place of logarithms. Residuals are
kept, so that a world can draw them again: amounts need not be log-normal.
"""

import numpy as np

from zoosim.core.types import FloatArray, IntArray
from zoosim.fitting.hierarchy import (
    Design,
    Sums,
    draw_coefficients,
    fit_hierarchy,
    posterior_at,
    start_variances,
)
from zoosim.worlds.fitted.shop import Sizes

ROUNDS = 6
UPDATES_A_ROUND = 4
MOST_RESIDUALS = 2_000
LEAST_SHARE = 1e-6
"""The least variance of residuals, as a share of that of all sizes."""


def fit_sizes(
    visitors: FloatArray,
    actions: IntArray,
    rewards: FloatArray,
    design: Design,
    draws: int,
    *,
    rng: np.random.Generator,
) -> Sizes | None:
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
    values = np.log(rewards) if are_logs else rewards
    level = float(values.mean())
    scale = float(values.std()) or 1.0  # so that priors are as wide as sizes vary
    values = (values - level) / scale
    noise, variances = 1.0, start_variances(design)
    sums = _sums(visitors, actions, values, len(design.products))
    for _ in range(ROUNDS):
        scaled = Sums(sums.precision / noise, sums.target / noise)
        posterior = fit_hierarchy(design, scaled, variances, UPDATES_A_ROUND)
        variances = posterior.variances
        residuals = values - (visitors * posterior.mean[actions]).sum(axis=1)
        spread = np.einsum("ni,nij,nj->n", visitors, posterior.covariance[actions], visitors)
        noise = max(float((residuals**2 + spread).mean()), LEAST_SHARE)
    scaled = Sums(sums.precision / noise, sums.target / noise)
    posterior = posterior_at(design, scaled, variances)
    coefficients = scale * draw_coefficients(design, scaled, posterior, draws, rng=rng)
    coefficients[:, :, 0] += level
    kept = np.sort(residuals)[:: max(1, len(residuals) // MOST_RESIDUALS)]
    kept = (kept - kept.mean()) * np.sqrt(noise / max(float(kept.var()), LEAST_SHARE))
    return Sizes(coefficients.astype(np.float32), scale * kept, are_logs)


def _sums(visitors: FloatArray, actions: IntArray, values: FloatArray, n_products: int) -> Sums:
    """Return the sums of a normal likelihood with a variance of 1."""
    q = visitors.shape[1]
    precision = np.zeros((n_products, q, q))
    target = np.zeros((n_products, q))
    for column in range(q):
        np.add.at(precision[:, column], actions, visitors * visitors[:, [column]])
        target[:, column] = np.bincount(actions, visitors[:, column] * values, n_products)
    return Sums(precision, target)
