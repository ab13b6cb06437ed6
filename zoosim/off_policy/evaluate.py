"""Evaluate policies on a log: values, intervals, figures, verdicts and paired differences in one call."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.statistics import Interval
from zoosim.core.types import Progress
from zoosim.logs.log import Log
from zoosim.off_policy.actions.base import Estimated, PolicyEvaluation
from zoosim.off_policy.actions.table import EVALUATORS
from zoosim.off_policy.compare import LOGGED, Comparison, Difference, Lift
from zoosim.off_policy.diagnostics import Drift, WeightFigures, drift_between_halves
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.groups import Groups, group_rows
from zoosim.off_policy.intervals.bootstrap import bootstraps
from zoosim.off_policy.intervals.clusters import Clusters, Sums, go_together, group_sums, make_clusters
from zoosim.off_policy.intervals.comparisons import Ranked
from zoosim.off_policy.intervals.intervals import asymptotic_interval, bernstein_interval, bootstrap_interval
from zoosim.off_policy.intervals.sequences import confidence_sequence
from zoosim.off_policy.options import Options, read_options
from zoosim.off_policy.overlap import FEW_SEGMENTS, MOST_SEGMENTS, Overlap
from zoosim.off_policy.results import Evaluation, Result
from zoosim.off_policy.targets.base import naming
from zoosim.off_policy.verdict import (
    DO_NOT_USE,
    EFFECTIVE_GROUPS,
    EFFECTIVE_GROUPS_ASYMPTOTIC,
    TRUST,
    WEAK,
    WORDS,
    Verdict,
)

NOTHING = Interval(math.nan, None, None)
NO_OVERLAP = "no overlap: the policy never chooses a logged action"
GROUPED_ROWS = "a user's rows go together, for which a sequence does not allow (bernstein does)"
GUESSED_RANGE = "the interval assumes that rewards stay in the range seen in this log; pass reward_range=(low, high)"


class Estimate(NamedTuple):
    """A result, and the sums by group that it comes from; None where there is no estimate."""

    result: Result
    sums: Sums | None


class EvaluationInterrupted(KeyboardInterrupt):
    """Ctrl-C came while policies were evaluated.

    Carries the `evaluation` of those that are finished, None without any, and the names of those that are `missing`.
    """

    def __init__(self, evaluation: Evaluation | None, missing: Sequence[str]) -> None:
        super().__init__()
        self.evaluation, self.missing = evaluation, tuple(missing)


def evaluate(
    log: Log,
    policies: Mapping[str, Any],
    *,
    estimators: Sequence[str] | None = None,
    interval: str = "bootstrap",
    level: float = 0.95,
    samples: int = 1_000,
    seed: int = 0,
    reward_range: tuple[float, float] | None = None,
    bandwidth: float | None = None,
    overlap: bool = False,
    compare: bool = True,
    progress: Progress = lambda line: None,
) -> Evaluation:
    """Estimate the mean reward per visit that each policy would have earned, from a log of another policy.

    No policy is run: logged rewards are reweighted by how much likelier the policy makes the logged actions
    (Horvitz & Thompson 1952); some estimators add a reward model (Dudik, Langford & Li 2011).

    Args:
        log: n visits with propensities, of products, rankings or boosts.
        policies: Name -> a `zoosim.Policy` (a frozen copy is asked), probabilities `(K,)` or `(n, K)`, a function
            (log, start, stop) that returns `(stop - start, K)`, or the name of a log column with the probability
            of the logged action (this leaves out estimators with a reward model). Rankings: probabilities of
            the top position, lower ones are drawn without replacement. Boosts: boosts `(d,)` or `(n, d)`, columns of
            densities.
        estimators: Such as ["snips", "dr"]. Default: those of the log's action space. Clipped, switch and shrunken
            forms choose their limit by the least estimated error (Su et al. 2020).
        interval: "bootstrap" (studentised), "asymptotic", or a bound on the value itself, whatever the estimator:
            "bernstein" (Maurer & Pontil 2009), "sequence" (Waudby-Smith et al. 2024; valid at all times, rows in order
            of time where the log tells it).
        level: Confidence level, in (0, 1).
        samples: Number of bootstrap samples.
        seed: Their seed, from 0 to 2**63 - 1.
        reward_range: (low, high) of a visit's total reward. Default: the range in the log, which makes "bernstein"
            and "sequence" at most `weak` unless rewards are single clicks.
        bandwidth: Kernel width in units of the boosts. Default: chosen from the log (SLOPE, Su et al. 2020).
        overlap: Also tabulate weights by size, action and segment.
        compare: Also compare and rank the policies.
        progress: Called with lines such as "linucb: judged 2,000 of 50,000 rows".

    Returns:
        One `Result` per policy and estimator: value and interval in reward units per visit, effective sample size
        (Kish 1965), verdict and reasons. The value is NaN where all weights of a self-normalised estimator are 0.

    Raises:
        ConfigError: an option or a policy's name is invalid, or there is no policy.
        DataError: no estimator applies, or no policy ever chooses a logged action.
        PolicyError: a policy fails, returns invalid probabilities, or changes its state; it is named.
        EvaluationInterrupted: on Ctrl-C, a `KeyboardInterrupt` with the results so far.
    """
    if LOGGED in policies:
        raise ConfigError(f"policies: got one named {LOGGED}, the name of the log's own choices; rename it")
    if not log.has_propensities:
        wanted = "expected a column propensity, the probability with which each product was shown"
        raise DataError(f"{log.source}: got a log without propensities, {wanted}; let the shop log it from now on")
    evaluator_class = EVALUATORS[log.action_space]
    options = read_options(
        log,
        evaluator_class,
        estimators=estimators,
        interval=interval,
        level=level,
        samples=samples,
        seed=seed,
        reward_range=reward_range,
    )
    clusters = make_clusters(len(log), log.user_ids)
    logs = {log.objective: log, **{name: log.for_reward(name) for name in log.other_rewards}}
    evaluator = evaluator_class(log, clusters, options.estimators, bandwidth)
    prepared = {}
    for name, policy in policies.items():
        with naming(name):
            prepared[name] = evaluator.prepare(policy, _prefixed(progress, name))
    if not prepared:
        raise ConfigError("policies: got none, expected at least one to judge")

    options_of = {reward: options if each is log else options.for_log(each) for reward, each in logs.items()}
    findings = {
        reward: _Findings(each, clusters, evaluator.unit, options_of[reward], compare, reward)
        for reward, each in logs.items()
    }
    groups = None
    if overlap:
        segments = group_rows(log.features, MOST_SEGMENTS, FEW_SEGMENTS)
        groups = segments.named(log.features, log.visitor_features)
    finished = list[str]()
    try:
        for name, evaluate_policy in prepared.items():
            with naming(name):
                policy_evaluation = evaluate_policy()
                for reward, found in findings.items():
                    is_objective = reward == log.objective
                    by_reward = policy_evaluation if is_objective else policy_evaluation.for_reward(reward)
                    found.add(name, by_reward, groups if is_objective else None)
            finished.append(name)
    except KeyboardInterrupt:
        missing = [name for name in prepared if name not in finished]
        raise EvaluationInterrupted(_evaluation(findings, finished) if finished else None, missing) from None
    evaluation = _evaluation(findings, finished)
    if not any(row.ess for row in evaluation.results) and any(math.isnan(row.value) for row in evaluation.results):
        names = ", ".join(policies)
        raise DataError(f"no overlap: none of the policies ({names}) ever chooses a logged action; evaluate others")
    return evaluation


def _prefixed(progress: Progress, name: str) -> Progress:
    return lambda line: progress(f"{name}: {line}")


def _evaluation(findings: "Mapping[str, _Findings]", finished: Sequence[str]) -> Evaluation:
    """Return what was found of the policies that are finished, the other rewards within the objective's."""
    objective, *others = (found.evaluation(finished) for found in findings.values())
    return replace(objective, others={other.reward: other for other in others})


class _Findings:
    """What was found so far about one reward, of one policy after another."""

    def __init__(self, log: Log, clusters: Clusters, unit: str, options: Options, compare: bool, reward: str) -> None:
        logged = group_sums(clusters, Terms(log.visit_rewards))
        self._log = log
        self._options = options
        self._reward = reward
        self._n_clusters = clusters.n_clusters
        self._unit = unit
        self._logged = bootstrap_interval(logged, options.level, samples=options.samples, seed=options.seed)
        self._comparison = Comparison(logged, options) if compare else None
        self._results: list[Result] = []
        self._overlaps: dict[str, Overlap] = {}
        self._notes: dict[str, tuple[str, ...]] = {}

    def add(self, name: str, evaluated: PolicyEvaluation, groups: Groups | None) -> None:
        """Estimate what a policy earns; with `groups` of rows, where its weights lie, too."""
        estimates = _estimates(name, evaluated, self._options)
        if groups is not None:
            self._overlaps[name] = evaluated.overlap(groups)
        self._notes[name] = evaluated.notes
        for result, sums in estimates:
            self._results.append(result)
            if self._comparison is not None and sums is not None:
                self._comparison.add(name, result.estimator, sums, result.verdict)

    def evaluation(self, finished: Sequence[str]) -> Evaluation:
        """Return what was found of the policies that are finished."""
        results = tuple(row for row in self._results if row.policy in finished)
        differences: tuple[Difference, ...] = ()
        lifts: tuple[Lift, ...] = ()
        ranking: tuple[Ranked, ...] = ()
        if self._comparison is not None:
            differences = tuple(each for each in self._comparison.differences if each.policy in finished)
            lifts = tuple(each for each in self._comparison.lifts if each.policy in finished)
            ranking = self._comparison.ranking(_usable_values(results))
        return Evaluation(
            results,
            differences,
            self._logged,
            len(self._log),
            self._n_clusters,
            dict(self._log.skipped),
            self._log.source,
            ranking=ranking,
            lifts=lifts,
            overlaps={name: self._overlaps[name] for name in finished if name in self._overlaps},
            notes={name: self._notes[name] for name in finished},
            unit=self._unit,
            reward=self._reward,
        )


def _usable_values(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    """Return the values of estimates that can be used, by estimator and policy."""
    values: dict[str, dict[str, float]] = {}
    for row in results:
        if row.verdict != DO_NOT_USE:
            values.setdefault(row.estimator, {})[row.policy] = row.value
    return values


def _estimates(policy: str, evaluated: PolicyEvaluation, options: Options) -> list[Estimate]:
    """Return the estimates of a policy's value, in the order of the options; raises `DataError` if there are none."""
    estimators = [estimator for estimator in options.estimators if estimator in evaluated.estimators]
    if not estimators:
        raise DataError(f"none of {', '.join(options.estimators)} can do with {evaluated.known} alone")
    sums_and_drifts = {}
    for estimator in estimators:
        sums_and_drift = _sums_and_drift(evaluated, estimator, options)
        if sums_and_drift is not None:  # None: every importance weight is 0
            sums_and_drifts[estimator] = sums_and_drift
    # One call for all estimators, because they share the bootstrap's resampling counts.
    intervals = _intervals([sums for sums, _ in sums_and_drifts.values()], evaluated, options)
    interval_of = dict(zip(sums_and_drifts, intervals, strict=True))
    interval_verdict = _interval_verdict(evaluated, options)
    min_groups = EFFECTIVE_GROUPS_ASYMPTOTIC if options.interval == "asymptotic" else EFFECTIVE_GROUPS

    estimates = []
    for estimator in estimators:
        weights = evaluated.weights(estimator).figures
        if estimator not in sums_and_drifts:
            no_overlap = Verdict(DO_NOT_USE, (NO_OVERLAP,))
            estimates.append(Estimate(_result(policy, estimator, NOTHING, weights, no_overlap), None))
            continue
        sums, drift = sums_and_drifts[estimator]
        interval = interval_of[estimator]
        estimated = Estimated(sums, weights, interval, drift, min_groups)
        verdict = _worse_verdict(evaluated.verdict(estimator, estimated), interval_verdict)
        estimates.append(Estimate(_result(policy, estimator, interval, weights, verdict), sums))
    return estimates


def _worse_verdict(estimate: Verdict, interval: Verdict) -> Verdict:
    """Return the graver word with both lists of reasons, the graver first (on a tie the interval's)."""
    if WORDS.index(estimate.word) > WORDS.index(interval.word):
        return Verdict(estimate.word, (*estimate.reasons, *interval.reasons))
    return Verdict(interval.word, (*interval.reasons, *estimate.reasons))


def _interval_verdict(evaluated: PolicyEvaluation, options: Options) -> Verdict:
    """Return what speaks against the kind of interval, whatever the estimate."""
    if options.interval == "sequence" and go_together(evaluated.clusters, np.multiply(*evaluated.bounded())):
        return Verdict(DO_NOT_USE, (GROUPED_ROWS,))
    return Verdict(WEAK, (GUESSED_RANGE,)) if options.guessed_range else Verdict(TRUST, ())


def _result(policy: str, estimator: str, interval: Interval, weights: WeightFigures, verdict: Verdict) -> Result:
    return Result(policy, estimator, *interval, weights.ess, weights.mean_weight, weights.max_weight, *verdict)


def _sums_and_drift(evaluated: PolicyEvaluation, estimator: str, options: Options) -> tuple[Sums, Drift | None] | None:
    """Return an estimate as sums by group, and how it differs between the log's halves; None if all weights are 0."""
    terms = evaluated.terms(estimator)
    if terms.bottom is not None and not terms.bottom.any():
        return None
    drift = None
    if options.later is not None:
        drift = drift_between_halves(terms, options.later, evaluated.clusters)
    return group_sums(evaluated.clusters, terms), drift


def _intervals(estimates: Sequence[Sums], evaluated: PolicyEvaluation, options: Options) -> list[Interval]:
    if options.interval == "bootstrap":
        drawn = bootstraps(estimates, samples=options.samples, seed=options.seed)
        pairs = zip(estimates, drawn, strict=True)
        return [bootstrap_interval(sums, options.level, drawn=samples) for sums, samples in pairs]
    if options.interval == "asymptotic":
        return [asymptotic_interval(sums, options.level) for sums in estimates]
    bounds = _bounds(evaluated, options)
    return [bounds._replace(mean=sums.value) for sums in estimates]


def _bounds(evaluated: PolicyEvaluation, options: Options) -> Interval:
    """Return bounds of the policy's value, the same for all estimators."""
    weights, rewards = evaluated.bounded()
    log = evaluated.log
    if options.interval == "bernstein":
        units = make_clusters(len(weights), log.user_ids, max_groups=len(weights))
        return bernstein_interval(weights, rewards, options.reward_range, units, options.level)
    order = np.arange(len(weights)) if log.times is None else np.argsort(log.times, kind="stable")
    low, high = confidence_sequence(weights[order], rewards[order], options.reward_range, options.level)
    return Interval(math.nan, float(low[-1]), float(high[-1]))
