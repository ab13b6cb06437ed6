"""Judge policies by a log: values, intervals, figures, verdicts and paired differences in one call."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.statistics import Interval
from zoosim.core.types import Progress
from zoosim.logs.boost_log import BoostLog
from zoosim.logs.log import Log
from zoosim.logs.ranking_log import RankingLog
from zoosim.off_policy.actions.base import Estimated, Judgement, Kind
from zoosim.off_policy.actions.boosts import Boosts
from zoosim.off_policy.actions.products import Actions
from zoosim.off_policy.actions.rankings import Rankings
from zoosim.off_policy.diagnostics import Moved, WeightFigures, halves
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.groups import Groups, group_rows
from zoosim.off_policy.intervals.bootstrap import Bootstrap, bootstrap, bootstraps
from zoosim.off_policy.intervals.clusters import (
    Clusters,
    Sums,
    difference,
    go_together,
    group_sums,
    make_clusters,
    standard_error,
)
from zoosim.off_policy.intervals.comparisons import Lead, Ranked, rank_policies
from zoosim.off_policy.intervals.intervals import (
    asymptotic_interval,
    bernstein_interval,
    bootstrap_interval,
    bootstrap_p,
    rows_to_decide,
)
from zoosim.off_policy.intervals.sequences import confidence_sequence
from zoosim.off_policy.options import Options, read_options
from zoosim.off_policy.overlap import FEW_SEGMENTS, MOST_SEGMENTS, Overlap
from zoosim.off_policy.targets.products import named
from zoosim.off_policy.verdict import CARRIERS, CARRIERS_ASYMPTOTIC, DO_NOT_USE, TRUST, WEAK, WORDS, Verdict

NOTHING = Interval(math.nan, None, None)
LOGGED = "logged"
NEVER = "the policy would have made none of the logged choices"
TOGETHER = "a user's rows go together, for which a sequence does not allow (bernstein does)"
GUESSED = "the interval takes the log's smallest and largest reward for the range of all; give their reward_range"
KINDS: Mapping[type, type[Kind]] = {Log: Actions, RankingLog: Rankings, BoostLog: Boosts}
"""What judges policies by each kind of log."""


class Result(NamedTuple):
    """What one estimator says of one policy; figures are those of the weights that the estimator leans on.

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
    weights lie, if it was asked for; `notes` what else there is to say of it. `unit` says what `n` counts.
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
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unit: str = "rows"

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
            "notes": {name: list(lines) for name, lines in self.notes.items() if lines},
        }


class EvaluationInterrupted(KeyboardInterrupt):
    """Ctrl-C came while policies were judged.

    Carries the `evaluation` of those that are finished, None without any, and the names of those that are `missing`.
    """

    def __init__(self, evaluation: Evaluation | None, missing: Sequence[str]) -> None:
        super().__init__()
        self.evaluation, self.missing = evaluation, tuple(missing)


def evaluate(
    log: Log | RankingLog | BoostLog,
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
    """Estimate what each of `policies` would have earned on a log, and say whether to trust it.

    A policy is a `zoosim.Policy`, a function (log, start, stop), an array of probabilities `(K,)` or `(n, K)`, or the
    name of a column of the log with the probabilities of the logged actions, for which estimators that need a reward
    model are left out. On a `RankingLog` these are probabilities of what stands at the top, and below it of what is
    left; on a `BoostLog` arrays and functions give a policy's boosts, columns its densities.

    `estimators` are by default those of the log's kind. Clipped, switch and shrunken forms choose their limit by an
    estimate of their error, kernels over boosts their bandwidth by `choose_bandwidth` where `bandwidth` is None.
    `interval` is bootstrap, asymptotic, bernstein, or sequence (valid at all times; rows in order of time where the log
    tells it); the last two bound the policy's value whatever the estimator, and need to know the `reward_range`, by
    default the smallest and largest reward of a visit of the log. `overlap` asks for the weights by size, action and
    segment; without `compare` there are no differences and no ranking. `progress` is called with lines such as
    "linucb: judged 2,000 of 50,000 rows". Raises `ConfigError`, `DataError`, or `PolicyError` with the policy's name;
    on Ctrl-C `EvaluationInterrupted`, a `KeyboardInterrupt` with the results so far.
    """
    if LOGGED in policies:
        raise ConfigError(
            f"policies: got one named {LOGGED}, which is what the log's own choices are called; rename it"
        )
    given = {"estimators": estimators, "interval": interval, "level": level, "samples": samples, "seed": seed}
    options = read_options(KINDS[type(log)], log, {**given, "reward_range": reward_range})
    clusters = make_clusters(len(log), log.user_ids)
    kind = KINDS[type(log)](log, clusters, options.estimators, bandwidth)
    taken = {name: _taken(name, policy, kind, progress) for name, policy in policies.items()}
    if not taken:
        raise ConfigError("policies: got none, expected at least one to judge")
    findings = _Findings(log, clusters, kind.unit, options, compare)
    groups = group_rows(log.features, MOST_SEGMENTS, FEW_SEGMENTS) if overlap else None
    finished = list[str]()
    try:
        for name, judged in taken.items():
            findings.add(name, *_judged(name, judged, options), groups)
            finished.append(name)
    except KeyboardInterrupt:
        missing = [name for name in taken if name not in finished]
        raise EvaluationInterrupted(findings.evaluation(finished) if finished else None, missing) from None
    evaluation = findings.evaluation(finished)
    if not any(row.ess for row in evaluation.results) and any(math.isnan(row.value) for row in evaluation.results):
        raise DataError(
            f"policies: {', '.join(policies)} would have made none of the logged choices: nothing to judge by"
        )
    return evaluation


def _judged(name: str, judged: Callable[[], Judgement], options: Options) -> tuple[list[Found], Judgement]:
    try:
        judgement = judged()
        return _results(name, judgement, options), judgement
    except (PolicyError, DataError, ConfigError) as error:
        raise named(name, error) from error


class _Findings:
    """What was found so far, of one policy after another."""

    def __init__(
        self, log: Log | RankingLog | BoostLog, clusters: Clusters, unit: str, options: Options, compare: bool
    ) -> None:
        logged = group_sums(clusters, Terms(log.earned))
        self._known = (len(log), clusters.n_clusters, dict(log.skipped), log.source)
        self._logged = bootstrap_interval(logged, options.level, samples=options.samples, seed=options.seed)
        self._compared = _Compared(logged, options) if compare else None
        self._unit = unit
        self._results: list[Result] = []
        self._overlaps: dict[str, Overlap] = {}
        self._notes: dict[str, tuple[str, ...]] = {}

    def add(self, name: str, found: Sequence[Found], judgement: Judgement, groups: Groups | None) -> None:
        """Take in the results of a policy; with `groups` of rows, where its weights lie, too."""
        if groups is not None:
            self._overlaps[name] = judgement.overlap(groups)
        self._notes[name] = judgement.notes
        for result, sums in found:
            self._results.append(result)
            if self._compared is not None and sums is not None:
                self._compared.add(result, sums)

    def evaluation(self, finished: Sequence[str]) -> Evaluation:
        """Return what was found of the policies that are finished."""
        results = tuple(row for row in self._results if row.policy in finished)
        compared = self._compared
        return Evaluation(
            results,
            () if compared is None else tuple(each for each in compared.differences if each.policy in finished),
            self._logged,
            *self._known,
            ranking=() if compared is None else compared.ranking(results),
            overlaps={name: self._overlaps[name] for name in finished if name in self._overlaps},
            notes={name: self._notes[name] for name in finished},
            unit=self._unit,
        )


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


def _taken(name: str, given: Any, kind: Kind, progress: Progress) -> Callable[[], Judgement]:
    try:
        return kind.take(given, lambda line: progress(f"{name}: {line}"))
    except (PolicyError, DataError, ConfigError) as error:
        raise named(name, error) from error


def _results(name: str, judgement: Judgement, options: Options) -> list[Found]:
    """Return results with their sums for each estimator that the target allows."""
    names = [estimator for estimator in options.estimators if estimator in judgement.estimators]
    if not names:
        raise DataError(f"none of {', '.join(options.estimators)} can do with {judgement.known} alone")
    summed = {estimator: _summed(judgement, estimator, options) for estimator in names}
    estimates = {estimator: own for estimator, own in summed.items() if own is not None}
    intervals = _intervals([sums for sums, _ in estimates.values()], judgement, options)
    carriers, known = CARRIERS_ASYMPTOTIC if options.interval == "asymptotic" else CARRIERS, _known(judgement, options)
    found = dict[str, Found]()
    for (estimator, (sums, moved)), interval in zip(estimates.items(), intervals, strict=True):
        weights = judgement.figures(estimator)
        own = judgement.verdict(estimator, Estimated(sums, weights, interval, moved, carriers))
        less, more = sorted((own, known), key=lambda verdict: WORDS.index(verdict.word))
        verdict = Verdict(more.word, (*more.reasons, *less.reasons))
        found[estimator] = Found(_result(name, estimator, interval, weights, verdict), sums)
    for estimator in names:
        if estimator not in found:
            never = Verdict(DO_NOT_USE, (NEVER,))
            found[estimator] = Found(_result(name, estimator, NOTHING, judgement.figures(estimator), never), None)
    return [found[estimator] for estimator in names]


def _known(judgement: Judgement, options: Options) -> Verdict:
    """Return what is to be said of an interval before any estimate."""
    if options.interval == "sequence" and go_together(judgement.clusters, np.multiply(*judgement.bounded())):
        return Verdict(DO_NOT_USE, (TOGETHER,))
    return Verdict(WEAK, (GUESSED,)) if options.guessed else Verdict(TRUST, ())


def _result(name: str, estimator: str, interval: Interval, weights: WeightFigures, verdict: Verdict) -> Result:
    return Result(name, estimator, *interval, weights.ess, weights.mean_weight, weights.max_weight, *verdict)


def _summed(judgement: Judgement, estimator: str, options: Options) -> tuple[Sums, Moved | None] | None:
    """Add an estimate up by group, and tell how it moved over the log's time; None where weights sum to 0 below it."""
    terms = judgement.terms(estimator)
    if terms.bottom is not None and not terms.bottom.any():
        return None
    sums = group_sums(judgement.clusters, terms)
    return sums, None if options.later is None else halves(terms, options.later, judgement.clusters)


def _intervals(estimates: Sequence[Sums], judgement: Judgement, options: Options) -> list[Interval]:
    if options.interval == "bootstrap":
        drawn = bootstraps(estimates, samples=options.samples, seed=options.seed)
        return [bootstrap_interval(sums, options.level, drawn=own) for sums, own in zip(estimates, drawn, strict=True)]
    if options.interval == "asymptotic":
        return [asymptotic_interval(sums, options.level) for sums in estimates]
    bounds = _bounds(judgement, options)
    return [bounds._replace(mean=sums.value) for sums in estimates]


def _bounds(judgement: Judgement, options: Options) -> Interval:
    """Return bounds of the policy's value that no estimator moves."""
    weights, rewards = judgement.bounded()
    if options.interval == "bernstein":
        units = make_clusters(len(weights), options.user_ids, max_groups=len(weights))
        return bernstein_interval(weights, rewards, options.reward_range, units, options.level)
    order = np.arange(len(weights)) if options.times is None else np.argsort(options.times, kind="stable")
    low, high = confidence_sequence(weights[order], rewards[order], options.reward_range, options.level)
    return Interval(math.nan, float(low[-1]), float(high[-1]))


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
