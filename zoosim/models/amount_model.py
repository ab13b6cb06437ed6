"""A hierarchical linear model of amounts: what visitors and products have to do with how large a reward is."""

from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray, IntArray
from zoosim.models.hierarchy import (
    Design,
    Posterior,
    Sums,
    draw_coefficients,
    fit_hierarchy,
    posterior_at,
    start_variances,
)

ROUNDS = 6
UPDATES_A_ROUND = 4
LEAST_SHARE = 1e-6
"""The least variance of residuals, as a share of that of all amounts."""


class AmountModel(NamedTuple):
    """A fitted model of amounts less `level`, over `unit`, of which `sums` and `posterior` are.

    `noise` is the variance of the scaled amounts around the coefficients' predictions, `residuals (n,)` what is left.
    """

    design: Design
    sums: Sums
    posterior: Posterior
    level: float
    unit: float
    noise: float
    residuals: FloatArray

    @property
    def shared(self) -> FloatArray:
        """The coefficients by products' features `(q, r)`, in units of the amounts."""
        return self._unscaled(self.posterior.shared)

    @property
    def mean(self) -> FloatArray:
        """The products' coefficients `(K, q)`, in units of the amounts."""
        return self._unscaled(self.posterior.mean)

    def draw(self, draws: int, *, rng: np.random.Generator) -> FloatArray:
        """Draw the products' coefficients from the posterior `(draws, K, q)`, in units of the amounts."""
        return self._unscaled(draw_coefficients(self.design, self.sums, self.posterior, draws, rng=rng))

    def _unscaled(self, coefficients: FloatArray) -> FloatArray:
        in_units = self.unit * coefficients
        place = (0, 0) if coefficients is self.posterior.shared else (..., 0)
        in_units[place] += self.level
        return in_units


def fit_amounts(
    visitors: FloatArray, actions: IntArray, amounts: FloatArray, design: Design, rounds: int = ROUNDS
) -> AmountModel:
    """Fit the model to rows; priors are as wide as amounts vary.

    Args:
        visitors: Features of each row's visitor `(n, q)`, the first column 1.
        actions: The product of each row `(n,)`.
        amounts: What it was worth `(n,)`.
        design: The products' features, and which coefficients share a variance.
        rounds: How often the noise is estimated anew.
    """
    level = float(amounts.mean())
    # Amounts that are all alike have no spread to be measured by.
    unit = float(amounts.std()) or 1.0
    values = (amounts - level) / unit
    noise = 1.0
    variances = start_variances(design)
    sums = _sums(visitors, actions, values, len(design.products))
    for _ in range(rounds):
        posterior = fit_hierarchy(design, _scaled(sums, noise), variances, UPDATES_A_ROUND)
        variances = posterior.variances
        residuals = values - (visitors * posterior.mean[actions]).sum(axis=1)
        spread = np.einsum("ni,nij,nj->n", visitors, posterior.covariance[actions], visitors)
        noise = max(float((residuals**2 + spread).mean()), LEAST_SHARE)
    # Once more, at the noise that the last round ended with.
    scaled = _scaled(sums, noise)
    return AmountModel(design, scaled, posterior_at(design, scaled, variances), level, unit, noise, residuals)


def _scaled(sums: Sums, noise: float) -> Sums:
    return Sums(sums.precision / noise, sums.target / noise)


def _sums(visitors: FloatArray, actions: IntArray, values: FloatArray, n_products: int) -> Sums:
    """Return the sums of a normal likelihood with a variance of 1."""
    q = visitors.shape[1]
    precision = np.zeros((n_products, q, q))
    target = np.zeros((n_products, q))
    for column in range(q):
        np.add.at(precision[:, column], actions, visitors * visitors[:, [column]])
        target[:, column] = np.bincount(actions, visitors[:, column] * values, n_products)
    return Sums(precision, target)
