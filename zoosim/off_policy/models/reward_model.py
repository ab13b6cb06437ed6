"""The reward model of the doubly robust estimators: no row is predicted by a model that has seen its user."""

import math
from typing import Any

import numpy as np

from zoosim.core.arrays import evenly_spread
from zoosim.core.blocks import block_unique, mapped
from zoosim.core.types import FloatArray
from zoosim.logs.log import Log
from zoosim.models.linear_rewards import FOLDS, RewardModel, fit_linear_model, shared_first
from zoosim.off_policy.intervals.clusters import Clusters
from zoosim.off_policy.models.mixed_model import MOST_WORK
from zoosim.policies.from_log.traits import MOST_TRAITS, find_traits

MAX_POSITIONS = 20

WORK_OF_TRAITS = 5e6
"""Products times the cube of what visitors are described by, where features would be too many: some 2 s."""

MOST_LOOKED_AT = 50_000
"""Rows by which it is settled what visitors differ in most."""


def fit_reward_model(log: Log, clusters: Clusters, labels: FloatArray | None = None) -> RewardModel:
    """Fit to a log with folds of whole clusters; raises `ConfigError` for more actions and features than memory takes.

    The amount of shrinkage is chosen without the fold, too, by the squared error on the others in turn. `labels (F, n)`
    stand for the rewards where the model without each fold is to learn its own. Where there are so many products that
    a model of each would take too long, visitors are described by what they differ in most. In a large catalogue of
    which rows list candidates, those that no row shows have one model together: that of all products.
    """
    rewards = [log.rewards] if labels is None else list(labels)
    fold = mapped(lambda group: group % FOLDS, clusters.group, dtype=np.int64)
    actions = log.actions
    n_models = log.n_actions
    columns = np.zeros(0, np.int64)
    if log.candidates.are_listed:
        seen = block_unique(log.actions)
        actions = mapped(lambda block: np.asarray(np.searchsorted(seen, block)), log.actions, dtype=np.int64)
        n_models = len(seen) + 1
        columns = np.full(log.n_actions, len(seen))
        columns[seen] = np.arange(len(seen))
    inputs = _thinned(_inputs(log), n_models)
    model = fit_linear_model(inputs, actions, rewards, n_models, fold, FOLDS, shared_first(None))
    return model._replace(columns=columns)


def _inputs(log: Log) -> Any:
    """Return the features and, where rows stand at several positions, a column a position `(n, d)`."""
    positions = block_unique(log.positions)
    if len(positions) == 1 or len(positions) > MAX_POSITIONS:
        return log.features

    def joined(features: FloatArray, position: FloatArray) -> FloatArray:
        return np.hstack([features, position[:, None] == positions[None, 1:]])

    return mapped(joined, log.features, log.positions, width=log.features.shape[1] + len(positions) - 1)


def _thinned(inputs: Any, n_actions: int) -> Any:
    """Return `inputs (n, d)`, or fewer columns `(n, p)` where a model of each action would be too much work."""
    most = n_columns(inputs.shape[1], n_actions)
    if most == inputs.shape[1]:
        return inputs
    traits = find_traits(inputs[evenly_spread(len(inputs), MOST_LOOKED_AT)])
    weights = traits.weights[:, :most]
    return mapped(lambda block: (block - traits.mean) @ weights, inputs, width=weights.shape[1])


def n_columns(n_inputs: int, n_actions: int) -> int:
    """Return by how many columns visitors are described."""
    if n_actions * (1.0 + n_inputs) ** 3 <= MOST_WORK:
        return int(n_inputs)
    most = max(1, math.floor((WORK_OF_TRAITS / n_actions) ** (1 / 3)) - 1)
    return int(min(n_inputs, most, MOST_TRAITS))
