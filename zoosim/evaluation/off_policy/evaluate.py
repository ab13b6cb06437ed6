"""Judge policies by a log: values, intervals, figures, verdicts and paired differences in one call."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.checks import check_whole
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.parameters import shown, unknown
from zoosim.core.types import FloatArray
from zoosim.evaluation.off_policy import single
from zoosim.evaluation.off_policy.bootstrap import Bootstrap, bootstrap, bootstraps
from zoosim.evaluation.off_policy.choosing import Lead, Ranked, rank_policies
from zoosim.evaluation.off_policy.clusters import (
    Clusters,
    Sums,
    difference,
    go_together,
    group_sums,
    make_clusters,
    standard_error,
)
from zoosim.evaluation.off_policy.diagnostics import (
    WeightFigures,
    cut_weights,
    error_figures,
    model_figures,
    weight_figures,
)
from zoosim.evaluation.off_policy.groups import group_rows
from zoosim.evaluation.off_policy.intervals import (
    asymptotic_interval,
    bernstein_interval,
    bootstrap_interval,
    bootstrap_p,
    check_samples,
    checked_level,
    checked_range,
    rows_to_decide,
)
from zoosim.evaluation.off_policy.judging import Judged, judge
from zoosim.evaluation.off_policy.limits import choose_limit
from zoosim.evaluation.off_policy.log import Log
from zoosim.evaluation.off_policy.overlap import FEW_SEGMENTS, MOST_SEGMENTS, Overlap, overlap_of
from zoosim.evaluation.off_policy.reward_model import fit_reward_model
from zoosim.evaluation.off_policy.sequences import confidence_sequence
from zoosim.evaluation.off_policy.targets import Target, make_target, named
from zoosim.evaluation.off_policy.terms import Terms
from zoosim.evaluation.off_policy.verdict import DO_NOT_USE, WORDS, Verdict, judge_model, judge_weighted
from zoosim.evaluation.statistics import Interval

ESTIMATORS = ("dm", "ips", "clipped-ips", "snips", "dr", "sndr", "switch-dr", "shrunk-dr")
"""By name: direct method, (clipped, self-normalised) inverse propensity, (self-normalised, switch, shrunk) doubly
robust."""

DEFAULT = ("ips", "snips", "dr")
NEED_MODEL = ("dm", "dr", "sndr", "switch-dr", "shrunk-dr")
INTERVALS = ("bootstrap", "asymptotic", "bernstein", "sequence")
SELF_NORMALISED = ("snips", "sndr")
LOGGED = "logged"
NEVER = "the policy would have made none of the logged choices"
TOGETHER = "a user's rows go together, for which a sequence does not allow (bernstein does)"


class Result(NamedTuple):
    """What one estimator says of one policy; figures of weights stand for the policy, whichever the estimator.

    `value` is NaN for a self-normalised estimator where all weights are 0.
    """

    policy: str
    estimator: str
    value: float
    low: float | None
    high: float | None
    ess: float
    mean_weight: float
    max_weight: float
    verdict: str
    reasons: tuple[str, ...]


class Found(NamedTuple):
    """A result, and the sums that it comes from; None where there is no estimate."""

    result: Result
    sums: Sums | None


class Difference(NamedTuple):
    """How much more `policy` earns than `other` (the logged choices, by default), estimated on the same rows.

    `verdict` is the worse of the two policies'; `p` is two-sided, not corrected for several comparisons; `rows_needed`
    is how many rows like these would show a difference of this size at the intervals' level with 80% power, None when
    there is none.
    """

    policy: str
    other: str
    estimator: str
    value: float
    low: float | None
    high: float | None
    p: float
    rows_needed: int | None
    verdict: str


@dataclass(frozen=True)
class Evaluation:
    """The results of `evaluate`: one a policy and estimator; `logged` is what the log's own choices earned.

    `ranking` orders the policies whose estimate can be used, by estimator; `overlaps` tells of each policy where its
    weights lie, if it was asked for.
    """

    results: tuple[Result, ...]
    differences: tuple[Difference, ...]
    logged: Interval
    n: int
    n_clusters: int
    skipped: Mapping[str, int]
    source: str
    ranking: tuple[Ranked, ...] = ()
    overlaps: Mapping[str, Overlap] = field(default_factory=dict)

    @cached_property
    def table(self) -> pl.DataFrame:
        """One row a policy and estimator; reasons in one string."""
        return pl.DataFrame([{**row._asdict(), "reasons": "; ".join(row.reasons)} for row in self.results])

    @property
    def summary(self) -> dict[str, Any]:
        """All figures as plain values for JSON: what is not finite is None."""
        return {
            "schema_version": 1,
            "log": self.source,
            "rows": self.n,
            "clusters": self.n_clusters,
            "skipped": dict(self.skipped),
            "logged": _plain(self.logged._asdict()),
            "results": [_plain(row._asdict()) for row in self.results],
            "differences": [_plain(row._asdict()) for row in self.differences],
            "ranking": [_plain(row._asdict()) for row in self.ranking],
        }


class Options(NamedTuple):
    """How to estimate and how sure to be."""

    estimators: tuple[str, ...]
    interval: str
    level: float
    samples: int
    seed: int
    reward_range: tuple[float, float]


def evaluate(
    log: Log,
    policies: Mapping[str, Any],
    *,
    estimators: Sequence[str] = DEFAULT,
    interval: str = "bootstrap",
    level: float = 0.95,
    samples: int = 1_000,
    seed: int = 0,
    reward_range: tuple[float, float] | None = None,
    overlap: bool = False,
    compare: bool = True,
) -> Evaluation:
    """Estimate what each of `policies` would have earned on a log, and say whether to trust it.

    A policy is a `zoosim.Policy`, a function (log, start, stop), an array of probabilities `(K,)` or `(n, K)`, or the
    name of a column of the log with the probabilities of the logged actions, for which estimators that need a reward
    model are left out. Clipped, switch and shrunken forms choose their limit by an estimate of their error. `interval`
    is bootstrap, asymptotic, bernstein, or sequence (valid at all times; rows in order of time where the log tells it).
    The last two bound the policy's value whatever the estimator, and need to know the `reward_range`, by default the
    smallest and largest reward of the log. `overlap` asks for the weights by size, action and segment; without
    `compare` there are no differences and no ranking. Raises `ConfigError`, `DataError`, or `PolicyError` with
    the policy's name.
    """
    options = _options(log, estimators, interval, level, samples, seed, reward_range)
    targets = {name: _target(name, given, log) for name, given in policies.items()}
    if LOGGED in targets:
        raise ConfigError(
            f"policies: got one named {LOGGED}, which is what the log's own choices are called; rename it"
        )
    if not targets:
        raise ConfigError("policies: got none, expected at least one to judge")
    clusters = make_clusters(len(log), log.user_ids)
    wanted = set(options.estimators) & set(NEED_MODEL) and any(target.whole for target in targets.values())
    model = fit_reward_model(log, clusters) if wanted else None
    logged = group_sums(clusters, Terms(log.rewards))
    results: list[Result] = []
    compared = _Compared(logged, options)
    overlaps: dict[str, Overlap] = {}
    groups = group_rows(log.features, MOST_SEGMENTS, FEW_SEGMENTS) if overlap else None
    for name, target in targets.items():
        try:
            judged = judge(log, target, model)
            found = _results(name, log, judged, clusters, options)
        except (PolicyError, DataError) as error:
            raise named(name, error) from error
        if groups is not None:
            overlaps[name] = overlap_of(log, judged, groups)
        for result, sums in found:
            results.append(result)
            if compare and sums is not None:
                compared.add(result, sums)
    if not any(row.ess for row in results) and any(math.isnan(row.value) for row in results):
        raise DataError(
            f"policies: {', '.join(targets)} would have made none of the logged choices: nothing to judge by"
        )
    earned = bootstrap_interval(logged, level, samples=samples, seed=seed)
    told = (
        len(log),
        clusters.n_clusters,
        dict(log.skipped),
        log.source,
        compared.ranking(results) if compare else (),
        overlaps,
    )
    return Evaluation(tuple(results), tuple(compared.differences), earned, *told)


class _Compared:
    """Compare each result with the logged choices and with those before it of the same estimator."""

    def __init__(self, logged: Sums, options: Options) -> None:
        self.logged, self.options = logged, options
        self.differences: list[Difference] = []
        self._known: dict[tuple[str, str], tuple[Sums, str]] = {}
        self._leads: dict[tuple[str, str, str], Lead] = {}

    def add(self, result: Result, sums: Sums) -> None:
        """Compare one more result, estimated by `sums`."""
        name, estimator, verdict = result.policy, result.estimator, result.verdict
        self._compare((name, LOGGED, estimator), difference(sums, self.logged), verdict)
        for (other, by), (rival, word) in self._known.items():
            if by == estimator:
                worse = max(word, verdict, key=WORDS.index)
                self._compare((name, other, estimator), difference(sums, rival), worse)
        self._known[name, estimator] = (sums, verdict)

    def _compare(self, names: tuple[str, str, str], sums: Sums, verdict: str) -> None:
        drawn = bootstrap(sums, samples=self.options.samples, seed=self.options.seed)
        self.differences.append(_difference(names, sums, drawn, self.options, verdict))
        self._leads[names] = Lead(sums.value, standard_error(sums), drawn.ratios)

    def ranking(self, results: Sequence[Result]) -> tuple[Ranked, ...]:
        """Rank the policies whose estimate can be used and has a standard error, for each estimator."""
        ranked: list[Ranked] = []
        for estimator in self.options.estimators:
            own = {row.policy: row.value for row in results if row.estimator == estimator and row.verdict != DO_NOT_USE}
            over = {name: self._leads[name, LOGGED, estimator] for name in own}
            pairs = {key[:2]: lead for key, lead in self._leads.items() if key[2] == estimator and key[1] != LOGGED}
            if own:
                ranked += rank_policies(estimator, own, over, pairs, self.options.level)
        return tuple(ranked)


def _options(
    log: Log,
    estimators: Sequence[str],
    interval: str,
    level: float,
    samples: int,
    seed: int,
    reward_range: tuple[float, float] | None,
) -> Options:
    if isinstance(estimators, str) or not isinstance(estimators, Collection) or not estimators:
        raise ConfigError(f"estimators: got {shown(estimators)}, expected a list of some of {', '.join(ESTIMATORS)}")
    for name in estimators:
        if name not in ESTIMATORS:
            raise ConfigError(unknown("unknown estimator", f"{name}", list(ESTIMATORS)))
    if interval not in INTERVALS:
        raise ConfigError(unknown("unknown interval", f"{interval}", list(INTERVALS)))
    check_whole("seed", seed, 0, 2**63 - 1)
    check_samples(samples, checked_level(level))
    range_of_log = (float(log.rewards.min()), float(log.rewards.max()))
    if range_of_log[0] == range_of_log[1]:
        range_of_log = (min(range_of_log[0], 0.0), max(range_of_log[0], 1.0))
    bounds = range_of_log if reward_range is None else checked_range(log.rewards, reward_range)
    return Options(tuple(dict.fromkeys(estimators)), interval, level, samples, seed, bounds)


def _target(name: str, given: Any, log: Log) -> Target:
    try:
        return make_target(given, log)
    except (PolicyError, DataError, ConfigError) as error:
        raise named(name, error) from error


def _results(name: str, log: Log, judged: Judged, clusters: Clusters, options: Options) -> list[Found]:
    """Return results with their sums for each estimator that the target allows."""
    weights = weight_figures(log, judged, clusters)
    cut = judged._replace(weights=cut_weights(judged.weights))
    names = [name for name in options.estimators if name not in NEED_MODEL or judged.predicted is not None]
    if not names:
        wanted = ", ".join(options.estimators)
        raise DataError(f"none of {wanted} can do with the probabilities of logged actions alone")
    undefined = SELF_NORMALISED if not judged.weights.any() else ()
    usable = [estimator for estimator in names if estimator not in undefined]
    estimates = [group_sums(clusters, estimate(estimator, log.rewards, judged)) for estimator in usable]
    together = options.interval == "sequence" and go_together(clusters, judged.weights * log.rewards)
    figures = (weights.ess, weights.mean_weight, weights.max_weight)
    found = {n: Found(Result(name, n, math.nan, None, None, *figures, DO_NOT_USE, (NEVER,)), None) for n in undefined}
    for estimator, sums, interval in zip(usable, estimates, _intervals(estimates, log, judged, options), strict=True):
        clipped = None if estimator == "dm" else _value(estimator, log.rewards, cut)
        verdict = _verdict(estimator, log, judged, clusters, (sums, clipped, interval), weights)
        if together:
            verdict = Verdict(DO_NOT_USE, (TOGETHER, *verdict.reasons))
        found[estimator] = Found(Result(name, estimator, *interval, *figures, *verdict), sums)
    return [found[estimator] for estimator in names]


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


def _value(estimator: str, rewards: FloatArray, judged: Judged) -> float:
    return estimate(estimator, rewards, judged).value


def _intervals(estimates: Sequence[Sums], log: Log, judged: Judged, options: Options) -> list[Interval]:
    if options.interval == "bootstrap":
        drawn = bootstraps(estimates, samples=options.samples, seed=options.seed)
        return [bootstrap_interval(sums, options.level, drawn=own) for sums, own in zip(estimates, drawn, strict=True)]
    return [_interval(sums, log, judged, options) for sums in estimates]


def _interval(sums: Sums, log: Log, judged: Judged, options: Options) -> Interval:
    if options.interval == "bernstein":
        units = make_clusters(len(log), log.user_ids, max_groups=len(log))
        bounds = bernstein_interval(judged.weights, log.rewards, options.reward_range, units, options.level)
        return bounds._replace(mean=sums.value)
    if options.interval == "sequence":
        order = np.arange(len(log)) if log.times is None else np.argsort(log.times, kind="stable")
        parts = (judged.weights[order], log.rewards[order])
        low, high = confidence_sequence(*parts, options.reward_range, options.level)
        return Interval(sums.value, float(low[-1]), float(high[-1]))
    return asymptotic_interval(sums, options.level)


def _verdict(
    estimator: str,
    log: Log,
    judged: Judged,
    clusters: Clusters,
    estimated: tuple[Sums, float | None, Interval],
    weights: WeightFigures,
) -> Verdict:
    sums, clipped, interval = estimated
    errors = error_figures(sums, clipped)
    if estimator == "dm":
        model = model_figures(log.rewards, judged, clusters)
        checked = error_figures(group_sums(clusters, estimate("dr", log.rewards, judged)), None)
        weighted = judge_weighted(weights, checked, interval, clusters.n_clusters)
        return judge_model(model, errors, interval, clusters.n_clusters, weighted)
    full = {"clipped-ips": "ips", "switch-dr": "dr", "shrunk-dr": "dr"}.get(estimator)
    bias = 0.0
    if full is not None and errors.error > 0.0:
        bias = abs(_value(full, log.rewards, judged) - sums.value) / errors.error
    return judge_weighted(weights, errors, interval, clusters.n_clusters, bias)


def _difference(
    names: tuple[str, str, str], sums: Sums, drawn: Bootstrap, options: Options, verdict: str
) -> Difference:
    interval, p = bootstrap_interval(sums, options.level, drawn=drawn), bootstrap_p(sums, drawn=drawn)
    needed = rows_to_decide(sums, options.level) if math.isfinite(standard_error(sums)) else None
    return Difference(*names, *interval, p, needed, verdict)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return values without NaN, infinity and tuples."""
    lists = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
    return {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in lists.items()}
