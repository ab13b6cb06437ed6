"""Changes of what a log holds against its first period: visitors, rewards, propensities and products.

Decisions are compared in windows of equally many, of which the first is the first period; of each visitor the first one
in each counts, since later ones of the same visitor say nothing new. Those who come often are a smaller part of the
visitors of a longer period, so all have one length. Columns of times are left out, which go on, and embeddings.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.number_format import counted, percent, significant
from zoosim.core.tabular import TabularResult
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.monitoring.windows import QUANTILES, counts_above, cuts_of, level_in_window, share_p_values
from zoosim.schema.columns import AnyColumn, CategoryColumn, WordsColumn, YesNoColumn
from zoosim.schema.encoder import parts
from zoosim.schema.number_columns import NumberColumn

if TYPE_CHECKING:
    from zoosim.core.tables import Table

WINDOW = 2_000
"""Decisions of the first period, and of each window behind it."""

FEWEST = 100
"""The fewest decisions of a window."""

LEVEL = 0.05
"""The most probability that anything is ever told of a log in which nothing changes."""

NEW = 0.01
"""Share of the first period below which a level counts as new."""

ANOTHER, MISSING = "another level", "missing"


@dataclass(frozen=True)
class Finding:
    """A change that goes on in the newest window.

    Attributes:
        part: "visitor", "reward", "propensity" or "products".
        name: The column, or the reward.
        what: What changed, in words.
        since: When the first decision came of the first window that has shown it ever since.
        cost: What it costs, in words.
        advice: What to do about it.
    """

    part: str
    name: str
    what: str
    since: str
    cost: str
    advice: str

    def __str__(self) -> str:
        return f"{self.name}: {self.what}, since {self.since}; {self.cost}; {self.advice}"


@dataclass(frozen=True, repr=False)
class Drift(TabularResult):
    """Result of a comparison of a log's newest window with its first period.

    Attributes:
        findings: What changed, the most significant first.
        source: What the log is called.
        window: Decisions of the first period, and of each window behind it.
        n_windows: How many windows were compared.
        n_tests: How many tests each of them had.
        level: The most probability that anything would be told, in any window, if nothing changed.
    """

    findings: Sequence[Finding]
    source: str
    window: int
    n_windows: int
    n_tests: int
    level: float

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return asdict(self)

    @property
    def sentences(self) -> list[str]:
        """Comparison in words: what was looked at, and each change, a line each."""
        return [self._headline(), *map(str, self.findings)]

    def _headline(self) -> str:
        compared = f"{counted(self.n_windows, 'window')} of {self.window:,} decisions"
        against = f"compared with the first {self.window:,}"
        what = counted(len(self.findings), "change") if self.findings else "nothing changed"
        bound = f"false alarms: at most {percent(self.level)} of logs ever have one"
        return f"{self.source}: {what}; {compared} {against}; {bound}"

    def _tables(self) -> "list[Table]":
        from zoosim.core.tables import Column, Table

        heads = ("name", "what", "since", "cost", "advice")
        columns = [
            Column(head, [getattr(finding, head) for finding in self.findings], is_text=True, is_essential=True)
            for head in heads
        ]
        return [Table("Changes", columns)] if self.findings else []


class _Shares(NamedTuple):
    """Comparison of the shares of rows that each of the `labels` of a column holds for, by `cells (n, len(labels))`."""

    part: str
    name: str
    labels: tuple[str, ...]
    cells: BoolArray


class _Numbers(NamedTuple):
    """Comparison of a column of numbers `(n,)`; `column` writes those of its features as they were sent."""

    part: str
    name: str
    numbers: FloatArray
    column: NumberColumn | None = None

    def written(self, number: float) -> str:
        """Write a number for people."""
        value = number if self.column is None else self.column.decode_one(np.array([number, 0.0]))
        return significant(float(value), 3)


class _Comparison(NamedTuple):
    """A measure in two periods: counts by cell, of how many rows, their p-values, and the cuts of numbers."""

    before: IntArray
    n_before: int
    after: IntArray
    n_after: int
    p_values: FloatArray
    cuts: FloatArray

    @property
    def shares(self) -> tuple[FloatArray, FloatArray]:
        """The shares before and after."""
        return self.before / self.n_before, self.after / self.n_after


_Measure = _Shares | _Numbers


def find_drift(log: Log, *, window: int = WINDOW, level: float = LEVEL) -> Drift:
    """Compare the newest whole window of a log with its first period, and say since when what changed.

    Rows of a period are taken to come in any order, so a window should span what changes anyhow, such as a week.

    Args:
        log: Decisions on products.
        window: How many decisions the first period and each window have, at least 100.
        level: The most probability, above 0 and below 1, that anything is ever told of a log in which nothing changes,
            however many windows there are.

    Raises:
        ConfigError: an option is out of range.
        DataError: the log has no whole window, or decisions on other things than single products.
    """
    if isinstance(window, bool) or not isinstance(window, int) or window < FEWEST:
        raise ConfigError(f"window: got {window!r}, expected a whole number of decisions, at least {FEWEST}")
    if not 0.0 < level < 1.0:
        raise ConfigError(f"level: got {level!r}, expected a probability above 0 and below 1")
    if log.propensities.ndim != 1 or log.a_max:
        raise DataError(f"{log.source}: holds {log.action_space}, expected decisions on single products")
    if len(log) < 2 * window:
        needed = f"expected at least {2 * window:,}: a first period and a window of {window:,} each"
        raise DataError(f"{log.source}: has {counted(len(log), 'decision')}, {needed}")
    return _Search(log.in_order(), window, level).result()


class _Search:
    """Compares each window with the first period, and keeps since when measures differ."""

    def __init__(self, log: Log, window: int, level: float) -> None:
        self._log = log
        self._window = window
        self._level = level
        self._measures: list[_Measure] = [*_visitor_measures(log), *_outcome_measures(log)]
        cells = [len(each.labels) if isinstance(each, _Shares) else len(QUANTILES) for each in self._measures]
        self._n_tests = sum(cells) + log.n_actions
        self._first_rows = self._first_of_visitors(0)

    def result(self) -> Drift:
        """Return what differs in the newest window."""
        began: dict[tuple[str, str], int] = {}
        found: list[tuple[float, Finding]] = []
        n_windows = len(self._log) // self._window - 1
        for number in range(1, n_windows + 1):
            start = number * self._window
            level = level_in_window(self._level, number, self._n_tests)
            rows = self._first_of_visitors(start)
            found = []
            differing = dict[tuple[str, str], int]()
            for p_value, finding in self._compared(rows, start, level, began):
                key = finding.part, finding.name
                differing[key] = began.get(key, start)
                found.append((p_value, finding))
            began = differing
        found.sort(key=lambda pair: pair[0])
        findings = [finding for _, finding in found]
        return Drift(findings, self._log.source, self._window, n_windows, self._n_tests, self._level)

    def _compared(
        self, rows: IntArray, start: int, level: float, began: dict[tuple[str, str], int]
    ) -> Iterator[tuple[float, Finding]]:
        """Yield what differs in a window, with its p-value; `began` says of earlier changes since which row."""
        for measure in self._measures:
            comparison = _compare(measure, self._first_rows, rows)
            if comparison.p_values.min() <= level:
                since = self._time_of(began.get((measure.part, measure.name), start))
                yield float(comparison.p_values.min()), self._finding(measure, comparison, rows, since)
        yield from self._compared_products(rows, start, level, began)

    def _compared_products(
        self, rows: IntArray, start: int, level: float, began: dict[tuple[str, str], int]
    ) -> Iterator[tuple[float, Finding]]:
        """Yield which products are no longer offered, and which ones are that were not."""
        before, after = self._offers(self._first_rows), self._offers(rows)
        p_values = share_p_values(before, len(self._first_rows), after, len(rows))
        for name, is_gone, others in (("products gone", True, after), ("new products", False, before)):
            changed = np.flatnonzero((p_values <= level) & (others == 0))
            if not len(changed):
                continue
            names = ", ".join(self._log.action_name(int(product)) for product in changed[:3])
            listed = f"{names} and {len(changed) - 3:,} more" if len(changed) > 3 else names
            since = self._time_of(began.get(("products", name), start))
            period = self._first_rows if is_gone else rows
            showed = percent(float(np.isin(self._log.actions[period], changed).mean()))
            if is_gone:
                what = f"no longer offered: {listed}"
                cost = f"{showed} of the first period's decisions showed what cannot be shown now"
                advice = "check the feed of products; hide on purpose what is to be hidden"
            else:
                what = f"offered, and not before: {listed}"
                cost = f"{showed} of the newest decisions showed what the first period says nothing of"
                advice = "keep exploration above 0 until they are known, and judge policies by decisions since then"
            yield float(p_values[changed].min()), Finding("products", name, what, since, cost, advice)

    def _finding(self, measure: _Measure, comparison: _Comparison, rows: IntArray, since: str) -> Finding:
        """Say what differs of a measure most significantly, what that costs, and what to do."""
        before, after = comparison.shares
        place = int(comparison.p_values.argmin())
        if isinstance(measure, _Shares):
            label = measure.labels[place]
            what = f"{label} in {percent(float(after[place]))} of visits, {percent(float(before[place]))} before"
            cost, advice = _cost_of_shares(measure, comparison, place, since)
        elif measure.part == "visitor":
            above = f"above {measure.written(float(comparison.cuts[place]))}"
            what = f"{above} in {percent(float(after[place]))} of visits, {percent(float(before[place]))} before"
            moved = percent(float(np.abs(after - before).max()))
            cost = f"about {moved} of visitors are others than the first period's"
            advice = _learn_since(since)
        else:
            own_mean, first_mean = (float(measure.numbers[each].mean()) for each in (rows, self._first_rows))
            what = f"{significant(own_mean, 3)} on average, {significant(first_mean, 3)} before"
            if measure.part == "reward":
                cost, advice = _cost_of_rewards(own_mean - first_mean)
            else:
                cost, advice = self._cost_of_propensities(rows)
        return Finding(measure.part, measure.name, what, since, cost, advice)

    def _cost_of_propensities(self, rows: IntArray) -> tuple[str, str]:
        own_size, first_size = (self._effective_size(each) for each in (rows, self._first_rows))
        least, first_least = (float(self._log.propensities[each].min()) for each in (rows, self._first_rows))
        cost = (
            f"an estimate of an even choice rests on {own_size:,.0f} effective decisions of {len(rows):,}, on "
            f"{first_size:,.0f} of {len(self._first_rows):,} before (least propensity {significant(least, 2)}, "
            f"{significant(first_least, 2)} before)"
        )
        if own_size / len(rows) < first_size / len(self._first_rows):
            return cost, "raise exploration if other policies are to be judged by this log"
        return cost, "other policies can be judged better than before"

    def _effective_size(self, rows: IntArray) -> float:
        """Return the effective number of decisions (Kish 1965) by which an even choice is judged."""
        log = self._log
        lengths = np.diff(log.candidates.starts)
        sizes = log.n_actions - lengths if log.candidates.are_lacking else lengths
        weights = 1.0 / (sizes[log.candidate_set[rows]] * log.propensities[rows])
        return float(weights.sum() ** 2 / np.square(weights).sum())

    def _offers(self, rows: IntArray) -> IntArray:
        """Return in how many rows each product was a candidate `(K,)`."""
        candidates = self._log.candidates
        sets, counts = np.unique(self._log.candidate_set[rows], return_counts=True)
        # By lists: a mask of each set would take gigabytes where a catalogue is large.
        owner, products = candidates.lists(sets).flat()
        listed = np.bincount(products, weights=counts[owner], minlength=self._log.n_actions).astype(np.int64)
        return np.asarray(len(rows) - listed if candidates.are_lacking else listed)

    def _first_of_visitors(self, start: int) -> IntArray:
        """Return the rows of the window that begins at a row, of each visitor the first."""
        stop = start + self._window
        if self._log.user_ids is None:
            return np.arange(start, stop)
        _, first = np.unique(self._log.user_ids[start:stop], return_index=True)
        return np.asarray(start + np.sort(first))

    def _time_of(self, row: int) -> str:
        """Return when a row came, in words; its number where the log has no times."""
        if self._log.times is None:
            return f"decision {row + 1:,}"
        moment = datetime.fromtimestamp(float(self._log.times[row]) / MICROSECONDS, UTC)
        return moment.strftime("%Y-%m-%d %H:%M UTC")


def _visitor_measures(log: Log) -> Iterator[_Measure]:
    """Yield what is compared of visitors."""
    if log.fitted is None:
        for place, name in enumerate(log.visitor_features):
            yield _Numbers("visitor", name, log.features[:, place])
        return
    places = parts(log.fitted.visitors)
    for column in log.fitted.visitors.columns:
        features = log.features[:, places[column.name]]
        missing = features[:, -1] > 0.0 if column.missing else np.zeros(len(log), bool)
        if isinstance(column, NumberColumn):
            yield _Numbers("visitor", column.name, features[:, 0], column)
            yield _Shares("visitor", f"{column.name} ({MISSING})", (MISSING,), missing.reshape(-1, 1))
        else:
            yield from _level_measures(column, features, missing)


def _level_measures(column: AnyColumn, features: FloatArray, missing: BoolArray) -> Iterator[_Measure]:
    """Yield the shares of a column's levels, of what is no level, and of what is missing."""
    if isinstance(column, YesNoColumn):
        labels: tuple[str, ...] = ("yes",)
        cells = features[:, :1] > 0.0
    elif isinstance(column, CategoryColumn | WordsColumn):
        n_levels = len(column.levels)
        stop = features.shape[1] - column.missing
        labels = (*column.levels, ANOTHER)
        another = (features[:, n_levels:stop] > 0.0).any(axis=1)
        cells = np.column_stack([features[:, :n_levels] > 0.0, another])
    else:
        return
    yield _Shares("visitor", column.name, (*labels, MISSING), np.column_stack([cells, missing]))


def _outcome_measures(log: Log) -> Iterator[_Measure]:
    """Yield rewards and propensities."""
    yield _Numbers("reward", log.objective, log.rewards)
    for name in log.other_rewards:
        yield _Numbers("reward", name, log.rewards_by_name[name])
    if log.has_propensities:
        yield _Numbers("propensity", "propensity", log.propensities)


def _compare(measure: _Measure, before: IntArray, after: IntArray) -> _Comparison:
    """Compare a measure in two periods, given by their rows."""
    n_before, n_after = len(before), len(after)
    cuts = np.zeros(0)
    if isinstance(measure, _Shares):
        hits_before = measure.cells[before].sum(axis=0)
        hits_after = measure.cells[after].sum(axis=0)
    else:
        cuts = cuts_of(measure.numbers[before], measure.numbers[after])
        hits_before = counts_above(measure.numbers[before], cuts)
        hits_after = counts_above(measure.numbers[after], cuts)
    p_values = share_p_values(hits_before, n_before, hits_after, n_after)
    return _Comparison(hits_before, n_before, hits_after, n_after, p_values, cuts)


def _cost_of_shares(measure: _Shares, comparison: _Comparison, place: int, since: str) -> tuple[str, str]:
    """Say what other shares of a column cost, and what to do; `place` is the label that differs most significantly."""
    before, after = comparison.shares
    moved = percent(float(np.abs(after - before).sum() / 2.0) if len(before) > 1 else float(abs(after - before)[0]))
    cost = f"about {moved} of visitors are others than the first period's"
    label = measure.labels[place]
    if after[place] > before[place] and before[place] < NEW and label != MISSING:
        cost += f", of whom {comparison.before[place]:,} of {comparison.n_before:,} were {label}"
    if label == MISSING and after[place] > before[place]:
        return cost, "check what sends the column"
    if label == ANOTHER and after[place] > before[place]:
        return cost, "check what sends the column; if its levels are right, let the schema grow or train a model anew"
    return cost, _learn_since(since)


def _cost_of_rewards(change: float) -> tuple[str, str]:
    """Say what another mean reward costs, and what to do."""
    amount = significant(abs(1_000.0 * change), 3)
    if change < 0.0:
        advice = "check that rewards still arrive, then what is shown; an arm that is held back says what visitors do"
        return f"{amount} less per 1,000 decisions", advice
    return f"{amount} more per 1,000 decisions", "judge policies by decisions since then alone"


def _learn_since(since: str) -> str:
    return f"judge policies, and train new ones, by decisions since {since}"
