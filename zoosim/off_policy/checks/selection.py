"""Choices that go with rewards, or with what was known after them, beyond what their propensities say."""

import math

import numpy as np

from zoosim.core.arrays import codes_of
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.models.linear_rewards import RewardModel, fit_linear_model, shared_first
from zoosim.off_policy.checks.probe import SAMPLE, Probe, sure_errors
from zoosim.off_policy.verdict import VerdictReasons

FOLDS = 3
SHRINKAGE = 30.0
"""For how many rows the model of all actions counts beside those of one action."""

MOST_CELLS = 2_000_000
"""Rows times actions that are looked at."""

MOST_MOMENTS = 1_000_000
"""Actions times squared features up to which rewards of all actions are modelled; beyond, that takes too long."""

MOST_FEATURES = 5
"""Features that are looked at: those that know rewards go with them."""

SELECTION_ERRORS, LEAST_SHARE = 3.5, 0.005
"""Standard errors by which selection must show, and share of the terms: logs round their propensities."""

UNSUPPORTED, UNSUPPORTED_ERRORS = 0.02, 3.0
"""Share of the choices, and standard errors, from which on some actions cannot be chosen by some visitors."""


def check_selection(findings: VerdictReasons, probe: Probe) -> None:
    """Compare the logged choices with what their propensities say, where it counts: along predicted rewards.

    For any function f of visitor and action whose sum over actions is 0, f(x, a) / p(a | x) is 0 in expectation if a
    was drawn with probability p, and so is its product with any feature known before. With f near p (q - mean of q),
    where q predicts rewards, it is most likely not 0 if rows were left out by their reward, or if the feature knows the
    reward.
    """
    if probe.log.n_actions * (probe.inputs.shape[1] + 1) ** 2 > MOST_MOMENTS:
        return
    contrast = _Contrast(probe)
    terms = contrast.terms(contrast.rewards, contrast.log_propensities)
    if terms is None:
        return
    errors = contrast.standard_errors(terms)
    if abs(errors) > SELECTION_ERRORS:
        more = "more" if errors > 0.0 else "less"
        observation = f"actions that earn more are in the log {more} often than their propensities say"
        advice = "rows were selected by their reward, or drawn again after a failure"
        findings.add(f"{observation} ({abs(errors):.1f} standard errors): {advice}{probe.every_row}", useless=False)
        return
    for column in contrast.columns:
        errors = contrast.errors_of_feature(column)
        if abs(errors) > sure_errors(len(contrast.columns)):
            observation = f"{probe.feature_name(probe.columns[column])} goes with the choice beyond its propensity"
            advice = "it was made after the choice, or propensities are wrong"
            findings.add(f"{observation} ({abs(errors):.1f} standard errors): {advice}{probe.every_row}", useless=False)
            return


class _Contrast:
    """Models of the rewards and of the propensities of all actions, each without the rows that it is asked for."""

    def __init__(self, probe: Probe) -> None:
        n_rows = max(1, min(SAMPLE, MOST_CELLS // probe.log.n_actions))
        rows = probe.sample[:: -(-len(probe.sample) // n_rows)]
        self._inputs = np.ascontiguousarray(probe.inputs[rows])
        self._group: IntArray = codes_of(probe.clusters.group[rows])
        self._actions = probe.log.actions[rows]
        self._propensities = probe.log.propensities[rows]
        masks, mask_of = probe.log.candidates.distinct_masks(probe.log.candidate_set[rows])
        self._available: BoolArray = masks[mask_of]
        self._n_actions = probe.log.n_actions
        self._logged_rewards = probe.log.rewards[rows]
        self._propensity_model = self._fit(self._inputs, np.log(self._propensities))
        self.log_propensities = self._propensity_model.predict(0, len(rows))
        self.rewards = self._fit(self._inputs, self._logged_rewards).predict(0, len(rows))
        centred = self._logged_rewards - self._logged_rewards.mean()
        self.columns = np.argsort(-np.abs(centred @ self._inputs), kind="stable")[:MOST_FEATURES].tolist()
        """The features that go with rewards most, the first one first."""

    def _fit(self, inputs: FloatArray, target: FloatArray) -> RewardModel:
        fold = self._group % FOLDS
        fitting = shared_first(None)._replace(strengths=(SHRINKAGE,))
        return fit_linear_model(inputs, self._actions, [target], self._n_actions, fold, FOLDS, fitting)

    def terms(self, rewards: FloatArray, log_propensities: FloatArray) -> FloatArray | None:
        """Return f(x, a) / p of each row `(n,)`; None where visitors cannot see all actions.

        Args:
            rewards: Predicted rewards of all actions `(n, K)`.
            log_propensities: Predicted logarithms of their propensities `(n, K)`.
        """
        chances = np.where(self._available, log_propensities, -np.inf)
        chances = np.exp(chances - chances.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        contrast = chances * (rewards - (chances * rewards).sum(axis=1, keepdims=True))
        everything = np.arange(len(self._actions))
        # The mean of chances / propensity is 1 where every action can be drawn,
        # and less by the chances of those that cannot.
        surplus = chances[everything, self._actions] / self._propensities - 1.0
        if surplus.mean() < -UNSUPPORTED and self._errors(surplus) < -UNSUPPORTED_ERRORS:
            return None
        weighted: FloatArray = contrast[everything, self._actions] / self._propensities
        return weighted

    def standard_errors(self, weighted: FloatArray) -> float:
        """Return by how many standard errors the sum of terms is not 0; 0 where it is a trifle."""
        if abs(float(weighted.sum())) <= LEAST_SHARE * float(np.abs(weighted).sum()):
            return 0.0
        return self._errors(weighted)

    def errors_of_feature(self, column: int) -> float:
        """Return the same for the product with a feature, which the models are not told."""
        feature = self._inputs[:, column]
        rewards = self._fit(np.delete(self._inputs, column, axis=1), self._logged_rewards).predict(0, len(feature))
        model = self._propensity_model
        effects = model.coefficients[model.fold, column + 1] * model.scale[column]
        # The model is linear: less the feature's own terms, it does not go by the feature.
        terms = self.terms(rewards, self.log_propensities - feature[:, None] * effects)
        if terms is None:
            return 0.0
        return self.standard_errors(terms * (feature - feature.mean()))

    def _errors(self, values: FloatArray) -> float:
        """Return the sum of `values (n,)` in standard errors, those of users together."""
        sums = np.bincount(self._group, values)
        # Squares about 0, not about their mean: 0 is what is expected if propensities are right.
        error = math.sqrt(float((sums**2).sum()))
        return float(sums.sum()) / error if error else 0.0
