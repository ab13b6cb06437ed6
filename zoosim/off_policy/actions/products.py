"""Evaluate policies that choose one product per visit."""

import math
from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property, partial
from itertools import cycle
from types import MappingProxyType
from typing import Any

import numpy as np

from zoosim.core.blocks import RowSigns, block_sum, extremes, mapped
from zoosim.core.errors import DataError
from zoosim.core.types import Progress
from zoosim.logs.log import Log
from zoosim.models.linear_rewards import RewardModel
from zoosim.off_policy.actions.base import (
    ActionSpaceEvaluator,
    Estimated,
    PolicyEvaluation,
    VisitWeights,
)
from zoosim.off_policy.actions.product_weights import DrawnVisits, WeightsAndPredictions, weigh_and_predict
from zoosim.off_policy.diagnostics import ModelFigures, error_figures, unsupported_mass
from zoosim.off_policy.direct_method import DirectEstimate, DirectMethod
from zoosim.off_policy.estimators import single
from zoosim.off_policy.estimators.clipping import choose_limit
from zoosim.off_policy.estimators.single import DIRECT_METHOD
from zoosim.off_policy.estimators.terms import RowTerms, Terms, TermsByRow
from zoosim.off_policy.groups import Groups
from zoosim.off_policy.intervals.clusters import Clusters, ClusterSums, group_sums, standard_error
from zoosim.off_policy.models.reward_model import fit_reward_model
from zoosim.off_policy.overlap import Overlap, action_shares, overlap_of
from zoosim.off_policy.propensities.deterministic import n_planned_rows
from zoosim.off_policy.propensities.estimate import EstimatedPropensities
from zoosim.off_policy.targets.products import Target, make_target
from zoosim.off_policy.training import TrainingJob
from zoosim.off_policy.verdict import DISCREPANCY_ERRORS, ESS, Verdict, judge_direct

ESTIMATORS = ("dm", "ips", "clipped-ips", "snips", "dr", "sndr", "switch-dr", "shrunk-dr")
"""By name: direct method, (clipped, self-normalised) inverse propensity, (self-normalised, switch, shrunk) doubly
robust."""

BY_WEIGHTS = ("ips", "snips", "dr")
"""The default estimators that rest on importance weights."""

DEFAULT = (*BY_WEIGHTS, DIRECT_METHOD)
MODELLED = {"dr": single.doubly_robust, "sndr": single.self_normalised_dr}
LIMITED = {"switch-dr": single.switch_dr, "shrunk-dr": single.shrunk_dr}
"""Estimators by name: with a reward model, and with one and a limit on weights."""

FORMS: Mapping[str, Callable[..., Terms]] = {
    "ips": single.ips,
    "clipped-ips": single.clipped_ips,
    "snips": single.self_normalised_ips,
    **MODELLED,
    **LIMITED,
}
"""All estimators but the direct method."""

NEED_LINEAR_MODEL = (*MODELLED, *LIMITED)
NEED_MODEL = (DIRECT_METHOD, *NEED_LINEAR_MODEL)
WITHOUT_MODEL = tuple(name for name in ESTIMATORS if name not in NEED_MODEL)
UNLIMITED = {"clipped-ips": "ips", "switch-dr": "dr", "shrunk-dr": "dr"}
"""Of estimators with a limit on weights, which the log chooses, the one that has none."""


class ProductEvaluator(ActionSpaceEvaluator):
    """Evaluates policies on logs of single products."""

    estimators = ESTIMATORS
    default = DEFAULT
    can_train = True
    can_spread = True
    estimates_propensities = True

    def prepare(self, given: Any, progress: Progress) -> Callable[[], PolicyEvaluation]:
        """Check a policy; one that is to learn first is checked when it has."""
        if isinstance(given, TrainingJob):
            return lambda: self._evaluate(make_target(given.run(progress), self.log, progress), progress)
        return partial(self._evaluate, make_target(given, self.log, progress), progress)

    def _evaluate(self, target: Target, progress: Progress) -> PolicyEvaluation:
        needs_model = target.whole and not set(self.wanted).isdisjoint(NEED_LINEAR_MODEL)
        direct, notes = self._direct_or_note() if target.whole and DIRECT_METHOD in self.wanted else (None, ())
        visits = None if direct is None else DrawnVisits(direct.visits, direct.uniforms)
        models = self._models if needs_model else []
        arrays = weigh_and_predict(self.log, target, models, visits, progress=progress, spread=self.spread)
        rewards = ("", *self.log.other_rewards)  # the objective has no name of its own here
        by_reward = dict(zip(rewards, arrays if len(arrays) > 1 else cycle(arrays), strict=False))
        predicted = {}
        if direct is not None and arrays[0].drawn is not None:
            predicted = dict(zip(rewards, direct.estimate(arrays[0].drawn), strict=True))
        evaluation = ProductEvaluation(self.log, self.clusters, by_reward, self.propensities, predicted)
        evaluation.notes = (*notes, *target.notes)
        if self.propensities is not None and target.whole:
            planned = target.distributions(self.log, 0, n_planned_rows(self.log))
            evaluation.chances = planned.matrix(self.log.n_actions)
        return evaluation

    def _direct_or_note(self) -> tuple[DirectMethod | None, tuple[str, ...]]:
        """Return the direct method, or None and why it is left out; raises `DataError` where it is asked for alone."""
        try:
            return self._direct, ()
        except DataError as error:
            if set(self.wanted) == {DIRECT_METHOD}:
                raise
            return None, (f"{DIRECT_METHOD} is left out: {error}",)

    @cached_property
    def _direct(self) -> DirectMethod:
        """The direct method on the objective and on the log's other rewards."""
        return DirectMethod(self.log, self.clusters, self.earlier)

    @cached_property
    def _models(self) -> list[RewardModel]:
        """The reward models of the objective and of the log's other rewards."""
        logs = [self.log, *map(self.log.for_reward, self.log.other_rewards)]
        return [fit_reward_model(log, self.clusters) for log in logs]


class ProductEvaluation(PolicyEvaluation):
    """A policy of single products, by one `reward` of the log, "" for the objective.

    The same weights serve all estimators and all rewards; `arrays` and what the direct method has `predicted` are by
    reward.
    """

    def __init__(
        self,
        log: Log,
        clusters: Clusters,
        arrays: Mapping[str, WeightsAndPredictions],
        propensities: EstimatedPropensities | None = None,
        predicted: Mapping[str, DirectEstimate] = MappingProxyType({}),
        reward: str = "",
    ) -> None:
        own = arrays[reward]
        can_model = own.mass is not None
        known = [name for name in ESTIMATORS if name in WITHOUT_MODEL or (can_model and own.predicted is not None)]
        known = [name for name in known if name != DIRECT_METHOD]
        super().__init__(log, clusters, [DIRECT_METHOD, *known] if predicted else known)
        self._arrays = own
        self._by_reward = (arrays, predicted)
        self._predicted = predicted.get(reward)
        self._propensities = propensities
        mass = own.missed
        worst = None
        if own.mass is not None:
            mass, worst = unsupported_mass(log.actions, own.weights, own.mass, len(log))
        self._weights = VisitWeights(
            own.weights,
            clusters,
            mass,
            None if worst is None else log.action_name(worst),
            largest_possible=max(1.0 / _least_propensity(log), float(extremes(own.weights)[1])),
        )

    def for_reward(self, name: str) -> "ProductEvaluation":
        """Return the evaluation by one of the log's other rewards."""
        evaluation = copy(self)
        arrays, predicted = self._by_reward
        evaluation.log = self.log.for_reward(name)
        evaluation._arrays = arrays[name]
        evaluation._predicted = predicted.get(name)
        return evaluation

    def weights(self, estimator: str) -> VisitWeights:
        """Return the weights of the logged products."""
        return self._weights

    def terms(self, estimator: str) -> RowTerms:
        """Return the terms of an estimate; their spread holds the error of estimated probabilities, too.

        That of the direct method holds how far weighted residuals find its reward model off, beyond chance.
        """
        terms = super().terms(estimator)
        if self._propensities is None:
            return self._with_model_bias(terms) if estimator == DIRECT_METHOD else terms
        own = terms.at(slice(None))
        without = self.terms_with(estimator, np.zeros(len(self.log))).at(slice(None))
        # What an estimate is without weights does not rest on propensities; the difference is what weights carry.
        base = own.base + self._propensities.error_terms(own.base - without.base)
        if own.top is None or own.bottom is None:
            return Terms(base)
        # Both sums of a self-normalised estimate are in proportion to the weights.
        top = own.top + self._propensities.error_terms(own.top)
        return Terms(base, top, own.bottom + self._propensities.error_terms(own.bottom))

    def _with_model_bias(self, terms: RowTerms) -> RowTerms:
        """Return terms of the direct method whose spread holds its bias, as far as the log's weights can tell of one.

        What residuals add to the value varies by chance and by the bias: its square, less that of the standard error,
        is the bias squared. It is spread over the rows with signs of their own; those of two policies go together.
        """
        correction, error = self._model_correction(standard_error(group_sums(self.clusters, terms)))
        if self._weights.figures.ess < ESS.useless or abs(correction) <= DISCREPANCY_ERRORS.weak * error:
            return terms
        bias = math.copysign(math.sqrt(correction**2 - error**2), correction)
        n = len(self.log)
        signs = RowSigns(n, "model bias")
        mean = block_sum(signs) / n

        def biased(rows: Any) -> Terms:
            own = terms.at(rows)
            # The mean of n terms of size |bias| sqrt(n) has the standard error |bias|; less their mean, the value
            # stays.
            return own._replace(base=own.base + bias * math.sqrt(n) * (signs[rows] - mean))

        return TermsByRow(n, biased)

    def _model_correction(self, own_error: float) -> tuple[float, float]:
        """Return what weighted residuals of its held-out rows add to the direct method's value, and the error of both.

        Args:
            own_error: The standard error of the direct method's value.
        """
        assert self._predicted is not None
        rows = self._predicted.held_out
        residuals = self.log.rewards[rows] - self._predicted.predicted
        # Rows that are not held out count 0 here, so the mean over all rows is scaled up to one over the held-out rows.
        added = len(self.log) / len(rows) * self._weights.values[rows] * residuals
        sizes = self.clusters.sizes
        no_ratio = (np.zeros(len(sizes)), sizes)
        by_group = np.bincount(self.clusters.group[rows], added, len(sizes)).astype(np.float64)
        correction = ClusterSums(sizes, by_group, (no_ratio, no_ratio))
        return correction.value, math.hypot(standard_error(correction), own_error)

    def terms_with(self, estimator: str, weights: Any) -> RowTerms:
        """Return the terms of an estimate with other `weights (n,)`; the direct method has none."""
        if estimator == DIRECT_METHOD:
            assert self._predicted is not None
            return self._predicted.terms
        return estimate(estimator, self.log.rewards, self._arrays._replace(weights=weights))

    def overlap(self, groups: Groups) -> Overlap:
        """Return where the weights lie, by category of products, too."""
        log = self.log
        weights = self._arrays.weights
        shares = action_shares(log, log.actions, weights, len(log), self._arrays.mass)
        return overlap_of(weights, shares, groups, log, by_category=True)

    def bias(self, estimator: str, value: float, error: float) -> float:
        """Compare with the estimator that does not limit weights."""
        if estimator not in UNLIMITED or not error > 0.0:
            return 0.0
        return abs(self.terms(UNLIMITED[estimator]).value - value) / error

    def support(self, estimator: str) -> Any:
        """Return by which rows an estimate stands or falls: by their weights, or by predictions like its own."""
        if estimator == DIRECT_METHOD:
            assert self._predicted is not None
            return self._predicted.support
        return super().support(estimator)

    def verdict(self, estimator: str, estimated: Estimated) -> Verdict:
        """Judge an estimate; the direct method by what held-out rows and the weights say of its reward model."""
        if estimator != DIRECT_METHOD:
            return super().verdict(estimator, estimated)
        assert self._predicted is not None
        errors = error_figures(estimated.sums, None, estimated.drift)
        own_terms = self.terms_with(estimator, self._weights.values)
        correction, correction_error = self._model_correction(standard_error(group_sums(self.clusters, own_terms)))
        model = ModelFigures(
            rewards=estimated.rewards,
            unsupported=self._predicted.unsupported,
            unseen=self._predicted.unseen,
            gap=self._predicted.gap,
            correction=correction,
            correction_error=correction_error,
            is_bias_in_error=self._propensities is None,
        )
        n_clusters = self.clusters.n_clusters
        return judge_direct(model, errors, estimated.interval, n_clusters, estimated.weights.ess, estimated.min_groups)


def _least_propensity(log: Log) -> float:
    """Return the least probability that an action of a log had, by whichever candidates."""
    return float(extremes(log.propensities if log.marginals is None else log.marginals)[0])


def estimate(estimator: str, rewards: Any, arrays: WeightsAndPredictions) -> TermsByRow:
    """Return the terms of an estimator by name; `arrays` hold predictions where it needs a reward model."""
    weights = arrays.weights
    limits: tuple[float, ...] = ()
    if estimator in UNLIMITED:
        residuals = rewards
        if estimator in LIMITED:
            residuals = mapped(np.subtract, rewards, arrays.predicted)
        limits = (choose_limit(estimator, weights, residuals),)

    def at(rows: Any) -> Terms:
        if estimator in WITHOUT_MODEL:
            return FORMS[estimator](weights[rows], rewards[rows], *limits)
        assert arrays.predicted is not None
        assert arrays.expected is not None
        return FORMS[estimator](weights[rows], rewards[rows], arrays.predicted[rows], arrays.expected[rows], *limits)

    return TermsByRow(len(weights), at)
