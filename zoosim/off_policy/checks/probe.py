"""Quantities that checks of a log share: the order of its rows, keys of its contexts, and residuals of its rewards."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy import special

from zoosim.core.arrays import codes_of, evenly_spread
from zoosim.core.durations import DAY, HOUR
from zoosim.core.jit import jit
from zoosim.core.rng import mix
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.off_policy.checks.groups import (
    RowGroups,
    VarianceRatio,
    group_growth,
    neighbour_groups,
    shared_number_groups,
    time_groups,
)
from zoosim.off_policy.checks.rows import rows_in_words
from zoosim.off_policy.intervals.clusters import Clusters

SAMPLE = 10_000
"""Rows that models of the checks are fitted to."""

MOST_FEATURES = 30
"""Columns of features that models of the checks use: the first ones that vary."""

PSEUDO_ROWS = 10.0
"""For how many rows the mean of all actions counts beside those of one action."""

SORTED = 0.2
"""Steps down for each step up from one row to the next, or the other way, from which on down a column is sorted."""

FEW_STEPS = 10
"""Or as few steps in all, where chance would make twice as many."""

MEASURED_ROWS = 1_000
FEWEST_NUMBERS = 10
"""Rows that tell whether a column holds measured numbers, and how many of them must differ."""


VISITOR_ROWS = 100
"""Rows per measured number up to which these may be the visits of one visitor."""

REPEATED = 0.1
"""Share of rows with a number that another row has, too, from which on it comes again."""

OWN_IDS = 0.9
"""Users per row from which on a log names visits rather than users."""

SURE_SLOPE = 3.0
"""Standard errors from which on rewards go by a feature, whoever else comes."""

CHANCE = 5e-4
"""Probability that a sound log fails a check by chance."""

LEAST_ROWS = 30
"""Rows of an action that tell of it."""

DAYS_FOR_HOURS, DAYS_FOR_WEEKDAYS = 3, 21
"""Days that a log must span to tell what comes again each day, and each week."""


def sure_errors(tests: int) -> float:
    """Return the standard errors that one of so many tests exceeds by `CHANCE` (Bonferroni)."""
    return -float(special.ndtri(CHANCE / 2.0 / max(1, tests)))


def runs_of_rows(n: int, n_runs: int, most: int) -> IntArray:
    """Return all of `n` rows, or where they are more than `most`, so many in runs of neighbours, spread evenly."""
    if n <= most:
        return np.arange(n)
    length = most // n_runs
    starts = np.linspace(0, n - length, n_runs).astype(np.int64)
    return (starts[:, None] + np.arange(length)).ravel()


class Probe:
    """A log of single products under examination.

    Args:
        log: The log, with propensities.
        clusters: Which of its visits belong together.
        user_share: Users per row, of the whole log where this is a part.
    """

    def __init__(self, log: Log, clusters: Clusters, user_share: float) -> None:
        self.log = log
        self.clusters = clusters
        self.user_share = user_share

    def __len__(self) -> int:
        return len(self.log)

    @cached_property
    def order(self) -> IntArray | None:
        """The rows in order of time `(n,)`; as the log has them where it has no times, None where those are sorted."""
        times = self.log.times
        n = len(self.log)
        if times is None:
            return None if self._is_sorted else np.arange(n)
        if (times[1:] >= times[:-1]).all():
            return np.arange(n)
        return np.argsort(times, kind="stable")

    @cached_property
    def _is_sorted(self) -> bool:
        """True if rows without times are sorted by what they hold, so that their order says nothing of time."""
        log = self.log
        start = slice(0, SAMPLE)
        columns = [log.actions, log.rewards, *log.features[:, self.columns].T]
        single = [column for column in columns if column.ndim == 1]
        return any(_is_sorted(np.asarray(column[start], np.float64)) for column in single)

    @cached_property
    def sample(self) -> IntArray:
        """Rows spread evenly over the log, in its order."""
        return evenly_spread(len(self.log), SAMPLE)

    @cached_property
    def columns(self) -> IntArray:
        """The columns of features that checks use."""
        return np.flatnonzero(self.log.features[self.sample].std(axis=0) > 0.0)[:MOST_FEATURES]

    def feature_name(self, column: int) -> str:
        """Return what the log calls a column of features."""
        names = self.log.visitor_features
        return names[column] if column < len(names) else f"column {column}"

    @cached_property
    def inputs(self) -> FloatArray:
        """The features that rewards and probabilities may go by, with means near 0 and variances near 1 `(n, d)`."""
        few = self.log.features[self.sample][:, self.columns]
        features = np.ascontiguousarray(self.log.features, np.float64)
        return _scaled(features, self.columns, few.mean(axis=0), 1.0 / few.std(axis=0))

    @cached_property
    def visitor_keys(self) -> IntArray:
        """A number for each row's features, the same for the same ones `(n,)`."""
        return row_keys(self.log.features)

    @cached_property
    def names_users(self) -> bool:
        """True if the log says which rows are of the same user, and does not merely give each row an id."""
        return self.log.user_ids is not None and self.user_share <= OWN_IDS

    @cached_property
    def users(self) -> IntArray:
        """The number of each row's user, from 0; of its own where the log names none `(n,)`."""
        if not self.names_users or self.log.user_ids is None:
            return np.arange(len(self))
        return codes_of(self.log.user_ids)

    @cached_property
    def visitor_of_row(self) -> IntArray | None:
        """A number for each row's visitor, by the measured numbers that come again `(n,)`; None without any.

        Whole numbers, and steps of a scale, are shared by visitors; a measured number by next to none.
        """
        columns = [column for column in self.measured if self._is_of_visitors(column)]
        if not columns:
            return None
        return codes_of(row_keys(self.log.features[:, columns]))

    @cached_property
    def measured(self) -> list[int]:
        """The columns of features that hold measured numbers."""
        return [int(column) for column in self.columns if is_measured(self.log.features[self.sample, column])]

    def _is_of_visitors(self, column: int) -> bool:
        """Return whether a measured number comes again, but not so often that many visitors must share it."""
        distinct = len(np.unique(self.log.features[:, column]))
        return VISITOR_ROWS * distinct >= len(self) and distinct < (1.0 - REPEATED) * len(self)

    @cached_property
    def repeated(self) -> float:
        """The share of rows, or of users that the log names, that repeat the measured numbers of another one."""
        if self.visitor_of_row is None:
            return 0.0
        visitors = int(self.visitor_of_row.max()) + 1
        # Pairs of numbers and user, so that what a named user's own rows repeat does not count.
        pairs = len(np.unique(self.visitor_of_row * (int(self.users.max()) + 1) + self.users))
        return 1.0 - visitors / pairs

    @cached_property
    def people(self) -> IntArray | None:
        """The number of the user behind each row, by ids or by measured numbers `(n,)`; None where nothing tells."""
        return self.users if self.names_users else self.visitor_of_row

    @cached_property
    def groups(self) -> list[RowGroups]:
        """Groups of rows that share something: a time, a place in the log, a number."""
        groups = time_groups(self.log.times)
        if self.order is not None:
            groups += neighbour_groups(self.order)
        return groups + shared_number_groups(self.log, self.measured)

    @cached_property
    def reward_growths(self) -> list[VarianceRatio]:
        """The growth in variance of reward sums over the groups, relative to independent users."""
        values = self.without_cycles(of_unit_size(self.residuals))
        return [group_growth(values - values.mean(), self.users, group.of_row) for group in self.groups]

    @cached_property
    def every_row(self) -> str:
        """All rows in words, for findings that rest on no rows more than on others."""
        return self.rows_in_words(np.ones(len(self), bool))

    def rows_in_words(self, is_named: BoolArray, how: str = "") -> str:
        """Return which rows of the source a finding rests on, to be put behind it, such as " (rows 3, 8 and 12)"."""
        return rows_in_words(self.log.row_numbers[is_named], how)

    @cached_property
    def residuals(self) -> FloatArray:
        """Rewards less what actions and features explain `(n,)`."""
        return self.residuals_of(self.log.rewards)

    @cached_property
    def unselected_residuals(self) -> FloatArray:
        """Rewards less what actions, features and propensities explain `(n,)`: they hold what the logger knew."""
        p = self.log.propensities[:, None]
        return self._residuals([self.inputs, np.log(p), p], self.log.rewards)

    def without_cycles(self, values: FloatArray) -> FloatArray:
        """Return `values (n,)` less their means at each hour of the day and on each weekday, which come again."""
        times = self.log.times
        if times is None:
            return values
        hours = times // HOUR
        days = (int(times.max()) - int(times.min())) // DAY
        if days >= DAYS_FOR_HOURS:
            values = values - _means(values, hours % 24)
        if days >= DAYS_FOR_WEEKDAYS:
            values = values - _means(values, hours // 24 % 7)
        return values

    def residuals_of(self, values: FloatArray) -> FloatArray:
        """Return `values (n,)` less a linear model of actions and features."""
        return self._residuals([self.inputs], values)

    def by_visitors(self, values: FloatArray) -> FloatArray:
        """Return how `values (n,)` go by features alone, by those whose slopes in a linear model are surely not 0."""
        features = self.inputs - self.inputs.mean(axis=0)
        few = features[self.sample]
        few_values = values[self.sample] - values[self.sample].mean()
        inverse = np.linalg.inv(few.T @ few + np.eye(few.shape[1]))
        slopes = inverse @ (few.T @ few_values)
        residuals = few_values - few @ slopes
        # Of rows of different weights residuals differ in size (White 1980).
        errors = np.sqrt(np.maximum(np.diag(inverse @ (few.T @ (residuals[:, None] ** 2 * few)) @ inverse), 1e-300))
        return np.asarray(features @ np.where(np.abs(slopes) > SURE_SLOPE * errors, slopes, 0.0))

    def _residuals(self, inputs: Sequence[FloatArray], values: FloatArray) -> FloatArray:
        return fit_residuals(inputs, self.log.actions, values[:, None], self.log.n_actions, self.sample)[:, 0]


def of_unit_size(values: FloatArray) -> FloatArray:
    """Return `values (n,)` divided by the largest size among them, so that powers of them are finite."""
    return np.asarray(values / max(1e-300, float(np.abs(values).max())))


def fit_residuals(
    inputs: Sequence[FloatArray], actions: IntArray, values: FloatArray, n_actions: int, sample: IntArray
) -> FloatArray:
    """Return `values (n, m)` less a model: a mean per action, shrunk towards that of all, and slopes that they share.

    Slopes of the `inputs`, each `(n, d)`, are fitted to the rows of the `sample`, means to all rows.
    """
    residuals: FloatArray = values - values.mean(axis=0)
    few_actions = actions[sample]
    few_inputs = np.column_stack([part[sample] for part in inputs])
    few_inputs = few_inputs - few_inputs.mean(axis=0)
    if few_inputs.shape[1]:
        # Within actions, so that slopes do not take over what actions differ in.
        within = few_inputs - _action_means(few_inputs, few_actions, n_actions)[few_actions]
        few_values = residuals[sample] - _action_means(residuals[sample], few_actions, n_actions)[few_actions]
        # The ridge of 1 leaves a solution where an input does not vary among the rows of any action.
        slopes = np.linalg.solve(within.T @ within + np.eye(within.shape[1]), within.T @ few_values)
        start = 0
        for part in inputs:
            residuals -= part @ slopes[start : start + part.shape[1]]
            start += part.shape[1]
        residuals -= residuals.mean(axis=0)
    return residuals - _action_means(residuals, actions, n_actions)[actions]


def row_keys(values: FloatArray | IntArray, keys: IntArray | None = None) -> IntArray:
    """Return a number per row of `values (n, ...)`, and of earlier `keys (n,)` if given: the same for the same row.

    Different rows have the same one by a chance of one in 2^64.
    """
    table = np.ascontiguousarray(values).reshape(len(values), -1)
    bits: IntArray = table.astype(np.int64) if table.dtype.kind == "i" else table.astype(np.float64).view(np.int64)
    return _row_keys(bits, np.zeros(len(bits), np.int64) if keys is None else keys)


def is_measured(values: FloatArray) -> bool:
    """Return whether `values (n,)` are measured numbers: many, and not on even steps as whole numbers are."""
    few = values[:: max(1, len(values) // MEASURED_ROWS)]
    spread = float(few.std())
    if not spread:
        return False
    distinct = np.unique((few / spread).round(9))
    if len(distinct) < FEWEST_NUMBERS:
        return False
    gaps = np.diff(distinct)
    steps = gaps / gaps.min()
    is_on_scale = np.abs(steps - steps.round()) < 1e-6 * steps
    return float(is_on_scale.mean()) < 0.5


def _is_sorted(values: FloatArray) -> bool:
    """Return whether `values (n,)` rise from row to row and hardly ever fall, or the other way."""
    steps = np.diff(values)
    fewer, more = sorted([int((steps < 0.0).sum()), int((steps > 0.0).sum())])
    counts = np.unique(values, return_counts=True)[1] / len(values)
    # Of rows in random order two neighbours differ with the probability 1 - sum p^2.
    expected = len(steps) * (1.0 - float((counts**2).sum()))
    return expected > 2 * FEW_STEPS and (fewer < SORTED * more or fewer + more < FEW_STEPS)


def _means(values: FloatArray, group: IntArray) -> FloatArray:
    """Return for each row the mean of `values (n,)` over its `group (n,)`."""
    return np.asarray((np.bincount(group, values) / np.maximum(np.bincount(group), 1))[group])


def _action_means(values: FloatArray, actions: IntArray, n_actions: int) -> FloatArray:
    """Return the mean of `values (n, m)` per action, shrunk towards 0 `(K, m)`."""
    rows = np.bincount(actions, minlength=n_actions) + PSEUDO_ROWS
    sums = np.stack([np.bincount(actions, column, n_actions) for column in values.T], axis=1)
    return sums / rows[:, None]


@jit
def _row_keys(bits: IntArray, keys: IntArray) -> IntArray:
    out = np.empty(bits.shape[0], np.int64)
    for i in range(bits.shape[0]):
        key = np.uint64(keys[i])
        for j in range(bits.shape[1]):
            # Mixed again after each column, so that the same numbers in another order give another key.
            key = mix(np.uint64(key ^ mix(np.uint64(bits[i, j]))))
        out[i] = np.int64(key)
    return out


@jit
def _scaled(features: FloatArray, columns: IntArray, centre: FloatArray, scale: FloatArray) -> FloatArray:
    out = np.empty((features.shape[0], columns.shape[0]))
    for i in range(features.shape[0]):
        for j in range(columns.shape[0]):
            out[i, j] = (features[i, columns[j]] - centre[j]) * scale[j]
    return out
