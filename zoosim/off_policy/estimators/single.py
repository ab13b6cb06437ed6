"""Estimators of what a policy earns that shows one action a visit: pure functions of arrays.

`weights (n,)` are target over logging probability of the logged action, `rewards (n,)` what it earned; `predicted (n,)`
is the reward model's prediction for the logged action, `expected (n,)` its mean under the target policy. The model must
not have seen the row that it predicts (`RewardModel` is cross-fitted). Each returns `Terms`, whose `value` is the
estimate, and raises `DataError` for arrays that do not fit together.
"""

import numpy as np

from zoosim.core.errors import ConfigError
from zoosim.core.types import FloatArray
from zoosim.off_policy.estimators.terms import Terms, check_arrays

DIRECT_METHOD = "dm"
"""The name of the estimator that trusts a reward model."""


def direct_method(expected: FloatArray) -> Terms:
    """Trust the reward model: mean(q(x, pi)) (Beygelzimer & Langford 2009)."""
    check_arrays(expected=expected)
    return Terms(expected)


def ips(weights: FloatArray, rewards: FloatArray) -> Terms:
    """Weight by inverse propensity: mean(w r) (Horvitz & Thompson 1952; Strehl et al. 2010)."""
    check_arrays(weights=weights, rewards=rewards)
    return Terms(weights * rewards)


def clipped_ips(weights: FloatArray, rewards: FloatArray, limit: float) -> Terms:
    """Cut weights at `limit`, above 0: mean(min(w, limit) r) (Ionides 2008; Bottou et al. 2013)."""
    check_arrays(weights=weights, rewards=rewards)
    return Terms(np.minimum(weights, _positive("limit", limit)) * rewards)


def self_normalised_ips(weights: FloatArray, rewards: FloatArray) -> Terms:
    """Divide by the weights' sum: sum(w r) / sum(w) (Swaminathan & Joachims 2015)."""
    check_arrays(weights=weights, rewards=rewards)
    return Terms(np.zeros(len(weights)), weights * rewards, weights)


def doubly_robust(weights: FloatArray, rewards: FloatArray, predicted: FloatArray, expected: FloatArray) -> Terms:
    """Correct the reward model by weighted residuals: mean(q(x, pi) + w (r - q)) (Dudik, Langford & Li 2011)."""
    check_arrays(weights=weights, rewards=rewards, predicted=predicted, expected=expected)
    return Terms(expected + weights * (rewards - predicted))


def self_normalised_dr(weights: FloatArray, rewards: FloatArray, predicted: FloatArray, expected: FloatArray) -> Terms:
    """Normalise the correction: mean(q(x, pi)) + sum(w (r - q)) / sum(w) (Thomas & Brunskill 2016)."""
    check_arrays(weights=weights, rewards=rewards, predicted=predicted, expected=expected)
    return Terms(expected, weights * (rewards - predicted), weights)


def switch_dr(
    weights: FloatArray, rewards: FloatArray, predicted: FloatArray, expected: FloatArray, threshold: float
) -> Terms:
    """Correct only where w <= `threshold`, 0 or more; trust the model elsewhere (Wang, Agarwal & Dudik 2017)."""
    check_arrays(weights=weights, rewards=rewards, predicted=predicted, expected=expected)
    kept = np.where(weights <= _positive("threshold", threshold, zero=True), weights, 0.0)
    return Terms(expected + kept * (rewards - predicted))


def shrunk_dr(
    weights: FloatArray, rewards: FloatArray, predicted: FloatArray, expected: FloatArray, shrinkage: float
) -> Terms:
    """Shrink weights to lambda w / (w^2 + lambda), lambda = `shrinkage` of 0 or more (Su et al. 2020, optimistic form).

    At 0 it is the direct method, towards infinity doubly robust.
    """
    check_arrays(weights=weights, rewards=rewards, predicted=predicted, expected=expected)
    return Terms(expected + shrunk(weights, shrinkage) * (rewards - predicted))


def shrunk(weights: FloatArray, shrinkage: float) -> FloatArray:
    """Return weights `(n,)` shrunk optimistically (Su et al. 2020): lambda w / (w^2 + lambda)."""
    strength = _positive("shrinkage", shrinkage, zero=True)
    # Where both are 0 it would be 0 / 0.
    return np.divide(strength * weights, weights**2 + strength, out=np.zeros(len(weights)), where=weights > 0.0)


def _positive(name: str, value: float, zero: bool = False) -> float:
    if not (value > 0.0 or (zero and value == 0.0)) or not np.isfinite(value):
        raise ConfigError(f"{name}: got {value!r}, expected a finite number {'of 0 or more' if zero else 'above 0'}")
    return value
