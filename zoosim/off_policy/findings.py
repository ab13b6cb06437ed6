"""Estimate policies one after another, each reward beside the other, and collect the results."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.blocks import mapped, row_blocks
from zoosim.core.errors import DataError
from zoosim.core.statistics import Interval, cut
from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.off_policy.actions.base import Estimated, PolicyEvaluation, evaluator_for
from zoosim.off_policy.checks.checks import LogChecks, PolicyChecks
from zoosim.off_policy.checks.estimators import compare_estimators
from zoosim.off_policy.compare import Compared, EstimateComparison
from zoosim.off_policy.diagnostics import Drift, RewardCount, drift_between_halves
from zoosim.off_policy.estimators.terms import RowTerms, Terms, Totals, divides_by_nothing
from zoosim.off_policy.evidence import count_rewards, rewarded_rows
from zoosim.off_policy.groups import Groups
from zoosim.off_policy.intervals.bootstrap import bootstraps
from zoosim.off_policy.intervals.clusters import (
    Clusters,
    ClusterSums,
    go_together,
    group_sums,
    halved_sums,
    make_clusters,
)
from zoosim.off_policy.intervals.intervals import (
    asymptotic_interval,
    bernstein_interval,
    bootstrap_interval,
    checked_range,
)
from zoosim.off_policy.intervals.sequences import SequenceEnds
from zoosim.off_policy.options import EvaluationOptions
from zoosim.off_policy.overlap import Overlap
from zoosim.off_policy.propensities.deterministic import plan_randomisation
from zoosim.off_policy.propensities.estimate import EstimatedPropensities
from zoosim.off_policy.results import Evaluation, Result
from zoosim.off_policy.verdict import (
    DO_NOT_USE,
    EFFECTIVE_GROUPS,
    EFFECTIVE_GROUPS_ASYMPTOTIC,
    TRUST,
    WEAK,
    WORDS,
    Verdict,
)

MOST_APART = 5_000_000
"""Users or rows that are summed up apart where rows are read in blocks: 16 bytes of memory for each."""

NOTHING = Interval(math.nan, None, None)
NO_OVERLAP = "no overlap: the policy never chooses a logged action"
GROUPED_ROWS = "rewards are correlated within users; use bernstein"
GUESSED_RANGE = "the interval assumes that rewards stay in the range seen in this log; pass reward_range=(low, high)"
ESTIMATED = "probabilities were estimated: right only where choices went by the log's features and by chance"
UNCHECKED = "the log is deterministic: the value is what a reward model believes, and hardly a row can check it"


class Estimate(NamedTuple):
    """A result, and the sums by group that it comes from; None where there is no estimate."""

    result: Result
    sums: ClusterSums | None


class EstimateCollector:
    """Collects estimates of policies, for the objective and for each other reward of a log.

    Args:
        log: The log.
        clusters: Which of its visits belong together.
        unit: What it counts.
        options: How to estimate.
        compare: Whether to compare the policies, too.
        estimated: Where the log's propensities were estimated, what is known of it.
    """

    def __init__(
        self,
        log: Log,
        clusters: Clusters,
        unit: str,
        options: EvaluationOptions,
        compare: bool,
        estimated: EstimatedPropensities | None,
    ) -> None:
        self._log = log
        self._options = options
        self._estimated = estimated
        self._objective = _RewardFindings(log, clusters, unit, options, compare, log.objective)
        self._others = {}
        for name in log.other_rewards:
            other = log.for_reward(name)
            self._others[name] = _RewardFindings(other, clusters, unit, options.for_log(other), compare, name)
        self._chances: dict[str, FloatArray] = {}

    def add(self, name: str, evaluated: PolicyEvaluation, groups: Groups | None) -> None:
        """Estimate what a policy earns of each reward; with `groups` of rows, where its weights lie, too."""
        self._objective.add(name, evaluated, groups)
        for reward, findings in self._others.items():
            findings.add(name, evaluated.for_reward(reward), None)
        if evaluated.chances is not None:
            self._chances[name] = evaluated.chances

    def evaluation(self, finished: Sequence[str]) -> Evaluation:
        """Return what was found of the policies that are finished."""
        evaluation = self._objective.evaluation(finished)
        others = {name: findings.evaluation(finished) for name, findings in self._others.items()}
        propensities = None if self._estimated is None else self._estimated.figures
        evaluation = replace(evaluation, others=others, propensities=propensities)
        if not self._options.is_deterministic:
            return evaluation
        chances = {name: self._chances[name] for name in finished}
        values = {row.policy: row.value for row in evaluation.results}
        plans = plan_randomisation(self._log, chances, values, self._options.level)
        return replace(evaluation, is_deterministic=True, randomisation=plans)


class _RewardFindings:
    """Collects estimates of one reward, of one policy after another."""

    def __init__(
        self, log: Log, clusters: Clusters, unit: str, options: EvaluationOptions, compare: bool, reward: str
    ) -> None:
        logged = group_sums(clusters, Terms(log.visit_rewards))
        self._log = log
        self._options = options
        self._reward = reward
        self._n_clusters = clusters.n_clusters
        self._unit = unit
        self._checks = None
        if evaluator_for(log).checks_rows and not options.is_deterministic:
            self._checks = LogChecks(log, clusters, are_estimated=options.propensity_model is not None)
        interval = bootstrap_interval(logged, options.level, samples=options.samples, seed=options.seed)
        self._logged = cut(interval, options.limits)
        self._comparison = EstimateComparison(logged, options) if compare else None
        self._results: list[Result] = []
        self._overlaps: dict[str, Overlap] = {}
        self._notes: dict[str, tuple[str, ...]] = {}

    def add(self, name: str, evaluated: PolicyEvaluation, groups: Groups | None) -> None:
        """Estimate what a policy earns; with `groups` of rows, where its weights lie, too."""
        estimates = _estimates(name, evaluated, self._options, self._checks)
        if groups is not None:
            self._overlaps[name] = evaluated.overlap(groups)
        self._notes[name] = evaluated.notes
        for result, sums in estimates:
            self._results.append(result)
            if self._comparison is not None and sums is not None and result.is_comparable:
                self._comparison.add(name, result.estimator, sums, result.verdict)

    def evaluation(self, finished: Sequence[str]) -> Evaluation:
        """Return what was found of the policies that are finished."""
        results = tuple(row for row in self._results if row.policy in finished)
        compared = Compared()
        if self._comparison is not None:
            compared = self._comparison.compared(_comparable_values(results), finished)
        return Evaluation(
            results,
            compared.differences,
            self._logged,
            len(self._log),
            self._n_clusters,
            dict(self._log.skipped),
            self._log.source,
            ranking=compared.ranking,
            lifts=compared.lifts,
            overlaps={name: self._overlaps[name] for name in finished if name in self._overlaps},
            notes={name: self._notes[name] for name in finished},
            unit=self._unit,
            per_day=self._log.visits_per_day,
            reward=self._reward,
            level=self._options.level,
        )


def _comparable_values(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    """Return the values of estimates that can be compared, by estimator and policy."""
    values: dict[str, dict[str, float]] = {}
    for row in results:
        if row.is_comparable:
            values.setdefault(row.estimator, {})[row.policy] = row.value
    return values


def _estimates(
    policy: str, evaluated: PolicyEvaluation, options: EvaluationOptions, log_checks: LogChecks | None
) -> list[Estimate]:
    """Return the estimates of a policy's value, in the order of the options; raises `DataError` if there are none."""
    estimators = [estimator for estimator in options.estimators if estimator in evaluated.estimators]
    if not estimators:
        raise DataError(f"none of {', '.join(options.estimators)} can do with {evaluated.known} alone")
    rewards = {
        estimator: count_rewards(evaluated.log.visit_rewards, evaluated.support(estimator)) for estimator in estimators
    }
    sums_and_drifts = {}
    for estimator in estimators:
        sums_and_drift = _sums_and_drift(evaluated, estimator, options)
        if sums_and_drift is not None:  # None: every importance weight is 0
            sums_and_drifts[estimator] = sums_and_drift
    # One call for all estimators, because they share the bootstrap's resampling counts.
    intervals = _intervals([sums for sums, _ in sums_and_drifts.values()], evaluated, options)
    interval_of = dict(zip(sums_and_drifts, intervals, strict=True))
    general = _general_verdict(evaluated, options)
    checks = None
    log_verdicts: list[Verdict] = []
    if log_checks is not None:
        checks = PolicyChecks(log_checks, evaluated.weights(estimators[0]).values, evaluated.shown_weights)
        compared = compare_estimators({name: sums for name, (sums, _) in sums_and_drifts.items()})
        log_verdicts = [checks.verdict, compared, log_checks.verdict, log_checks.copies]
    min_groups = EFFECTIVE_GROUPS_ASYMPTOTIC if options.interval == "asymptotic" else EFFECTIVE_GROUPS

    estimates = []
    for estimator in estimators:
        weights = evaluated.weights(estimator).figures
        if estimator not in sums_and_drifts:
            no_overlap = Verdict(DO_NOT_USE, (NO_OVERLAP,))
            result = _result(policy, estimator, NOTHING, evaluated, rewards[estimator], no_overlap)
            estimates.append(Estimate(result, None))
            continue
        sums, drift = sums_and_drifts[estimator]
        interval = interval_of[estimator]
        estimated = Estimated(sums, weights, interval, rewards[estimator], drift, min_groups)
        if options.is_deterministic:
            verdict = Verdict(DO_NOT_USE, (UNCHECKED,))
        else:
            verdict = evaluated.verdict(estimator, estimated)
            if checks is not None:
                influence_of = _influence(evaluated.terms(estimator), sums)
                for check_verdict in (checks.estimate_verdict(influence_of, interval), *log_verdicts):
                    verdict = _worse_verdict(check_verdict, verdict)
            verdict = _worse_verdict(verdict, general)
        possible = cut(interval, options.limits)
        result = _result(policy, estimator, possible, evaluated, rewards[estimator], verdict)
        estimates.append(Estimate(result, sums))
    return estimates


def _worse_verdict(estimate: Verdict, general: Verdict) -> Verdict:
    """Return the graver word with both lists of reasons, the graver first (on a tie the general ones)."""
    if WORDS.index(estimate.word) > WORDS.index(general.word):
        return Verdict(estimate.word, (*estimate.reasons, *general.reasons))
    return Verdict(general.word, (*general.reasons, *estimate.reasons))


def _general_verdict(evaluated: PolicyEvaluation, options: EvaluationOptions) -> Verdict:
    """Return what speaks against the kind of interval and of propensities, whatever the estimate."""
    if options.interval == "sequence" and go_together(evaluated.clusters, mapped(np.multiply, *evaluated.bounded())):
        return Verdict(DO_NOT_USE, (GROUPED_ROWS,))
    reasons = [GUESSED_RANGE] * options.guessed_range + [ESTIMATED] * (options.propensity_model is not None)
    return Verdict(WEAK if reasons else TRUST, tuple(reasons))


def _result(
    policy: str, estimator: str, interval: Interval, evaluated: PolicyEvaluation, rewards: RewardCount, verdict: Verdict
) -> Result:
    figures = evaluated.weights(estimator).figures
    return Result(
        policy,
        estimator,
        *interval,
        figures.ess,
        figures.mean_weight,
        figures.max_weight,
        *verdict,
        effective_rewards=rewards.effective,
        expected_rewards=rewards.expected,
        rests_on=rewarded_rows(evaluated.log, evaluated.support(estimator)),
    )


def _sums_and_drift(
    evaluated: PolicyEvaluation, estimator: str, options: EvaluationOptions
) -> tuple[ClusterSums, Drift | None] | None:
    """Return an estimate as sums by group, and how it differs between the log's halves; None if all weights are 0."""
    terms = evaluated.terms(estimator)
    if divides_by_nothing(terms):
        return None
    sums, later = halved_sums(evaluated.clusters, terms, options.later)
    return sums, None if later is None else drift_between_halves(sums, later)


def _influence(terms: RowTerms, sums: ClusterSums) -> Callable[[IntArray], FloatArray]:
    """Return the function that gives the influence of rows, by their numbers, on an estimate with such sums."""
    top, bottom = (float(part.sum()) for part in sums.ratios[0])
    totals = Totals(float(sums.sizes.sum()), float(sums.base.sum()), top, bottom)
    return lambda rows: totals.influence(terms.at(rows))


def _intervals(
    estimates: Sequence[ClusterSums], evaluated: PolicyEvaluation, options: EvaluationOptions
) -> list[Interval]:
    if options.interval == "bootstrap":
        drawn = bootstraps(estimates, samples=options.samples, seed=options.seed)
        pairs = zip(estimates, drawn, strict=True)
        return [bootstrap_interval(sums, options.level, drawn=samples) for sums, samples in pairs]
    if options.interval == "asymptotic":
        return [asymptotic_interval(sums, options.level) for sums in estimates]
    bounds = _bounds(evaluated, options)
    return [bounds._replace(mean=sums.value) for sums in estimates]


def _bounds(evaluated: PolicyEvaluation, options: EvaluationOptions) -> Interval:
    """Return bounds of the policy's value, the same for all estimators."""
    weights, rewards = evaluated.bounded()
    log = evaluated.log
    if options.interval == "bernstein":
        if log.is_streamed and evaluated.clusters.n_clusters > MOST_APART:
            got = f"{evaluated.clusters.n_clusters:,} users or rows, expected {MOST_APART:,} at most"
            advice = "which bernstein sums up apart, where rows are read in blocks; take bootstrap or sequence"
            raise DataError(f"{log.source}: got {got}, {advice}")
        # Each user apart: the bound is as wide as the largest group's sum
        # can be, and groups of many users would widen it.
        units = make_clusters(len(weights), log.user_ids, max_groups=len(weights))
        return bernstein_interval(weights, rewards, options.reward_range, units, options.level)
    ends = SequenceEnds(checked_range(rewards, options.reward_range), options.level)
    for rows in _in_order_of_time(log):
        low, high = ends.add(weights[rows], rewards[rows])
    return Interval(math.nan, float(low[-1]), float(high[-1]))


def _in_order_of_time(log: Log) -> Iterator[Any]:
    """Yield the rows of a log in order of time, a block after the other; raises `DataError` where it cannot."""
    if log.times is None:
        yield from row_blocks(len(log))
    elif log.is_streamed:
        last = -math.inf
        for rows in row_blocks(len(log)):
            times = np.append(last, log.times[rows])
            if (np.diff(times) < 0.0).any():
                raise DataError(
                    f"{log.source}: its rows are not in order of time, as sequence needs where rows are read in "
                    "blocks; sort them, or take bernstein"
                )
            last = float(times[-1])
            yield rows
    else:
        order = np.argsort(log.times, kind="stable")
        for rows in row_blocks(len(log)):
            yield order[rows]
