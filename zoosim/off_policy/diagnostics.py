"""Figures that tell whether an estimate can be trusted: of its weights, its error, and its reward model."""

import math
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.blocks import block_any, block_sum, dot, extremes, mapped, row_blocks
from zoosim.core.order_statistics import largest, order_statistic
from zoosim.core.types import FloatArray
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.intervals.clusters import Clusters, ClusterSums, GroupTerms, group_sums, standard_error
from zoosim.off_policy.mean_weight import has_light_tail, is_surely_below_one

SHORTFALL_ERRORS = 3.0
"""By how many standard errors an action's weights must fall short before its mass counts as lost."""
CLIPPED_SHARE = 0.001
LEAST_CLIPPED = 10
"""Share of the weights above 0 that is clipped, the largest of them, and the least number."""

ROUNDING = 1e-9
"""Relative difference that counts as none."""


class WeightFigures(NamedTuple):
    """Figures of importance weights.

    `ess` is the effective sample size (sum w)^2 / sum w^2 (Kish 1965); `mean_weight` should be 1, `mean_weight_error`
    is its standard error; `max_share` is the largest weight's share of all. `unsupported_mass` is the share of the
    target's choices that the log does not show, over actions whose weights fall short by more than chance;
    `unsupported_action` names the worst of these. None where the target gives no probabilities of all actions.
    `mean_is_telling` says that a mean weight far from 1 speaks against the propensities: heavy-tailed weights, of which
    the log holds few, miss 1 by chance.
    """

    ess: float
    mean_weight: float
    mean_weight_error: float
    max_weight: float
    max_share: float
    unsupported_mass: float | None
    unsupported_action: str | None
    mean_is_telling: bool = True


class Drift(NamedTuple):
    """An estimate on the `earlier` half of a log's rows and on the `later`; the difference in standard `errors`."""

    earlier: float
    later: float
    errors: float


class ErrorFigures(NamedTuple):
    """Figures of an estimate's error.

    `effective_groups` is how many groups of rows its error rests on, (sum e^2)^2 / sum e^4 over the groups' influences
    e: the number of groups when all weigh alike. `clip_shift` is how far the value moves, in standard errors, when the
    largest weights are clipped; None where there are no weights. `drift` is None where the log knows no times.
    """

    error: float
    effective_groups: float
    clip_shift: float | None
    drift: Drift | None = None


class RewardCount(NamedTuple):
    """Numbers of rewards of equal size that tell as much as an estimate.

    `effective` are those behind it; `expected` are those that the same rows would hold if they were rewarded as often
    as the log's. Where a policy earns little, it is the rewards that did not come which show that.
    """

    effective: float
    expected: float

    @property
    def evidence(self) -> float:
        """The number of rewards by which the policy is told from the logged choices."""
        return max(self.effective, self.expected)


class ModelFigures(NamedTuple):
    """Figures of a reward model on rows that it has not seen, where these are weighted to be like a policy's choices.

    `rewards` counts those of the rows with predictions as the policy's choices have;
    `unsupported` is the share of these choices whose predictions hardly any row has, `unseen` that of products which
    the model has not seen; `gap` is by how many standard
    errors the rewards of those rows are off their predictions. `correction` is what importance weights add to the
    estimate, `correction_error` the standard error of both together; `is_bias_in_error` says that the interval allows
    for a correction beyond chance.
    """

    rewards: RewardCount
    unsupported: float
    unseen: float
    gap: float
    correction: float
    correction_error: float
    is_bias_in_error: bool = False


def weight_figures(
    weights: Any,
    clusters: Clusters,
    unsupported: float | None = None,
    unsupported_action: str | None = None,
    largest_possible: float = math.inf,
) -> WeightFigures:
    """Compute the figures of `weights (n,)`; what is unsupported comes from `unsupported_mass`."""
    total = block_sum(weights)
    heaviest = extremes(weights)[1]
    return WeightFigures(
        ess=effective_size(weights),
        mean_weight=total / len(weights),
        mean_weight_error=standard_error(group_sums(clusters, Terms(weights))),
        max_weight=float(heaviest),
        max_share=float(heaviest) / total if total else 1.0,
        unsupported_mass=unsupported,
        unsupported_action=unsupported_action,
        mean_is_telling=has_light_tail(weights) or is_surely_below_one(weights, largest_possible),
    )


def effective_size(weights: Any) -> float:
    """Return (sum w)^2 / sum w^2 of `weights (n,)`, 0 where all are 0 (Kish 1965)."""
    squares = dot(weights, weights)
    return block_sum(weights) ** 2 / squares if squares else 0.0


def unsupported_mass(actions: Any, weights: Any, mass: FloatArray, n: int) -> tuple[float, int | None]:
    """Return the share of a target's choices on `n` visits that the log does not show, and the action that lacks most.

    Where the log overlaps, the `weights (m,)` of an action's rows, by `actions (m,)`, add up to the target's `mass
    (K,)` on it, give or take. Actions that are due in so few rows that chance may leave them out are judged together.
    """
    k = len(mass)
    shown = np.zeros(k)
    squares = np.zeros(k)
    for rows in row_blocks(len(weights)):
        block = weights[rows]
        shown += np.bincount(actions[rows], block, k)
        squares += np.bincount(actions[rows], block**2, k)
    # The weight of a typical row, by which a sum of so much mass varies: of the action itself, or of all.
    usual = float(squares.sum() / shown.sum()) if shown.any() else 0.0
    row_weight = np.divide(squares, shown, out=np.full(k, usual), where=shown > 0.0)
    # Where chance left out most of an action's rows, its squares are too small, too: then what its mass lets expect.
    variance = np.maximum(squares, mass * row_weight)
    shortfall = mass - shown
    # Of 9 rows that are expected, 3 standard deviations (Poisson) reach 0.
    is_rare = mass <= SHORTFALL_ERRORS**2 * row_weight
    lost = np.where(~is_rare & (shortfall > SHORTFALL_ERRORS * np.sqrt(variance)), shortfall, 0.0)
    rare_shortfall = float(shortfall[is_rare].sum())
    if rare_shortfall > SHORTFALL_ERRORS * math.sqrt(float(variance[is_rare].sum())):
        lost[is_rare] = shortfall[is_rare]
    return float(lost.sum()) / n, int(lost.argmax()) if lost.any() else None


def error_figures(sums: ClusterSums, clipped: float | None, drift: Drift | None = None) -> ErrorFigures:
    """Compute the figures of an estimate's error; `clipped` is its value with the largest weights clipped."""
    error = standard_error(sums)
    squares = sums.influence**2
    fourth_powers = dot(squares, squares)
    effective_groups = float(squares.sum()) ** 2 / fourth_powers if fourth_powers else 0.0
    shift = None
    if clipped is not None:
        shift = abs(clipped - sums.value) / error if error else 0.0
    return ErrorFigures(error, effective_groups, shift, drift)


def later_half(times: Any) -> Any:
    """Mark the rows from the median of `times (n,)` on; None where there are none, or all are one."""
    if times is None:
        return None
    median = order_statistic(times, len(times) // 2)
    if block_any(lambda block: block < median, times):
        return mapped(lambda block: block >= median, times, dtype=bool)
    is_one_time = not block_any(lambda block: block > median, times)
    return None if is_one_time else mapped(lambda block: block > median, times, dtype=bool)


def drift_between_halves(sums: ClusterSums, later: GroupTerms) -> Drift:
    """Compare an estimate on a log's halves, to first order: by the mean influence of their rows (Hampel 1974).

    Args:
        sums: The estimate by group, with one ratio at most.
        later: The sums of the later rows alone.
    """
    n = float(sums.sizes.sum())
    share = float(later.sizes.sum()) / n
    value = sums.value
    top, bottom = sums.ratios[0]
    of_later: FloatArray = later.base - sums.base.sum() / n * later.sizes
    if top.any():
        total = bottom.sum()
        of_later += n / total * (later.top - top.sum() / total * later.bottom)
    # Influences of later rows over their share, less those of earlier ones over theirs, have the difference of the
    # halves' means as their mean, with users kept together.
    contrast = of_later / share - (sums.influence - of_later) / (1.0 - share)
    no_ratio = (np.zeros(len(contrast)), sums.sizes)
    difference = ClusterSums(sums.sizes, contrast, (no_ratio, no_ratio))
    error = standard_error(difference)
    apart = abs(difference.value) / error if error > 0.0 else math.inf
    if not abs(difference.value) > ROUNDING * abs(value):
        apart = 0.0
    return Drift(value - share * difference.value, value + (1.0 - share) * difference.value, apart)


def clip_weights(weights: Any) -> Any:
    """Return weights whose largest are clipped to the next: one in a thousand of those above 0, ten at least."""
    positive = sum(int(np.count_nonzero(weights[rows])) for rows in row_blocks(len(weights)))
    n_clipped = min(max(LEAST_CLIPPED, int(CLIPPED_SHARE * positive)), max(positive - 1, 0))
    limit = float(largest(weights, n_clipped + 1).min())
    return mapped(lambda block: np.minimum(block, limit), weights)
