"""Estimators of what a policy earns that ranks: pure functions of arrays.

Each visit shows L actions. `weights (n, L)` are target over logging probability of the action at each position, given
those above it; `rewards (n, L)` what each position earned. `predicted` and `expected` are a reward model's predictions
for what was shown, and their means under the target.
"""

import numpy as np

from zoosim.core.errors import DataError
from zoosim.core.types import FloatArray
from zoosim.off_policy.estimators.terms import Terms, check_arrays


def standard_ips(weights: FloatArray, rewards: FloatArray) -> Terms:
    """Weight a visit by the whole ranking's ratio: sum over l of w_1 ... w_L r_l (Strehl et al. 2010).

    Unbiased whatever clicks depend on; its weights grow with L.
    """
    _check(weights, rewards)
    return Terms(weights.prod(axis=1) * rewards.sum(axis=1))


def independent_ips(marginal_weights: FloatArray, rewards: FloatArray) -> Terms:
    """Weight a position by its own action's ratio: sum over l of w_l r_l (Li et al. 2018).

    `marginal_weights (n, L)` are ratios of the probabilities that a position shows the action, whatever stands above.
    Unbiased when a position's reward depends on its own action alone.
    """
    _check(marginal_weights, rewards)
    return Terms((marginal_weights * rewards).sum(axis=1))


def cascade_ips(weights: FloatArray, rewards: FloatArray) -> Terms:
    """Weight a position by the ratio down to it: sum over l of w_1 ... w_l r_l (McInerney et al. 2020).

    Reward-interaction IPS; unbiased when a position's reward depends on what stands there and above.
    """
    _check(weights, rewards)
    return Terms((weights.cumprod(axis=1) * rewards).sum(axis=1))


def self_normalised_ips(weights: FloatArray, rewards: FloatArray) -> Terms:
    """Divide by the mean of the weights, over visits and positions: sum over l of w_l r_l / mean(w).

    `weights (n, L)` as an estimator counts them: of the whole ranking, down to a position, or marginal (as Swaminathan
    & Joachims 2015 do for single actions).
    """
    _check(weights, rewards)
    return Terms(np.zeros(len(weights)), (weights * rewards).sum(axis=1), weights.mean(axis=1))


def standard_dr(weights: FloatArray, rewards: FloatArray, predicted: FloatArray, expected: FloatArray) -> Terms:
    """Correct a model of the whole ranking: q(x, pi) + w_1 ... w_L (sum r_l - q) (Dudik, Langford & Li 2011).

    `predicted (n,)` and `expected (n,)` predict the reward of the whole ranking.
    """
    _check(weights, rewards)
    whole = rewards.sum(axis=1)
    check_arrays(rewards=whole, predicted=predicted, expected=expected)
    return Terms(expected + weights.prod(axis=1) * (whole - predicted))


def independent_dr(
    marginal_weights: FloatArray, rewards: FloatArray, predicted: FloatArray, expected: FloatArray
) -> Terms:
    """Correct a model of each position: sum over l of q_l(x, pi_l) + w_l (r_l - q_l) (DR a position).

    `predicted (n, L)` and `expected (n, L)` predict the reward of each position by its own action.
    """
    _check(marginal_weights, rewards)
    check_arrays(rewards=rewards, predicted=predicted, expected=expected)
    return Terms((expected + marginal_weights * (rewards - predicted)).sum(axis=1))


def cascade_dr(weights: FloatArray, rewards: FloatArray, predicted: FloatArray, expected: FloatArray) -> Terms:
    """Correct a model of what is still to come (Kiyohara et al. 2022).

    Sum over l of w_1 ... w_l (r_l - q_l) + w_1 ... w_(l-1) q_l(x, a_1 ... a_(l-1), pi_l). `predicted (n, L)` predicts
    the reward of positions l and below after a_1 ... a_l, `expected (n, L)` the same with a_l drawn by the
    target. Unbiased as `cascade_ips` is, for any predictions.
    """
    _check(weights, rewards)
    check_arrays(rewards=rewards, predicted=predicted, expected=expected)
    down = weights.cumprod(axis=1)
    above = np.hstack([np.ones((len(down), 1)), down[:, :-1]])
    return Terms((down * (rewards - predicted) + above * expected).sum(axis=1))


def _check(weights: FloatArray, rewards: FloatArray) -> None:
    """Refuse weights and rewards that are no finite `(n, L)` arrays with `DataError`."""
    check_arrays(weights=weights, rewards=rewards)
    if weights.ndim != 2:
        raise DataError(f"weights: got shape {weights.shape}, expected (visits, positions)")
