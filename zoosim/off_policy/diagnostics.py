"""What tells whether an estimate can be trusted: figures of the weights, of overlap, and of the reward model."""

import math
from typing import NamedTuple

import numpy as np

from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.off_policy.actions.product_weights import Judged
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.intervals.clusters import Clusters, Sums, dot, group_sums, standard_error

GAP_ERRORS = 3.0
"""By how many standard errors an action's weights must fall short before its mass counts as lost."""
ROUNDING = 1e-9
"""What moves by less than this share of itself stays."""


class WeightFigures(NamedTuple):
    """Figures of importance weights.

    `ess` is the effective sample size (sum w)^2 / sum w^2 (Kish 1965); `mean_weight` should be 1, `mean_weight_error`
    is its standard error; `max_share` is the largest weight's share of all. `lost_mass` is the share of the target's
    choices that the log does not show, over actions whose weights fall short by more than chance; `lost_action` the
    worst of these. None where the target gives no probabilities of all actions.
    """

    ess: float
    mean_weight: float
    mean_weight_error: float
    max_weight: float
    max_share: float
    lost_mass: float | None
    lost_action: int | None


class Moved(NamedTuple):
    """An estimate on the `earlier` half of a log's rows and on the `later`; the difference in standard `errors`."""

    earlier: float
    later: float
    errors: float


class ErrorFigures(NamedTuple):
    """Figures of an estimate's error.

    `carriers` is how many groups of rows its error rests on, (sum e^2)^2 / sum e^4 over the groups' influences e: the
    number of groups when all weigh alike. `clip_shift` is how far the value moves, in standard errors, when the largest
    weights are cut; None where there are no weights. `moved` is None where the log knows no times.
    """

    error: float
    carriers: float
    clip_shift: float | None
    moved: Moved | None = None


class ModelFigures(NamedTuple):
    """Figures of a reward model on rows that it has not seen.

    `slope` is that of rewards on guesses: 1 when calibrated, None when all guesses are the same; `gap` is the direct
    method's value less the doubly robust one's, `gap_error` its standard error.
    """

    slope: float | None
    gap: float
    gap_error: float


def weight_figures(
    weights: FloatArray, clusters: Clusters, lost_mass: float | None = None, lost_action: int | None = None
) -> WeightFigures:
    """Compute the figures of `weights (n,)`; what is lost comes from `lost_choices`."""
    total = float(weights.sum())
    largest = float(weights.max())
    return WeightFigures(
        ess=effective_size(weights),
        mean_weight=total / len(weights),
        mean_weight_error=standard_error(group_sums(clusters, Terms(weights))),
        max_weight=largest,
        max_share=largest / total if total else 1.0,
        lost_mass=lost_mass,
        lost_action=lost_action,
    )


def effective_size(weights: FloatArray) -> float:
    """Return (sum w)^2 / sum w^2 of `weights (n,)`, 0 where all are 0 (Kish 1965)."""
    squares = dot(weights, weights)
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def lost_choices(actions: IntArray, weights: FloatArray, mass: FloatArray, n: int) -> tuple[float, int | None]:
    """Return the share of a target's choices on `n` visits that the log does not show, and the action that lacks most.

    Where the log overlaps, the `weights (m,)` of an action's rows, by `actions (m,)`, add up to the target's `mass
    (K,)` on it, give or take.
    """
    k = len(mass)
    found = np.bincount(actions, weights, k)
    error = np.sqrt(np.bincount(actions, weights**2, k))
    short = np.where(mass - found > GAP_ERRORS * error, mass - found, 0.0) / n
    return float(short.sum()), int(short.argmax()) if short.any() else None


def error_figures(sums: Sums, clipped: float | None, moved: Moved | None = None) -> ErrorFigures:
    """Compute the figures of an estimate's error; `clipped` is its value with the largest weights cut."""
    squares = sums.influence**2
    fourth, error = dot(squares, squares), standard_error(sums)
    carriers = float(squares.sum()) ** 2 / fourth if fourth else 0.0
    shift = None if clipped is None else abs(clipped - sums.value) / error if error else 0.0
    return ErrorFigures(error, carriers, shift, moved)


def later_half(times: IntArray | None) -> BoolArray | None:
    """Mark the rows from the median of `times (n,)` on; None where there are none, or all are one."""
    if times is None:
        return None
    middle = len(times) // 2
    median = np.partition(times, middle)[middle]
    later: BoolArray = times >= median
    if later.all():
        later = times > median
    return later if later.any() else None


def halves(terms: Terms, later: BoolArray, clusters: Clusters) -> Moved:
    """Compare an estimate on a log's halves, to first order: by the mean influence of their rows (Hampel 1974)."""
    share, influence, value = float(later.mean()), terms.influence(), terms.value
    gap = group_sums(clusters, Terms(influence * np.where(later, 1.0 / share, -1.0 / (1.0 - share))))
    error = standard_error(gap)
    off = abs(gap.value) / error if error > 0.0 else math.inf
    ends = (value - share * gap.value, value + (1.0 - share) * gap.value)
    return Moved(*ends, off if abs(gap.value) > ROUNDING * abs(value) else 0.0)


def cut_weights(weights: FloatArray, share: float = 0.001, least: int = 10) -> FloatArray:
    """Return weights with the largest cut: one in a thousand of those above 0, `least` at least, to the next below."""
    above = int(np.count_nonzero(weights))
    cut = min(max(least, int(share * above)), max(above - 1, 0))
    limit = np.partition(weights, len(weights) - 1 - cut)[len(weights) - 1 - cut]
    cut_off: FloatArray = np.minimum(weights, limit)
    return cut_off


def model_figures(rewards: FloatArray, judged: Judged, clusters: Clusters) -> ModelFigures:
    """Compute the figures of a model's guesses, which `judged` must hold."""
    assert judged.predicted is not None
    assert judged.expected is not None
    guesses = judged.predicted - judged.predicted.mean()
    spread = dot(guesses, guesses)
    slope = dot(guesses, rewards) / spread if spread > 1e-12 * len(rewards) * float(rewards.var()) else None
    correction = group_sums(clusters, Terms(judged.weights * (judged.predicted - rewards)))
    return ModelFigures(slope, correction.value, standard_error(correction))
