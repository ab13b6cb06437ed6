"""A reward model for continuous boosts, cross-fitted: ridge on features, boosts, and their products."""

from typing import NamedTuple

import numpy as np

from zoosim.core.distributions import Distributions
from zoosim.core.types import FloatArray, frozen, frozen_parts
from zoosim.logs.log import Log
from zoosim.models.linear_rewards import FOLDS, Fitting, RewardModel, fit_linear_model, model_terms
from zoosim.off_policy.intervals.clusters import Clusters

RIDGE = Fitting(lambda gram, cross: np.zeros_like(cross), "kernel-dr", free_level=True)
"""The only action has no other to be like: its coefficients are shrunk towards 0, but for the mean."""


class BoostRewardModel(NamedTuple):
    """A linear model of what boosts earn, and the visitors' `features (n, d_x)`; boosts count in units of `a_max`."""

    model: RewardModel
    features: FloatArray
    a_max: float

    def predict(self, actions: FloatArray) -> FloatArray:
        """Predict what each visit would earn by `actions (n, d)`, by a model that has not seen it: `(n,)`."""
        n = len(actions)
        model = frozen_parts(self.model._replace(inputs=inputs_of(self.features, actions / self.a_max)))
        first_actions = frozen(np.zeros(n, np.int64))
        certain = frozen_parts(Distributions.dense(np.ones((n, 1))))
        predicted = np.empty(n)
        unused = np.empty(n)
        model_terms(model, 0, first_actions, certain, predicted, unused)
        return predicted


def fit_boost_model(log: Log, clusters: Clusters) -> BoostRewardModel:
    """Fit to a log with folds of whole clusters; raises `ConfigError` for more columns than memory takes."""
    inputs = inputs_of(log.features, log.actions / log.a_max)
    zeros = np.zeros(len(log), np.int64)
    model = fit_linear_model(inputs, zeros, [log.rewards], 1, clusters.group % FOLDS, FOLDS, RIDGE)
    return BoostRewardModel(model, log.features, log.a_max)


def inputs_of(features: FloatArray, boosts: FloatArray) -> FloatArray:
    """Return features, boosts, their squares, and products of pairs of boosts, and of features and boosts: `(n, D)`."""
    first, second = np.triu_indices(boosts.shape[1])
    crossed = (features[:, :, None] * boosts[:, None, :]).reshape(len(boosts), -1)
    return np.hstack([features, boosts, boosts[:, first] * boosts[:, second], crossed])
