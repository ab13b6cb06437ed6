"""Compare policies with the logged choices and with one another, on the same rows."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray
from zoosim.off_policy.diagnostics import ROUNDING
from zoosim.off_policy.intervals.bootstrap import bootstraps
from zoosim.off_policy.intervals.clusters import ClusterSums, difference, standard_error
from zoosim.off_policy.intervals.comparisons import PairedLead, PolicyRank, correct, rank_policies
from zoosim.off_policy.intervals.intervals import asymptotic_interval, ratio_interval, rows_to_decide
from zoosim.off_policy.options import EvaluationOptions
from zoosim.off_policy.verdict import WORDS

LOGGED = "logged"
"""The name of the log's own choices."""


class Difference(NamedTuple):
    """The difference between what `policy` and `other`, a policy or `LOGGED`, earn, estimated on the same rows.

    `verdict` is the worse of the two policies'. `p` is two-sided, and it and the interval are corrected for all
    comparisons by the same estimator: the interval leaves out 0 exactly where p is below 1 - level. `rows_needed` is
    how many rows like these would show a difference of this size in 80% of all logs by intervals that reach as many
    standard errors as this one: where it holds 0, more than there are. None where there is no difference, or the
    interval is open towards 0.
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


class Lift(NamedTuple):
    """The difference between what `policy` and the logged choices earn, in shares of what these earned: .1 is 10% more.

    Its interval leaves out 0 exactly where that of the difference does. `held` is the share of the rows that it would
    take to show a difference of this size, as in `Difference`, that the log holds, below 1 where it does not show one.
    `verdict` is the one on the policy's estimate.
    """

    policy: str
    estimator: str
    value: float
    low: float | None
    high: float | None
    held: float | None
    verdict: str


class Compared(NamedTuple):
    """Everything that was compared."""

    differences: tuple[Difference, ...] = ()
    lifts: tuple[Lift, ...] = ()
    ranking: tuple[PolicyRank, ...] = ()


class EstimateComparison:
    """Compares estimates with the logged choices and with one another.

    Args:
        logged: What the logged choices earned, by group.
        options: How to estimate.
    """

    def __init__(self, logged: ClusterSums, options: EvaluationOptions) -> None:
        self._logged = logged
        self._options = options
        self._estimates: dict[str, dict[str, tuple[ClusterSums, str]]] = {}

    def add(self, policy: str, estimator: str, sums: ClusterSums, verdict: str) -> None:
        """Take in one more estimate that bears a comparison, given as `sums` by group."""
        self._estimates.setdefault(estimator, {})[policy] = (sums, verdict)

    def compared(self, values: Mapping[str, Mapping[str, float]], policies: Sequence[str]) -> Compared:
        """Compare the estimates of some `policies`; `values`, by estimator and policy, are those that are ranked."""
        differences: list[Difference] = []
        lifts: list[Lift] = []
        ranking: list[PolicyRank] = []
        for estimator in self._options.estimators:
            estimates = {name: kept for name, kept in self._estimates.get(estimator, {}).items() if name in policies}
            if not estimates:
                continue
            family = _EstimatorComparisons(estimator, estimates, self._logged, self._options)
            differences += family.differences
            lifts += family.lifts
            if estimator in values:
                ranking += family.ranking(values[estimator])
        differences.sort(key=lambda row: policies.index(row.policy))  # of each policy by all estimators
        lifts.sort(key=lambda row: policies.index(row.policy))
        return Compared(tuple(differences), tuple(lifts), tuple(ranking))


class _EstimatorComparisons:
    """All comparisons by one estimator, corrected for being several."""

    def __init__(
        self,
        estimator: str,
        estimates: Mapping[str, tuple[ClusterSums, str]],
        logged: ClusterSums,
        options: EvaluationOptions,
    ) -> None:
        self._estimator = estimator
        self._estimates = estimates
        self._logged = logged
        self._options = options
        pairs = [
            (policy, other) for place, policy in enumerate(estimates) for other in [LOGGED, *estimates][: place + 1]
        ]
        sums = {pair: difference(self._sums(pair[0]), self._sums(pair[1])) for pair in pairs}
        drawn = bootstraps(list(sums.values()), samples=options.samples, seed=options.seed)
        leads = {pair: self._lead(pair, sums[pair], samples.ratios) for pair, samples in zip(pairs, drawn, strict=True)}
        self._corrected = dict(zip(leads, correct(list(leads.values()), options.level), strict=True))
        self.differences = [self._difference(pair, sums[pair], leads[pair]) for pair in pairs]

    def _sums(self, name: str) -> ClusterSums:
        return self._logged if name == LOGGED else self._estimates[name][0]

    def _lead(self, pair: tuple[str, str], sums: ClusterSums, ratios: FloatArray) -> PairedLead:
        """Return how far the first of a pair is ahead: not at all where they differ by rounding alone."""
        error = standard_error(sums)
        size = max(abs(self._sums(name).value) for name in pair)
        if abs(sums.value) <= ROUNDING * size and error <= ROUNDING * size:
            return PairedLead(0.0, 0.0, ratios)
        return PairedLead(sums.value, error, ratios)

    def _verdict(self, pair: tuple[str, str]) -> str:
        return max((self._estimates[name][1] for name in pair if name != LOGGED), key=WORDS.index)

    def _difference(self, pair: tuple[str, str], sums: ClusterSums, lead: PairedLead) -> Difference:
        corrected = self._corrected[pair]
        is_settled_by_rows = lead.value != 0.0 and math.isfinite(lead.error)
        reach = corrected.below if lead.value > 0.0 else corrected.above
        rows_needed = rows_to_decide(sums, reach) if is_settled_by_rows else None
        value, low, high = corrected.interval(lead)
        verdict = self._verdict(pair)
        return Difference(*pair, self._estimator, value, low, high, corrected.p, rows_needed, verdict)

    @property
    def lifts(self) -> list[Lift]:
        """The differences from the logged choices in shares of what these earned; none where that may be 0."""
        clear_of_zero = asymptotic_interval(self._logged, self._options.level).low
        if clear_of_zero is None or clear_of_zero <= 0.0:
            return []
        rows = float(self._logged.sizes.sum())
        lifts = []
        for row in self.differences:
            if row.other != LOGGED:
                continue
            corrected = self._corrected[row.policy, LOGGED]
            lift = Interval(1.0, 1.0, 1.0)
            if row.low != 0.0 or row.high != 0.0:  # else the two are the same
                lift = ratio_interval(self._sums(row.policy), self._logged, corrected.below, corrected.above)
            ends = (lift.mean, lift.low, lift.high)
            least = (
                0.0 if self._options.reward_range[0] >= 0.0 else -math.inf
            )  # where nobody can earn less than nothing
            value, low, high = (None if end is None else max(end, least) - 1.0 for end in ends)
            assert value is not None
            held = None if row.rows_needed is None else rows / row.rows_needed
            lifts.append(Lift(row.policy, self._estimator, value, low, high, held, row.verdict))
        return lifts

    def ranking(self, values: Mapping[str, float]) -> tuple[PolicyRank, ...]:
        """Rank the policies that have `values`."""
        rows = {(row.policy, row.other): row for row in self.differences}
        intervals = {pair: Interval(row.value, row.low, row.high) for pair, row in rows.items()}
        return rank_policies(
            self._estimator,
            values,
            {name: intervals[name, LOGGED] for name in values},
            {name: rows[name, LOGGED].p for name in values},
            {pair: interval for pair, interval in intervals.items() if set(pair) <= set(values)},
        )
