"""The reward model of the doubly robust estimators: no row is predicted by a model that has seen its user."""

import numpy as np

from zoosim.core.types import FloatArray
from zoosim.logs.log import Log
from zoosim.models.linear_rewards import FOLDS, RewardModel, fit_linear_model, shared_first
from zoosim.off_policy.intervals.clusters import Clusters

MAX_POSITIONS = 20


def fit_reward_model(log: Log, clusters: Clusters, labels: FloatArray | None = None) -> RewardModel:
    """Fit to a log with folds of whole clusters; raises `ConfigError` for more actions and features than memory takes.

    The amount of shrinkage is chosen without the fold, too, by the squared error on the others in turn. `labels (F, n)`
    stand for the rewards where the model without each fold is to learn its own.
    """
    rewards = [log.rewards] if labels is None else list(labels)
    fold = clusters.group % FOLDS
    return fit_linear_model(_inputs(log), log.actions, rewards, log.n_actions, fold, FOLDS, shared_first(None))


def _inputs(log: Log) -> FloatArray:
    """Return the features and, where rows stand at several positions, a column a position `(n, d)`."""
    positions = np.unique(log.positions)
    if len(positions) == 1 or len(positions) > MAX_POSITIONS:
        return log.features
    return np.hstack([log.features, log.positions[:, None] == positions[None, 1:]])
