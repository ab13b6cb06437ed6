"""What tells whether an estimate can be trusted: figures of the weights, of overlap, and of the reward model."""

from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray, IntArray
from zoosim.evaluation.off_policy.clusters import Clusters, Sums, dot, group_sums, standard_error
from zoosim.evaluation.off_policy.judging import Judged
from zoosim.evaluation.off_policy.log import Log
from zoosim.evaluation.off_policy.terms import Terms

GAP_ERRORS = 3.0
"""By how many standard errors an action's weights must fall short before its mass counts as lost."""


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


class ErrorFigures(NamedTuple):
    """Figures of an estimate's error.

    `carriers` is how many groups of rows its error rests on, (sum e^2)^2 / sum e^4 over the groups' influences e: the
    number of groups when all weigh alike. `clip_shift` is how far the value moves, in standard errors, when the largest
    weights are cut; None where there are no weights.
    """

    error: float
    carriers: float
    clip_shift: float | None


class ModelFigures(NamedTuple):
    """Figures of a reward model on rows that it has not seen.

    `slope` is that of rewards on guesses: 1 when calibrated, None when all guesses are the same; `gap` is the direct
    method's value less the doubly robust one's, `gap_error` its standard error.
    """

    slope: float | None
    gap: float
    gap_error: float


def weight_figures(log: Log, judged: Judged, clusters: Clusters) -> WeightFigures:
    """Compute the figures of a target's weights."""
    weights, total = judged.weights, float(judged.weights.sum())
    largest, squares = float(weights.max()), dot(weights, weights)
    lost, action = (None, None) if judged.mass is None else _lost(log.actions, weights, judged.mass)
    return WeightFigures(
        ess=total**2 / squares if squares else 0.0,
        mean_weight=total / len(weights),
        mean_weight_error=standard_error(group_sums(clusters, Terms(weights))),
        max_weight=largest,
        max_share=largest / total if total else 1.0,
        lost_mass=lost,
        lost_action=action,
    )


def _lost(actions: IntArray, weights: FloatArray, mass: FloatArray) -> tuple[float, int | None]:
    """Return the share of the target's choices that weights do not find again, and the action that lacks most.

    Where the log overlaps, the weights of an action's rows add up to the target's mass on it, give or take.
    """
    k, n = len(mass), len(actions)
    found = np.bincount(actions, weights, k)
    error = np.sqrt(np.bincount(actions, weights**2, k))
    short = np.where(mass - found > GAP_ERRORS * error, mass - found, 0.0) / n
    return float(short.sum()), int(short.argmax()) if short.any() else None


def error_figures(sums: Sums, clipped: float | None) -> ErrorFigures:
    """Compute the figures of an estimate's error; `clipped` is its value with the largest weights cut."""
    squares = sums.influence**2
    fourth, error = dot(squares, squares), standard_error(sums)
    carriers = float(squares.sum()) ** 2 / fourth if fourth else 0.0
    shift = None if clipped is None else abs(clipped - sums.value) / error if error else 0.0
    return ErrorFigures(error, carriers, shift)


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
