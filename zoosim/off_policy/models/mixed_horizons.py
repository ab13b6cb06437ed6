"""Mix estimates of whole lives that trust weights for more or fewer decisions, and a model from there (MAGIC)."""

import numpy as np
from scipy.optimize import nnls

from zoosim.core.types import FloatArray
from zoosim.off_policy.estimators.lives import LifeRows, per_mean_weight, weighted_per_decision
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.models.life_values import LinearValues

NORMAL_90 = 1.645
"""Half of a 90% interval, in standard errors."""


def magic(rows: LifeRows, weights: FloatArray, rewards: FloatArray, model: LinearValues) -> Terms:
    """Mix weighted doubly robust estimates that stop after some decisions (Thomas & Brunskill 2016, section 6).

    One that stops takes what follows from the model. The shares are those of the least variance plus squared bias of
    the mixture, where an estimate counts as biased by as much as it lies outside the 90% interval of the one that never
    stops. Intervals are by the influence of each visitor, its part in the model too, where the paper resamples; shares
    count as fixed.

    Args:
        rows: The decisions.
        weights: Their weights `(n,)`.
        rewards: What they earned `(n,)`.
        model: Values from a decision on.
    """
    parts = _stopped(rows, weights, rewards, model)
    values = parts.mean(axis=1)
    covariance = np.cov(parts) / rows.n_visitors
    bias = np.maximum(np.abs(values - values[-1]) - NORMAL_90 * np.sqrt(covariance[-1, -1]), 0.0)
    return Terms(least_risk_shares(covariance + np.outer(bias, bias)) @ parts)


def _stops(n_steps: int) -> list[int]:
    """Return after how many decisions estimates stop: 0, 1, 2, 4, 8, ..., and never."""
    doubled = [2**power for power in range(n_steps.bit_length()) if 2**power < n_steps]
    return [0, *doubled, n_steps]


def _stopped(rows: LifeRows, weights: FloatArray, rewards: FloatArray, model: LinearValues) -> FloatArray:
    """Return the terms of the estimate that stops after each number of decisions, the last one never `(m, V)`."""
    predicted, expected = model.held_out(rewards)
    first = rows.starts[:-1]
    corrections = rewards - predicted + rows.onward(expected)
    corrected = np.array([rows.step < count for count in _stops(rows.n_steps)])
    weighted = [weighted_per_decision(rows, weights, np.where(these, corrections, 0.0)).base for these in corrected]
    # What predictions count for in the mean of these: less 1 at the action shown, and 1 at the next decision.
    counted = rows.discount * rows.scale * weights * per_mean_weight(rows, weights)[rows.step] / rows.n_visitors
    shown = np.where(corrected, counted, 0.0)
    meant = np.zeros(shown.shape)
    meant[:, 1:] = (shown * rows.onward(np.ones(len(rewards))))[:, :-1]
    meant[:, first] = 1.0 / rows.n_visitors
    moved = model.held_out_influence(rewards, -shown, meant)
    return np.asarray(expected[first] + weighted + moved - moved.mean(axis=1, keepdims=True))


def least_risk_shares(matrix: FloatArray) -> FloatArray:
    """Return the shares x >= 0, of sum 1, of the least x^T `matrix` x, for a positive semidefinite matrix."""
    sizes, vectors = np.linalg.eigh(matrix)
    root = np.sqrt(np.maximum(sizes, 0.0))[:, np.newaxis] * vectors.T
    # Least squares with sum x near 1 finds the best direction whatever the nearness counts for; the sum is mended then.
    weight = np.sqrt(max(np.trace(matrix), np.finfo(float).tiny))
    system = np.vstack([root, np.full((1, len(matrix)), weight)])
    shares, _ = nnls(system, np.append(np.zeros(len(matrix)), weight))
    return np.asarray(shares / shares.sum())
