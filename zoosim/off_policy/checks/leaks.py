"""Features and probabilities that know the reward."""

import math

import numpy as np
from scipy.spatial import cKDTree

from zoosim.core.types import FloatArray
from zoosim.off_policy.checks.probe import Probe
from zoosim.off_policy.verdict import VerdictReasons

SAME = 0.95
"""Correlation of a feature with the reward from which on it is the reward under another name."""

KNOWN, KNOWN_ERRORS = 0.12, 5.0
SURELY_KNOWN = 0.25
"""Correlation of what is left of probabilities and rewards once features and actions have explained what they can."""

NEAREST, NEAREST_ROWS = 5, 4_000
NOISE = 0.5
"""Share of the rewards' variance that must be left beside rows alike, so that none could know it beforehand."""

ROUNDING = 1e-6
"""Share of the variance of probabilities that is none: rows alike have the same one."""

LEAST_CHANCE = 1e-6


def check_features(findings: VerdictReasons, probe: Probe) -> None:
    """Look for a feature that is the reward."""
    rewards = probe.log.rewards[probe.sample]
    for place, column in enumerate(probe.columns):
        likeness = abs(_correlation(probe.inputs[probe.sample, place], rewards))
        if likeness > SAME:
            observation = f"{probe.feature_name(column)} is nearly the reward (correlation {likeness:.3f})"
            advice = "leave out what is known only after the choice"
            findings.add(f"{observation}: {advice}{probe.every_row}", useless=False)
            return


def check_reward_in_hand(findings: VerdictReasons, probe: Probe) -> None:
    """Look for the reward in propensities, which should have been computed before it came.

    Given the features and the action a propensity is a number, and cannot go with what is chance in the reward.
    """
    log_chances = np.log(np.maximum(probe.log.propensities, LEAST_CHANCE))
    rows = probe.sample
    likeness = _correlation(probe.residuals_of(log_chances)[rows], probe.residuals[rows])
    if abs(likeness) < KNOWN or abs(likeness) * math.sqrt(len(rows)) < KNOWN_ERRORS:
        return
    # What the linear model leaves may be known of visitors: compare with the most alike rows of the same action.
    rows = rows[:: max(1, len(rows) // NEAREST_ROWS)]
    values = np.column_stack([log_chances[rows], probe.log.rewards[rows]])
    residuals = _less_nearest(probe.inputs[rows], probe.log.actions[rows], values)
    likeness = _correlation(residuals[:, 0], residuals[:, 1])
    # The mean of so many neighbours has a variance of its own, 1 / NEAREST of that of a row.
    unknown_chances, noise = residuals.var(axis=0) / (1.0 + 1.0 / NEAREST)
    if unknown_chances <= ROUNDING * float(values[:, 0].var()):
        return
    if abs(likeness) > SURELY_KNOWN and noise > NOISE * float(values[:, 1].var()):
        observation = f"propensities go with rewards beyond what features and actions tell (correlation {likeness:.2f})"
        advice = (
            "they were computed when it was known, or by what is not logged; log that, and take rows not learned from"
        )
        findings.add(f"{observation}: {advice}{probe.every_row}", useless=False)


def _less_nearest(inputs: FloatArray, actions: FloatArray, values: FloatArray) -> FloatArray:
    """Return `values (n, m)` less their means over the rows of the same action that are most alike."""
    residuals = np.zeros_like(values)
    if not inputs.shape[1]:  # all rows are alike
        inputs = np.zeros((len(inputs), 1))
    for action in np.unique(actions):
        rows = np.flatnonzero(actions == action)
        if len(rows) <= NEAREST:
            continue
        nearest = cKDTree(inputs[rows]).query(inputs[rows], NEAREST + 1)[1]
        # Of rows alike in all features any may come first, so a row is left out by its number.
        is_other = nearest != np.arange(len(rows))[:, None]
        is_other[is_other.all(axis=1), -1] = False
        others = rows[nearest[is_other].reshape(len(rows), NEAREST)]
        residuals[rows] = values[rows] - values[others].mean(axis=1)
    return residuals


def _correlation(x: FloatArray, y: FloatArray) -> float:
    x = x - x.mean()
    y = y - y.mean()
    size = math.sqrt(float((x**2).sum()) * float((y**2).sum()))
    return float((x * y).sum()) / size if size else 0.0
