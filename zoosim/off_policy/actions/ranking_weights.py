"""What a target policy and a reward model say of each visit of a log of rankings."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from zoosim.core.errors import DataError, PolicyError
from zoosim.core.types import FloatArray
from zoosim.logs.log import Log
from zoosim.logs.ranking_log import RankingLog
from zoosim.logs.ranking_reading import MARGINAL
from zoosim.models.linear_rewards import FOLDS, RewardModel, model_terms
from zoosim.off_policy.actions.product_weights import Judged, judge
from zoosim.off_policy.intervals.clusters import Clusters
from zoosim.off_policy.models.reward_model import fit_reward_model
from zoosim.off_policy.targets.products import LoggedColumn, Table, Target
from zoosim.off_policy.targets.rankings import RankedColumn, RankingTarget, marginals


class Guesses(NamedTuple):
    """A reward model's guesses for the shown actions, and their means under the target, each `(n, L)`."""

    predicted: FloatArray
    expected: FloatArray


class Weighed(NamedTuple):
    """Weights `(n, L)`, and, where all probabilities are known, the target's mass `(L, K)` on actions by position."""

    weights: FloatArray
    mass: FloatArray | None


class Alone(NamedTuple):
    """Positions weighed by marginal probabilities, with guesses of each by its own action where there are any."""

    weighed: Weighed
    guesses: Guesses | None


def weigh(log: RankingLog, target: RankingTarget | RankedColumn) -> Weighed:
    """Ask for probabilities given those above; the mass below is that which the weights above leave for it."""
    n, positions = len(log), log.n_positions
    weights, above = np.empty((n, positions)), np.ones(n)
    mass = np.zeros((positions, log.n_actions))
    for place in range(positions):
        view = log.at(place)
        given = _given(log, target, place)
        weights[:, place] = _judged(view, given, place).weights
        if isinstance(given, Table):
            mass[place] = np.einsum("i,ik->k", above, given.probabilities(view, 0, n))
        above = above * weights[:, place]
    return Weighed(weights, None if isinstance(target, RankedColumn) else mass)


def guess_on(log: RankingLog, target: RankingTarget, clusters: Clusters) -> Guesses:
    """Guess what positions l and below earn after what was shown down to l, from the lowest position up.

    A position's label is its reward and what the target would make of those below, guessed by the model that is to
    leave out the same fold: no row is guessed by what has seen it (fitted Q evaluation, Le et al. 2019).
    """
    n, positions = len(log), log.n_positions
    predicted, expected, later = np.empty((n, positions)), np.empty((n, positions)), np.zeros((FOLDS, n))
    for place in reversed(range(positions)):
        view, given = log.at(place), _given(log, target, place)
        model = fit_reward_model(view, clusters, labels=view.rewards + later if place + 1 < positions else None)
        judged = _judged(view, given, place, model)
        assert judged.predicted is not None
        assert judged.expected is not None
        predicted[:, place], expected[:, place] = judged.predicted, judged.expected
        if place:
            later = _expected_by_fold(model, view, given.probabilities(view, 0, n))
    return Guesses(predicted, expected)


def weigh_alone(log: RankingLog, target: RankingTarget | RankedColumn, clusters: Clusters, guess: bool) -> Alone:
    """Weigh positions by marginal probabilities, and guess the reward of each by its own action where asked for."""
    positions = log.n_positions
    told = log.propensities if positions == 1 else log.marginals
    if told is None:
        raise DataError(f"{log.source}: independent estimators need the column {MARGINAL}propensity of the log")
    given = _marginals_of(log, target)
    found = []
    for place in range(positions):
        view = replace(log.at(0), actions=log.actions[:, place].copy(), propensities=told[:, place].copy())
        view = replace(view, rewards=log.rewards[:, place].copy())
        model = fit_reward_model(view, clusters) if guess and isinstance(given[place], Table) else None
        found.append(_judged(view, given[place], place, model))
    weights = np.stack([each.weights for each in found], axis=1)
    mass = [each.mass for each in found if each.mass is not None]
    predicted = [each.predicted for each in found if each.predicted is not None]
    expected = [each.expected for each in found if each.expected is not None]
    guesses = Guesses(np.stack(predicted, axis=1), np.stack(expected, axis=1)) if predicted else None
    return Alone(Weighed(weights, np.array(mass) if mass else None), guesses)


def _marginals_of(log: RankingLog, target: RankingTarget | RankedColumn) -> list[Target]:
    if isinstance(target, RankingTarget):
        return [Table(shown) for shown in marginals(log, target)]
    told = target.values if log.n_positions == 1 else target.marginals
    if told is None:
        raise DataError(f"independent estimators need the column {MARGINAL}NAME beside the column NAME of the target")
    return [LoggedColumn(np.ascontiguousarray(column)) for column in told.T]


def _given(log: RankingLog, target: RankingTarget | RankedColumn, position: int) -> Target:
    if isinstance(target, RankedColumn):
        return LoggedColumn(np.ascontiguousarray(target.values[:, position]))
    return Table(target.following(log, log.actions[:, :position], position))


def _judged(view: Log, given: Target, position: int, model: RewardModel | None = None) -> Judged:
    try:
        return judge(view, given, model)
    except PolicyError as error:
        raise PolicyError(f"position {position + 1}, {error}") from error


def _expected_by_fold(model: RewardModel, view: Log, probabilities: FloatArray) -> FloatArray:
    """Return what each fold's model expects of every row `(F, n)`."""
    n, folds = len(view), len(model.coefficients)
    out, unused = np.empty((folds, n)), np.empty(n)
    for fold in range(folds):
        own = model._replace(fold=np.full(n, fold, model.fold.dtype))
        model_terms(own, 0, view.actions, probabilities, unused, out[fold])
    return out
