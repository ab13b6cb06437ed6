"""Compare policies with the logged choices and with one another, on the same rows."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from zoosim.off_policy.intervals.bootstrap import bootstrap
from zoosim.off_policy.intervals.clusters import Sums, difference, ratio, standard_error
from zoosim.off_policy.intervals.comparisons import PairedLead, Ranked, rank_policies
from zoosim.off_policy.intervals.intervals import asymptotic_interval, bootstrap_interval, bootstrap_p, rows_to_decide
from zoosim.off_policy.options import Options
from zoosim.off_policy.verdict import WORDS

LOGGED = "logged"
"""What the log's own choices are called."""


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


class Lift(NamedTuple):
    """How much more `policy` earns than the logged choices, in shares of what these earned: .1 is 10% more.

    `held` is the share of the rows that it would take to show a difference of this size, as in `Difference`, that the
    log holds; None where there is no difference. `verdict` is the one on the policy's estimate.
    """

    policy: str
    estimator: str
    value: float
    low: float | None
    high: float | None
    held: float | None
    verdict: str


class Comparison:
    """Compares each estimate with the logged choices and with those of the same estimator that came before it."""

    def __init__(self, logged: Sums, options: Options) -> None:
        self.differences: list[Difference] = []
        self.lifts: list[Lift] = []
        self._logged = logged
        clear_of_zero = asymptotic_interval(logged, options.level).low
        self._can_divide = clear_of_zero is not None and clear_of_zero > 0.0
        self._least_lift = -1.0 if options.reward_range[0] >= 0.0 else -math.inf
        self._options = options
        self._earlier: dict[tuple[str, str], tuple[Sums, str]] = {}
        self._leads: dict[tuple[str, str, str], PairedLead] = {}

    def add(self, policy: str, estimator: str, sums: Sums, verdict: str) -> None:
        """Compare one more estimate, given as `sums` by group."""
        self._compare(policy, LOGGED, estimator, difference(sums, self._logged), verdict)
        if self._can_divide:
            self._lift(policy, estimator, sums, verdict)
        for (other, other_estimator), (other_sums, other_verdict) in self._earlier.items():
            if other_estimator == estimator:
                worse = max(other_verdict, verdict, key=WORDS.index)
                self._compare(policy, other, estimator, difference(sums, other_sums), worse)
        self._earlier[policy, estimator] = (sums, verdict)

    def _lift(self, policy: str, estimator: str, sums: Sums, verdict: str) -> None:
        """Compare an estimate with the logged choices, to which the last difference belongs."""
        options = self._options
        value, low, high = bootstrap_interval(
            ratio(sums, self._logged), options.level, samples=options.samples, seed=options.seed
        )
        low, high = (None if end is None else max(end - 1.0, self._least_lift) for end in (low, high))
        needed = self.differences[-1].rows_needed
        held = None if needed is None else float(sums.sizes.sum()) / needed
        self.lifts.append(Lift(policy, estimator, value - 1.0, low, high, held, verdict))

    def _compare(self, policy: str, other: str, estimator: str, sums: Sums, verdict: str) -> None:
        options = self._options
        drawn = bootstrap(sums, samples=options.samples, seed=options.seed)
        interval = bootstrap_interval(sums, options.level, drawn=drawn)
        p = bootstrap_p(sums, drawn)
        error = standard_error(sums)
        rows_needed = rows_to_decide(sums, options.level) if math.isfinite(error) else None
        self.differences.append(Difference(policy, other, estimator, *interval, p, rows_needed, verdict))
        self._leads[policy, other, estimator] = PairedLead(sums.value, error, drawn.ratios)

    def ranking(self, values: Mapping[str, Mapping[str, float]]) -> tuple[Ranked, ...]:
        """Rank policies by their `values`, which are by estimator and policy, where there are any."""
        ranked: list[Ranked] = []
        for estimator in self._options.estimators:
            by_policy = values.get(estimator)
            if not by_policy:
                continue
            over_logged = {policy: self._leads[policy, LOGGED, estimator] for policy in by_policy}
            pairs = {
                (policy, other): lead
                for (policy, other, used), lead in self._leads.items()
                if used == estimator and other != LOGGED
            }
            ranked += rank_policies(estimator, by_policy, over_logged, pairs, self._options.level)
        return tuple(ranked)
