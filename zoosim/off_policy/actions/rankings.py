"""Evaluate policies that choose a ranking per visit."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.types import FloatArray, Progress
from zoosim.logs.log import Log
from zoosim.off_policy.actions.base import ActionSpaceEvaluator, Bounded, PolicyEvaluation, VisitWeights
from zoosim.off_policy.actions.ranking_weights import (
    ImportanceWeights,
    ModelPredictions,
    PositionWeights,
    predict,
    weigh,
    weigh_positions,
)
from zoosim.off_policy.diagnostics import unsupported_mass
from zoosim.off_policy.estimators import rankings
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.groups import Groups
from zoosim.off_policy.intervals.clusters import Clusters
from zoosim.off_policy.overlap import Overlap, action_shares, overlap_of
from zoosim.off_policy.targets.rankings import RankingTarget, make_ranking_target

FAMILIES = STANDARD, CASCADE, INDEPENDENT = ("standard", "cascade", "independent")
ESTIMATORS = tuple(f"{family}-{form}" for family in FAMILIES for form in ("ips", "snips", "dr"))
DEFAULT = ("cascade-ips", "cascade-dr")


class RankingEvaluator(ActionSpaceEvaluator):
    """Evaluates policies on logs of rankings."""

    estimators = ESTIMATORS
    takes_models = False
    default = DEFAULT
    unit = "visits"

    def prepare(self, given: Any, progress: Progress) -> Callable[[], PolicyEvaluation]:
        """Check a policy; those that know all probabilities get a reward model where an estimator needs one."""
        return partial(self._evaluate, make_ranking_target(given, self.log, progress))

    def _evaluate(self, target: RankingTarget) -> PolicyEvaluation:
        log = self.log
        clusters = self.clusters
        logs = [log, *map(log.for_reward, log.other_rewards)]
        weights = weigh(log, target)
        predictions: Sequence[ModelPredictions | None] = [None] * len(logs)
        if target.whole and {"standard-dr", "cascade-dr"} & set(self.wanted):
            predictions = predict(logs, target, clusters)
        marginals: Sequence[PositionWeights | None] = [None] * len(logs)
        if any(name.startswith(INDEPENDENT) for name in self.wanted):
            marginals = weigh_positions(logs, target, clusters, with_model="independent-dr" in self.wanted)
        target.finish()
        by_reward = [
            RankingEvaluation(each, clusters, weights, predicted, marginal)
            for each, predicted, marginal in zip(logs, predictions, marginals, strict=True)
        ]
        by_reward[0].others = dict(zip(log.other_rewards, by_reward[1:], strict=True))
        return by_reward[0]


class _RankingWeights(NamedTuple):
    """Quantities that the estimators of a family rest on.

    `counted (n, L)` are the weights as they multiply rewards, `visits` their mean over a visit, by the share of the
    reward that each position earns; `start (n,)` is what the reward model alone expects of a visit, 0 without one.
    """

    counted: FloatArray
    visits: VisitWeights
    start: FloatArray


class RankingEvaluation(PolicyEvaluation):
    """A policy of rankings; `marginal` holds what the independent estimators need.

    `others` are its evaluations by the log's other rewards.
    """

    def __init__(
        self,
        log: Log,
        clusters: Clusters,
        weights: ImportanceWeights,
        predictions: ModelPredictions | None,
        marginal: PositionWeights | None,
    ) -> None:
        self.others: Mapping[str, RankingEvaluation] = {}
        self._weights = weights
        self._predictions = predictions
        self._marginal = marginal
        predictions_of = {STANDARD: predictions, CASCADE: predictions}
        if marginal is not None:
            predictions_of[INDEPENDENT] = marginal.predictions
        usable = [f"{family}-{form}" for family in predictions_of for form in ("ips", "snips")]
        usable += [f"{family}-dr" for family, predicted in predictions_of.items() if predicted is not None]
        super().__init__(log, clusters, usable)

    @cached_property
    def _shares(self) -> FloatArray:
        """The share of the logged reward that each position earns `(L,)`; equal shares where there is none."""
        earned = np.abs(self.log.rewards.mean(axis=0))
        return earned / earned.sum() if earned.sum() > 0.0 else np.full(len(earned), 1.0 / len(earned))

    @cached_property
    def _families(self) -> dict[str, _RankingWeights]:
        n, positions = self._weights.weights.shape
        mass = self._weights.mass
        down = self._weights.weights.cumprod(axis=1)
        # The weight of a position multiplies its own reward and those of all positions below.
        below = self._shares[::-1].cumsum()[::-1]
        start = np.zeros(n) if self._predictions is None else self._predictions.expected[:, 0]
        whole = np.repeat(down[:, -1:], positions, axis=1)
        whole_visits = self._visit_weights(down[:, -1].copy(), down, mass, np.ones(positions))
        cascade_visits = self._visit_weights((down * self._shares).sum(axis=1), down, mass, below)
        families = {
            STANDARD: _RankingWeights(whole, whole_visits, start),
            CASCADE: _RankingWeights(down, cascade_visits, start),
        }
        if self._marginal is not None:
            weights, mass = self._marginal.weights
            predictions = self._marginal.predictions
            start = np.zeros(n) if predictions is None else predictions.expected.sum(axis=1)
            visits = self._visit_weights((weights * self._shares).sum(axis=1), weights, mass, self._shares)
            families[INDEPENDENT] = _RankingWeights(weights, visits, start)
        return families

    def _visit_weights(
        self, values: FloatArray, weights: FloatArray, mass: FloatArray | None, importance: FloatArray
    ) -> VisitWeights:
        """Return weights of visits, and how much of the policy's choices they lack; a position counts `importance`."""
        if mass is None:
            return VisitWeights(values, self.clusters)
        log = self.log
        lost, worst = unsupported_mass(log.actions.ravel(), (importance * weights).ravel(), importance @ mass, len(log))
        return VisitWeights(values, self.clusters, lost, None if worst is None else log.action_name(worst))

    @property
    def shown_weights(self) -> FloatArray:
        """The importance weights of each product given those above it `(n, L)`."""
        return self._weights.weights

    def for_reward(self, name: str) -> "RankingEvaluation":
        """Return the evaluation by one of the log's other rewards."""
        return self.others[name]

    def weights(self, estimator: str) -> VisitWeights:
        """Return the weights of the visits."""
        return self._families[estimator.partition("-")[0]].visits

    def terms(self, estimator: str) -> Terms:
        """Return the terms of an estimate."""
        family, _, form = estimator.partition("-")
        rewards = self.log.rewards
        counted = self._families[family].counted
        if form == "snips":
            return rankings.self_normalised_ips(counted, rewards)
        if family == INDEPENDENT:
            predictions = None if self._marginal is None else self._marginal.predictions
            if form == "ips" or predictions is None:
                return rankings.independent_ips(counted, rewards)
            return rankings.independent_dr(counted, rewards, *predictions)

        weights = self._weights.weights
        if form == "ips" or self._predictions is None:
            ips = rankings.standard_ips if family == STANDARD else rankings.cascade_ips
            return ips(weights, rewards)
        predicted, expected = self._predictions
        if family == CASCADE:
            return rankings.cascade_dr(weights, rewards, predicted, expected)
        # The model's prediction of the whole ranking: what it expects at
        # first, plus what each product shown adds to that.
        start = expected[:, 0].copy()
        return rankings.standard_dr(weights, rewards, start + (predicted - expected).sum(axis=1), start)

    def terms_with(self, estimator: str, weights: FloatArray) -> Terms:
        """Return the terms of an estimate where the weights of whole visits are `weights (n,)` instead."""
        terms = self.terms(estimator)
        family = self._families[estimator.partition("-")[0]]
        full = family.visits.values
        # A visit whose weight is cut counts by the same share at all of its positions.
        kept = np.divide(weights, full, out=np.zeros_like(full), where=full > 0.0)
        if terms.top is not None and terms.bottom is not None:
            return Terms(terms.base, kept * terms.top, kept * terms.bottom)
        start = family.start if estimator.endswith("-dr") else 0.0
        return Terms(start + kept * (terms.base - start))

    def bounded(self) -> Bounded:
        """Return the weights of whole rankings, which need no assumption, and what the visits earned."""
        return Bounded(self._families[STANDARD].visits.values, self.log.visit_rewards)

    def overlap(self, groups: Groups) -> Overlap:
        """Return where the weights lie: products at any position, weighted down to it."""
        log = self.log
        family = self._families[CASCADE]
        mass = None if self._weights.mass is None else self._weights.mass.sum(axis=0)
        shares = action_shares(log, log.actions.ravel(), family.counted.ravel(), log.actions.size, mass)
        return overlap_of(family.visits.values, shares, groups, log)
