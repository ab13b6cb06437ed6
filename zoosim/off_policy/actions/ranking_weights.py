"""Importance weights and model predictions of each visit of a log of rankings, for a target policy."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from zoosim.core.action_space import PRODUCTS
from zoosim.core.distributions import Distributions
from zoosim.core.errors import DataError, PolicyError
from zoosim.core.types import FloatArray, frozen_parts, frozen_view
from zoosim.logs.log import Log
from zoosim.logs.positions import at_position
from zoosim.logs.schema import MARGINAL
from zoosim.models.linear_rewards import FOLDS, RewardModel, model_terms
from zoosim.off_policy.actions.product_weights import WeightsAndPredictions, weigh_and_predict
from zoosim.off_policy.intervals.clusters import Clusters
from zoosim.off_policy.models.reward_model import fit_reward_model
from zoosim.off_policy.targets.products import Target
from zoosim.off_policy.targets.rankings import RankingTarget


class ModelPredictions(NamedTuple):
    """A reward model's predictions for the shown products, and their means under the target, each `(n, L)`."""

    predicted: FloatArray
    expected: FloatArray


class ImportanceWeights(NamedTuple):
    """Weights `(n, L)`, and, where all probabilities are known, the target's mass `(L, K)` on products by position."""

    weights: FloatArray
    mass: FloatArray | None


class PositionWeights(NamedTuple):
    """Weights by marginal probabilities, and predictions of each position by its own product where there are any."""

    weights: ImportanceWeights
    predictions: ModelPredictions | None


def weigh(log: Log, target: RankingTarget) -> ImportanceWeights:
    """Weigh positions by the probabilities given those above.

    The mass at a position is that which the weights above it leave.
    """
    n = len(log)
    positions = log.n_positions
    weights = np.empty((n, positions))
    mass = np.zeros((positions, log.n_actions))
    above = np.ones(n)
    for place in range(positions):
        view = at_position(log, place)
        given_above = target.at(log, place)
        weights[:, place] = _at(view, given_above, place)[0].weights
        if target.whole:
            mass[place] = np.einsum("i,ik->k", above, given_above.distributions(view, 0, n).matrix(log.n_actions))
        above = above * weights[:, place]
    return ImportanceWeights(weights, mass if target.whole else None)


def predict(logs: Sequence[Log], target: RankingTarget, clusters: Clusters) -> list[ModelPredictions]:
    """Predict what positions l and below earn after what was shown down to l, from the lowest position up.

    A position's label is its reward and what the target would make of those below, predicted by the model that is to
    leave out the same fold: no row is predicted by what has seen it (fitted Q evaluation, Le et al. 2019). `logs` are
    one with several rewards; the target is asked once.
    """
    log = logs[0]
    n = len(log)
    positions = log.n_positions
    predictions = [ModelPredictions(np.empty((n, positions)), np.empty((n, positions))) for _ in logs]
    later = [np.zeros((FOLDS, n)) for _ in logs]
    for place in reversed(range(positions)):
        view = at_position(log, place)
        given_above = target.at(log, place)
        models = []
        for by_reward, below in zip(logs, later, strict=True):
            rewards = np.ascontiguousarray(by_reward.rewards[:, place])
            labels = rewards + below if place + 1 < positions else None
            models.append(fit_reward_model(replace(view, rewards=rewards), clusters, labels=labels))
        for prediction, at_place in zip(predictions, _at(view, given_above, place, models), strict=True):
            assert at_place.predicted is not None
            assert at_place.expected is not None
            prediction.predicted[:, place] = at_place.predicted
            prediction.expected[:, place] = at_place.expected
        if place:
            probabilities = given_above.distributions(view, 0, n)
            later = [_expected_by_fold(model, view, probabilities) for model in models]
    return predictions


def weigh_positions(
    logs: Sequence[Log], target: RankingTarget, clusters: Clusters, with_model: bool
) -> list[PositionWeights]:
    """Weigh positions by marginal probabilities; `with_model`, predict each one's reward by its own product.

    `logs` are one with several rewards.
    """
    log = logs[0]
    # With one position there is nothing above it, and both probabilities are the same.
    logged = log.propensities if log.n_positions == 1 else log.marginals
    if logged is None:
        raise DataError(f"{log.source}: independent estimators need the column {MARGINAL}propensity of the log")
    with_model = with_model and target.whole
    by_position = []
    for place, position_target in enumerate(target.whatever_above(log)):
        view = replace(
            log,
            action_space=PRODUCTS,
            actions=log.actions[:, place].copy(),
            propensities=logged[:, place].copy(),
        )
        models = []
        if with_model:
            views = [replace(view, rewards=each.rewards[:, place].copy()) for each in logs]
            models = [fit_reward_model(each, clusters) for each in views]
        by_position.append(_at(view, position_target, place, models))
    return [_stacked(arrays, target.whole, with_model) for arrays in zip(*by_position, strict=True)] * (
        1 if with_model else len(logs)
    )


def _stacked(by_position: Sequence[WeightsAndPredictions], whole: bool, with_model: bool) -> PositionWeights:
    """Put what is known of each position side by side."""
    weights, predicted, expected, mass, *_ = zip(*by_position, strict=True)
    predictions = None
    if with_model:
        predictions = ModelPredictions(np.stack(predicted, axis=1), np.stack(expected, axis=1))
    masses = np.array(mass) if whole else None
    return PositionWeights(ImportanceWeights(np.stack(weights, axis=1), masses), predictions)


def _at(view: Log, target: Target, position: int, models: Sequence[RewardModel] = ()) -> list[WeightsAndPredictions]:
    try:
        return weigh_and_predict(view, target, models)
    except PolicyError as error:
        raise PolicyError(f"position {position + 1}, {error}") from error


def _expected_by_fold(model: RewardModel, view: Log, probabilities: Distributions) -> FloatArray:
    """Return what each fold's model expects of every row `(F, n)`."""
    n = len(view)
    folds = len(model.coefficients)
    expected = np.empty((folds, n))
    unused = np.empty(n)
    actions = frozen_view(view.actions)
    asked = frozen_parts(probabilities)
    for fold in range(folds):
        by_fold = frozen_parts(model._replace(fold=np.full(n, fold, model.fold.dtype)))
        model_terms(by_fold, 0, actions, asked, unused, expected[fold])
    return expected
