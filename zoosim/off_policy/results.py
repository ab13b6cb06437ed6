"""The results of `evaluate`: estimates of policies, their differences, and sentences on both."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.number_format import VISIT, VISITOR, per_visit
from zoosim.core.statistics import Interval
from zoosim.core.tables import Table
from zoosim.core.tabular import TabularResult
from zoosim.core.types import REWARD
from zoosim.off_policy.compare import Difference, Lift
from zoosim.off_policy.estimators.single import DIRECT_METHOD
from zoosim.off_policy.evidence import FEW_REWARDS, RewardedRow
from zoosim.off_policy.intervals.comparisons import PolicyRank
from zoosim.off_policy.overlap import Overlap
from zoosim.off_policy.propensities.deterministic import DETERMINISTIC, Randomisation, plan_sentences
from zoosim.off_policy.propensities.estimate import PropensityFigures
from zoosim.off_policy.sentences import sentences
from zoosim.off_policy.verdict import DO_NOT_USE


class Result(NamedTuple):
    """One policy's value by one estimator; figures are those of the weights that the estimator rests on.

    `value` is NaN for a self-normalised estimator where all weights are 0. `effective_rewards` counts the rewards
    behind the value, the fewer by two counts, of the rewarded rows (Kish 1965) and of all rows, see `count_rewards`;
    `expected_rewards` counts those that as many rows of the log hold on average. Both are NaN where nobody counted.
    `rests_on` names the rows with the largest weight x reward.
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
    effective_rewards: float = math.nan
    expected_rewards: float = math.nan
    rests_on: tuple[RewardedRow, ...] = ()

    @property
    def is_comparable(self) -> bool:
        """True where the estimate bears a comparison with the logged choices.

        It can be used, and rests on `FEW_REWARDS` rewards or more, or should if the policy earned as much as these. The
        direct method need not, where it can be used: its interval knows how few rewards calibrate it.
        """
        is_resting_on_few = self.effective_rewards < FEW_REWARDS and not self.expected_rewards >= FEW_REWARDS
        return self.verdict != DO_NOT_USE and (self.estimator == DIRECT_METHOD or not is_resting_on_few)


@dataclass(frozen=True, repr=False)
class Evaluation(TabularResult):
    """The results of `evaluate`, one per policy and estimator; `logged` is what the log's own choices earned.

    `differences` compare the policies with the logged choices and with one another, by estimator, but only where both
    estimates are comparable, see `Result`: fewer rewards tell nothing apart. `ranking` orders the policies of which
    that holds; `lifts` say how much more they earn than the logged choices, in shares of it; `overlaps` where each
    policy's weights lie, if that was asked for; `notes` are remarks on each. `unit` says what `n` counts, and `per_day`
    how many came a day, None where the log has no times; `level` is that of the intervals. `reward` names what is
    estimated; `others` holds the same figures for the log's other rewards, by name. `propensities` say how the log's
    were estimated, None where it has its own; where it `is_deterministic`, `randomisation` says how much chance would
    make it useful.
    """

    results: tuple[Result, ...]
    differences: tuple[Difference, ...]
    logged: Interval
    n: int
    n_clusters: int
    skipped: Mapping[str, int]
    source: str
    ranking: tuple[PolicyRank, ...] = ()
    lifts: tuple[Lift, ...] = ()
    overlaps: Mapping[str, Overlap] = field(default_factory=dict)
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unit: str = "rows"
    per_day: float | None = None
    reward: str = REWARD
    level: float = 0.95
    others: Mapping[str, "Evaluation"] = field(default_factory=dict)
    propensities: PropensityFigures | None = None
    is_deterministic: bool = False
    randomisation: tuple[Randomisation, ...] = ()

    @property
    def case(self) -> str:
        """What a value is of: a visit, or a visitor where these come back."""
        return VISITOR if self.unit == f"{VISITOR}s" else VISIT

    @property
    def value_unit(self) -> str:
        """The unit of values, such as "clicks per visit"."""
        return per_visit(self.reward, self.case)

    @cached_property
    def table(self) -> pl.DataFrame:
        """One row per policy and estimator; reasons in one string, and without the rows that it rests on."""
        rows = [{**row._asdict(), "reasons": "; ".join(row.reasons)} for row in self.results]
        return pl.DataFrame(rows).drop("rests_on", strict=False)

    def to_polars(self) -> pl.DataFrame:
        """Return `table`, a row per policy and estimator."""
        return self.table

    def _headline(self) -> str:
        n_policies = len({row.policy for row in self.results})
        policies = f"{n_policies} polic{'ies' if n_policies > 1 else 'y'}"
        return f"Evaluation of {policies} by {self.n:,} {self.unit} of {self.source}"

    def _tables(self) -> list[Table]:
        from zoosim.off_policy.tables import evaluation_tables

        return evaluation_tables(self)

    def _page(self) -> str:
        if not self.overlaps:  # which the page draws
            return super()._page()
        from zoosim.report.evaluation import build_page
        from zoosim.report.sections import render_sections

        question = f"What would these policies have earned, by {self.source}?"
        command = ["zoosim", "evaluate", self.source]
        return render_sections("Policies judged by a log", question, build_page(self), command)

    def with_notes(self, notes: Mapping[str, tuple[str, ...]]) -> "Evaluation":
        """Return the same with further notes on some policies."""
        merged = {name: (*self.notes.get(name, ()), *notes.get(name, ())) for name in {**self.notes, **notes}}
        return replace(self, notes=merged)

    @property
    def remarks(self) -> list[str]:
        """Remarks on the log as a whole."""
        lines = [] if self.propensities is None else [self.propensities.sentence]
        if self.is_deterministic:
            lines += [DETERMINISTIC, *plan_sentences(self.randomisation)]
        return lines

    @property
    def by_reward(self) -> "dict[str, Evaluation]":
        """The figures of each reward, the objective first."""
        return {self.reward: self, **self.others}

    @property
    def summary(self) -> dict[str, Any]:
        """All figures as plain values for JSON: what is not finite is None."""
        return {
            "schema_version": 1,
            "log": self.source,
            "rows": self.n,
            "clusters": self.n_clusters,
            "rows_per_day": self.per_day,
            "skipped": dict(self.skipped),
            "reward": self.reward,
            **self._figures,
            "others": {name: other._figures for name, other in self.others.items()},
            "sentences": sentences(self),
            "notes": {name: list(lines) for name, lines in self.notes.items() if lines},
            "remarks": self.remarks,
            "propensities": None if self.propensities is None else self.propensities.plain,
            "is_deterministic": self.is_deterministic,
            "randomisation": [_plain(plan._asdict()) for plan in self.randomisation],
        }

    @property
    def _figures(self) -> dict[str, Any]:
        """All figures of one reward."""
        return {
            "logged": _plain(self.logged._asdict()),
            "results": [_plain_result(row) for row in self.results],
            "differences": [_plain(row._asdict()) for row in self.differences],
            "lifts": [_plain(row._asdict()) for row in self.lifts],
            "ranking": [_plain(row._asdict()) for row in self.ranking],
        }


def _plain_result(result: Result) -> dict[str, Any]:
    """Return a result as plain values; the rows that it rests on are one mapping each."""
    return {**_plain(result._asdict()), "rests_on": [_plain(row._asdict()) for row in result.rests_on]}


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return values without NaN, infinity and tuples."""
    lists = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
    return {key: None if isinstance(value, float) and not np.isfinite(value) else value for key, value in lists.items()}
