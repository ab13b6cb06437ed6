"""Policies that show one action a visit, judged by a log."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

from zoosim.core.types import FloatArray, Progress
from zoosim.logs.log import Log
from zoosim.models.linear_rewards import RewardModel
from zoosim.off_policy.actions.base import Bounded, Estimated, Judgement, Kind, refuse_bandwidth
from zoosim.off_policy.actions.product_weights import Judged, judge
from zoosim.off_policy.diagnostics import (
    WeightFigures,
    cut_weights,
    error_figures,
    lost_choices,
    model_figures,
    weight_figures,
)
from zoosim.off_policy.estimators import single
from zoosim.off_policy.estimators.clipping import choose_limit
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.groups import Groups
from zoosim.off_policy.intervals.clusters import Clusters, group_sums
from zoosim.off_policy.models.reward_model import fit_reward_model
from zoosim.off_policy.overlap import Overlap, action_shares, overlap_of
from zoosim.off_policy.targets.products import Target, make_target
from zoosim.off_policy.training import Training
from zoosim.off_policy.verdict import Verdict, judge_model, judge_weighted

ESTIMATORS = ("dm", "ips", "clipped-ips", "snips", "dr", "sndr", "switch-dr", "shrunk-dr")
"""By name: direct method, (clipped, self-normalised) inverse propensity, (self-normalised, switch, shrunk) doubly
robust."""

DEFAULT = ("ips", "snips", "dr")
NEED_MODEL = ("dm", "dr", "sndr", "switch-dr", "shrunk-dr")


class Actions(Kind):
    """Single actions."""

    estimators, default, unit = ESTIMATORS, DEFAULT, "rows"

    def __init__(self, log: Log, clusters: Clusters, wanted: Sequence[str], bandwidth: float | None) -> None:
        refuse_bandwidth(bandwidth)
        self.log, self.clusters, self.wanted = log, clusters, wanted

    def take(self, given: Any, progress: Progress) -> Callable[[], Judgement]:
        """Check a policy; those that know all probabilities get a reward model where an estimator needs one."""
        if isinstance(given, Training):
            return partial(self._train_and_judge, given, progress)
        return partial(self._judge, make_target(given, self.log, progress))

    def _train_and_judge(self, training: Training, progress: Progress) -> Judgement:
        return self._judge(make_target(training.run(progress), self.log, progress))

    def _judge(self, target: Target) -> Judgement:
        needed = target.whole and not set(self.wanted).isdisjoint(NEED_MODEL)
        return ActionJudgement(self.log, judge(self.log, target, self._model if needed else None), self.clusters)

    @cached_property
    def _model(self) -> RewardModel:
        return fit_reward_model(self.log, self.clusters)


class ActionJudgement(Judgement):
    """A policy of single actions; the same weights serve all estimators."""

    def __init__(self, log: Log, judged: Judged, clusters: Clusters) -> None:
        super().__init__(clusters, ESTIMATORS if judged.predicted is not None else _without_model())
        self.log, self.judged = log, judged

    def terms(self, estimator: str) -> Terms:
        """Return what an estimator comes to."""
        return estimate(estimator, self.log.rewards, self.judged)

    def cut(self, estimator: str) -> Terms:
        """Return the same with the largest weights cut."""
        return estimate(estimator, self.log.rewards, self._cut)

    @cached_property
    def _cut(self) -> Judged:
        return self.judged._replace(weights=cut_weights(self.judged.weights))

    def figures(self, estimator: str) -> WeightFigures:
        """Return figures of the weights."""
        return self._figures

    @cached_property
    def _figures(self) -> WeightFigures:
        weights, mass = self.judged.weights, self.judged.mass
        lost = (None, None) if mass is None else lost_choices(self.log.actions, weights, mass, len(self.log))
        return weight_figures(weights, self.clusters, *lost)

    def bounded(self) -> Bounded:
        """Return the weights and the rewards."""
        return Bounded(self.judged.weights, self.log.rewards)

    def overlap(self, groups: Groups) -> Overlap:
        """Return where the weights lie."""
        log, weights = self.log, self.judged.weights
        shares = action_shares(log.actions, weights, log.n_actions, len(log), self.judged.mass)
        return overlap_of(weights, shares, groups, log)

    def verdict(self, estimator: str, found: Estimated) -> Verdict:
        """Judge an estimate; the direct method by what weights say of its model."""
        if estimator == "dm":
            return self._verdict_on_model(found)
        errors, bias = error_figures(found.sums, self.cut(estimator).value, found.moved), 0.0
        full = {"clipped-ips": "ips", "switch-dr": "dr", "shrunk-dr": "dr"}.get(estimator)
        if full is not None and errors.error > 0.0:
            bias = abs(self.terms(full).value - found.sums.value) / errors.error
        return judge_weighted(found.weights, errors, found.interval, self.clusters.n_clusters, bias, found.carriers)

    def _verdict_on_model(self, found: Estimated) -> Verdict:
        rest = (found.interval, self.clusters.n_clusters)
        model = model_figures(self.log.rewards, self.judged, self.clusters)
        checked = error_figures(group_sums(self.clusters, self.terms("dr")), None)
        weighted = judge_weighted(found.weights, checked, *rest, carriers=found.carriers)
        return judge_model(model, error_figures(found.sums, None, found.moved), *rest, weighted, found.carriers)


def _without_model() -> tuple[str, ...]:
    return tuple(name for name in ESTIMATORS if name not in NEED_MODEL)


def estimate(estimator: str, rewards: FloatArray, judged: Judged) -> Terms:
    """Return the terms of an estimator by name; `judged` holds guesses where it needs a reward model."""
    weights = judged.weights
    if judged.predicted is None or judged.expected is None:
        if estimator == "ips":
            return single.ips(weights, rewards)
        if estimator == "snips":
            return single.self_normalised_ips(weights, rewards)
        return single.clipped_ips(weights, rewards, choose_limit("clipped-ips", weights, rewards))
    arrays = (weights, rewards, judged.predicted, judged.expected)
    if estimator in ("ips", "snips", "clipped-ips"):
        return estimate(estimator, rewards, Judged(weights))
    if estimator == "dm":
        return single.direct_method(judged.expected)
    if estimator in ("dr", "sndr"):
        return {"dr": single.doubly_robust, "sndr": single.self_normalised_dr}[estimator](*arrays)
    limit = choose_limit(estimator, weights, rewards - judged.predicted)
    return {"switch-dr": single.switch_dr, "shrunk-dr": single.shrunk_dr}[estimator](*arrays, limit)
