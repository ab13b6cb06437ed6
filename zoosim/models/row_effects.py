"""Effects that rows of a log share beside what features tell: of a visitor, of a day, of an hour; each on the logit."""

from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray, IntArray

MOST_VARIANCE = 4.0
LARGEST_STEP = 1.0
"""By how much a Newton step may move the logit of a row: whole steps overshoot where responses are rare."""
ERRORS = 1.0
"""Standard errors by which a variance must exceed 0 for its effects to be kept where they are not a visitor's."""


class Family(NamedTuple):
    """Effects of one kind: the group of each row `(n,)`, -1 for none, of `n_groups`.

    `within` is the family whose groups these divide, such as a visitor's taste for each category: then pairs of rows
    tell of both. `optional` effects are left out where the data do not show them. `spread` is the variance of the
    effects where it is not to be estimated.
    """

    groups: IntArray
    n_groups: int
    within: int | None = None
    optional: bool = True
    spread: float | None = None

    def sums(self, values: FloatArray) -> FloatArray:
        """Add up values of rows `(n,)` by group `(n_groups,)`."""
        has_group = self.groups >= 0
        return np.bincount(self.groups[has_group], values[has_group], self.n_groups).astype(np.float64)

    def of_rows(self, values: FloatArray) -> FloatArray:
        """Return the value of each row's group `(n,)`, 0 where it has none."""
        return np.where(self.groups >= 0, values[self.groups], 0.0) if self.n_groups else np.zeros(len(self.groups))


class RowEffects(NamedTuple):
    """The effects of a family: mean and variance of each effect `(n_groups,)`, and the variance of all.

    `spread` is the variance of the family's effects before the data, 0 where none are shown; `estimate`, which may be
    below 0, and `error` say what the data tell of it. Of each effect they tell `information (n_groups,)`, a precision,
    and `target (n_groups,)`, that times the effect.
    """

    mean: FloatArray
    variance: FloatArray
    spread: float
    estimate: float
    error: float
    information: FloatArray
    target: FloatArray


class PairMoments(NamedTuple):
    """Sums over the pairs of rows in each group `(n_groups,)`: products of residuals, and of their variances.

    `information` is the sum of the variances of a group's rows.
    """

    products: FloatArray
    weights: FloatArray
    information: FloatArray


def no_effects(family: Family) -> RowEffects:
    """Return effects that are all 0."""
    nothing = np.zeros(family.n_groups)
    return RowEffects(nothing, nothing, 0.0, 0.0, 0.0, nothing, nothing)


def pair_moments(family: Family, residuals: FloatArray, weights: FloatArray) -> PairMoments:
    """Return what pairs of rows of a group have in common: E[r_i r_j] = w_i w_j spread, to first order."""
    information = family.sums(weights)
    # (sum r)^2 - sum r^2 leaves pairs of different rows: squares of single
    # ones hold their noise, pairs only what is shared.
    products = family.sums(residuals) ** 2 - family.sums(residuals**2)
    return PairMoments(products, information**2 - family.sums(weights**2), information)


def estimate_spread(moments: PairMoments, at: float) -> tuple[float, float]:
    """Return the variance of effects and its standard error, from the moments of groups.

    Groups are weighted as is best where the variance is `at`; the error is that of a ratio of sums over groups.
    """
    # With I the information, products have mean spread I^2 and variance near 2 (I + spread I^2)^2: least
    # squares weighs a group by I^2 over that variance.
    trust = 1.0 / (1.0 + at * moments.information) ** 2
    total = float(trust @ moments.weights)
    if total <= 0.0:
        return 0.0, 0.0
    spread = float(trust @ moments.products) / total
    error = float(np.sqrt((trust**2) @ (moments.products - spread * moments.weights) ** 2)) / total
    return min(spread, MOST_VARIANCE), error


def shrunk_effects(
    family: Family, before: RowEffects, estimate: float, error: float, residuals: FloatArray, weights: FloatArray
) -> RowEffects:
    """Return each effect after a Newton step: what the rows' residuals say of it, shrunk towards 0.

    Optional effects are all 0 where the `estimate` of their variance does not exceed 0 by its standard `error`.
    """
    information = family.sums(weights)
    # Newton in its full form: residuals are left by the effect as it was, so what that explains is added back.
    target = information * before.mean + family.sums(residuals)
    known = RowEffects(np.zeros(len(target)), np.zeros(len(target)), 0.0, estimate, error, information, target)
    if estimate <= (ERRORS * error if family.optional else 0.0):
        return known
    variance = 1.0 / (1.0 / estimate + information)
    mean = before.mean + np.clip(variance * target - before.mean, -LARGEST_STEP, LARGEST_STEP)
    if (family.groups >= 0).all():  # where the level is fitted, too, effects add up to 0: all are shrunk alike
        mean -= mean.mean()
    return known._replace(mean=mean, variance=variance, spread=estimate)
