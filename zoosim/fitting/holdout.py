"""The fit of a world on the later part of a log, when it was fitted to the earlier part."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from zoosim.core.errors import DataError
from zoosim.core.statistics import Interval
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.fitting.fit import FittedWorld, fit_world
from zoosim.logs.log import Log
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.intervals.clusters import group_sums, make_clusters
from zoosim.off_policy.intervals.intervals import bootstrap_interval

HELD_OUT = 0.25
DAY = 86_400_000_000
LEAST_ROWS = 20
LEAST_CLICKS = 30
BINS = 10
CHANCE = 1e-6
EXAMPLES = "take the differences in its table as examples, not as facts"


class Share(NamedTuple):
    """A part of the held-out rows, called `name`: clicks observed and expected, with an interval.

    `low` to `high` is where 95% of the clicks lie if the world is right, its own error counted in.
    """

    kind: str
    name: str
    rows: int
    clicks: int
    expected: float
    low: float
    high: float


@dataclass(frozen=True)
class Fit:
    """The fit on `n` held-out rows, the last of a log, of a world fitted to the `n_fitted` rows before.

    `gain` is by how much the table's log likelihood a row exceeds that of one click rate for all, in 1/1,000; above 0
    where segments and categories tell something.
    """

    n: int
    n_fitted: int
    days: int
    clicks: int
    expected: float
    gain: Interval
    shares: tuple[Share, ...]

    @property
    def summary(self) -> dict[str, Any]:
        """All figures as plain values for JSON: what is not finite is None."""
        ends = {key: _finite(value) for key, value in self.gain._asdict().items()}
        plain = {key: getattr(self, key) for key in ("n", "n_fitted", "days", "clicks", "expected")}
        return {**plain, "gain": ends, "shares": [share._asdict() for share in self.shares]}

    @property
    def sentence(self) -> str:
        """A summary of the fit in two sentences, no better than it is."""
        period = f"the last {self.days} day{'s' * (self.days > 1)}" if self.days else "the last quarter of the log"
        whole = next(share for share in self.shares if share.kind == "all")
        chance = "within" if whole.low <= self.clicks <= whole.high else "beyond"
        return (
            f"On {period}, {self.n:,} rows that it was not fitted to, {self.clicks:,} clicks came and the world "
            f"expects {self.expected:,.0f} ({chance} chance). {self._conclusion}."
        )

    @property
    def _conclusion(self) -> str:
        """Say whether the world's table is worth more than a single click rate."""
        if self.clicks < LEAST_CLICKS:
            return f"These are too few clicks to tell whether its segments and categories say anything: {EXAMPLES}"
        telling = "Its segments and categories tell who clicks what {} than one click rate for all"
        if self.gain.low is not None and self.gain.low > 0.0:
            return telling.format("better") + " does"
        if self.gain.high is not None and self.gain.high < 0.0:
            return telling.format("worse") + ": do not use it"
        return f"It cannot be shown that its segments and categories tell more than one click rate for all: {EXAMPLES}"


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None


def split_log(log: Log) -> tuple[Log, Log, int]:
    """Cut a log in order of time in two, whole days where it has several: the rest, the later rows, and their days.

    The later part is the last quarter of the days, or of the rows, where either side of the days has few. Raises
    `DataError` when either has few rows of these, too.
    """
    log = log.in_order()
    later, days = _later(log)
    if min(int(later.sum()), int((~later).sum())) < LEAST_ROWS:
        least = math.ceil(LEAST_ROWS / HELD_OUT)
        raise DataError(
            f"{log.source}: {len(log):,} rows, expected at least {least}, of which the last quarter is held out"
        )
    return log.rows(~later), log.rows(later), days


def _later(log: Log) -> tuple[BoolArray, int]:
    if log.times is not None:
        day = log.times // DAY
        days = np.unique(day)
        n_held_out = max(1, round(HELD_OUT * len(days)))
        later = np.asarray(day >= days[-n_held_out])
        if min(int(later.sum()), int((~later).sum())) >= LEAST_ROWS:
            return later, n_held_out
    return np.arange(len(log)) >= len(log) - int(HELD_OUT * len(log)), 0


def check_fit(log: Log, *, segments: int | None = None, categories: int | None = None) -> Fit:
    """Fit a world to the earlier part of a log, and compare its expected clicks with those of the later part.

    Args and errors are those of `fit_world`; `DataError` also where the log has too few rows to hold any out.
    """
    earlier, later, days = split_log(log)
    world = fit_world(earlier, segments=segments, categories=categories)
    labels = world.segments.assign(later.features)
    table, error = _last_table(world)
    expected = table[labels, world.categories.labels[later.actions]]
    cells = labels * world.categories.n_groups
    cells += world.categories.labels[later.actions]
    rate = (earlier.rewards.sum() + 0.5) / (len(earlier) + 1.0)
    gains = _log_likelihood(later.rewards, expected) - _log_likelihood(later.rewards, np.full(len(later), rate))
    clusters = make_clusters(len(later), later.user_ids)
    shares = _shares(world, later, _Expected(labels, cells, expected, error.ravel(), world.effect))
    gain = bootstrap_interval(group_sums(clusters, Terms(1e3 * gains)))
    figures = (int(later.rewards.sum()), float(expected.sum()))
    return Fit(len(later), len(earlier), days, *figures, gain, tuple(shares))


class _Expected(NamedTuple):
    """Of held-out rows: segments, cells and expected clicks, each `(n,)`; the cells' standard errors, design effect."""

    labels: IntArray
    cells: IntArray
    clicks: FloatArray
    error: FloatArray
    effect: float


def _last_table(world: FittedWorld) -> tuple[FloatArray, FloatArray]:
    """Return the click table as it is at the log's end, and its standard errors: `(segments, categories)` each."""
    table, error = (np.zeros((world.segments.n_groups, world.categories.n_groups)) for _ in range(2))
    for cell in world.cells:  # a cell's later figures come later
        cell_index = world.segment_names.index(cell.segment), world.category_names.index(cell.category)
        table[cell_index] = cell.estimate
        error[cell_index] = (cell.high - cell.low) / 3.92
    return table, error


def _log_likelihood(clicks: FloatArray, chance: FloatArray) -> FloatArray:
    chance = np.clip(chance, CHANCE, 1.0 - CHANCE)
    return np.asarray(clicks * np.log(chance) + (1.0 - clicks) * np.log1p(-chance))


def _shares(world: FittedWorld, later: Log, expectation: _Expected) -> list[Share]:
    """Compare observed with expected clicks: of all rows, by day, segment, category, and tenth of the expectation."""
    n = len(later)
    out = [_share("all", "all", later.rewards, expectation, np.ones(n, bool))]
    parts: list[tuple[str, tuple[str, ...], IntArray]] = [
        ("segment", world.segment_names, expectation.labels),
        ("category", world.category_names, world.categories.labels[later.actions]),
    ]
    days, labels = np.unique(np.zeros(n) if later.times is None else later.times // DAY, return_inverse=True)
    if len(days) > 1:
        names = tuple(str(np.datetime64(int(day), "D")) for day in days)
        parts.insert(0, ("day", names, labels.reshape(-1)))
    tenth = np.argsort(np.argsort(expectation.clicks, kind="stable"), kind="stable") * BINS // n
    parts.append(("tenth", tuple(f"{number} of {BINS}" for number in range(1, BINS + 1)), tenth))
    for kind, names, labels in parts:
        for number, name in enumerate(names):
            mask = labels == number
            if mask.any():
                out.append(_share(kind, name, later.rewards, expectation, mask))
    return out


def _share(kind: str, name: str, rewards: FloatArray, expectation: _Expected, mask: BoolArray) -> Share:
    """Compare the rows of `mask`; the interval counts the chance of clicks, and the errors of the table's cells."""
    expected = expectation.clicks[mask]
    rows = np.bincount(expectation.cells[mask], minlength=len(expectation.error))
    mean = float(expected.sum())
    clicks = int(rewards[mask].sum())
    of_clicks = expectation.effect * float((expected * (1 - expected)).sum())
    variance = of_clicks + float(((rows * expectation.error) ** 2).sum())
    return Share(kind, name, int(mask.sum()), clicks, mean, *_chance(mean, variance))


def _chance(mean: float, variance: float) -> tuple[float, float]:
    """Return where 95% of a count of this mean and variance lie, taken to be gamma distributed: never below 0."""
    if mean <= 0.0 or variance <= 0.0:
        return mean, mean
    shape = mean**2 / variance
    scale = variance / mean
    low, high = (float(special.gammaincinv(shape, p)) * scale for p in (0.025, 0.975))
    return low, high
