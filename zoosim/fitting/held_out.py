"""The fit of a world, made of the earlier rows of a log, to the later ones, which it has not seen."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import special

from zoosim.core.arrays import codes_of
from zoosim.core.durations import DAY, HOUR
from zoosim.core.errors import DataError
from zoosim.core.number_format import counted
from zoosim.core.statistics import Interval
from zoosim.core.types import BoolArray, FloatArray, IntArray, Progress
from zoosim.fitting.columns import ColumnGain, column_gains, log_likelihood
from zoosim.fitting.fit import HOURS, FittedModels, fit_shop
from zoosim.logs.log import Log
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.intervals.clusters import group_sums, make_clusters
from zoosim.off_policy.intervals.intervals import bootstrap_interval
from zoosim.worlds.fitted.shop import FittedShop

HELD_OUT = 0.25
LEAST_ROWS = 20
LEAST_RESPONSES = 30
BINS = 10
TAILS = (0.025, 0.975)


class Share(NamedTuple):
    """A part of the held-out rows, called `name`: responses observed and expected, with an interval.

    `low` to `high` is where 95% of the responses lie if the world is right, its own error counted in.
    """

    kind: str
    name: str
    rows: int
    responses: int
    expected: float
    low: float
    high: float


@dataclass(frozen=True)
class HeldOut:
    """The fit on `n` held-out rows, the last of a log, of a world fitted to the `n_fitted` rows before.

    `gains` are by how much the world's log likelihood a row exceeds that of simpler models, by name, in 1/1,000;
    `columns`, by how much it falls without a column.
    """

    n: int
    n_fitted: int
    days: int
    responses: int
    expected: float
    gains: dict[str, Interval]
    shares: tuple[Share, ...]
    columns: tuple[ColumnGain, ...] = ()

    @property
    def is_within_chance(self) -> bool:
        """True where as many responses came as chance allows if the world is right."""
        whole = next(share for share in self.shares if share.kind == "all")
        return whole.low <= self.responses <= whole.high

    @property
    def sentence(self) -> str:
        """A summary of the fit in two sentences, no better than it is."""
        period = f"the last {counted(self.days, 'day')}" if self.days else "the last quarter of the log"
        chance = "within" if self.is_within_chance else "beyond"
        conclusion = self.conclusion[0].upper() + self.conclusion[1:]
        return (
            f"On {period}, {self.n:,} rows that it was not fitted to, the world expects {self.expected:,.0f} "
            f"responses, and {self.responses:,} came ({chance} chance). {conclusion}."
        )

    @property
    def is_better_than(self) -> tuple[str, ...]:
        """The simpler models than which the world is shown to tell more."""
        return tuple(name for name, gain in self.gains.items() if gain.low is not None and gain.low > 0.0)

    @property
    def is_worse_than(self) -> tuple[str, ...]:
        """The simpler models that are shown to tell more than the world."""
        return tuple(name for name, gain in self.gains.items() if gain.high is not None and gain.high < 0.0)

    @property
    def conclusion(self) -> str:
        """Say whether the world predicts responses better than simpler models do, as part of a sentence."""
        if self.responses < LEAST_RESPONSES:
            came = f"{counted(self.responses, 'response')} on held-out rows"
            what_to_do = "fit a longer log, and take it as an example until then"
            return f"{came} are too few to judge its predictions by, which takes {LEAST_RESPONSES}: {what_to_do}"
        if self.is_worse_than:
            return f"it predicts responses worse than {' or '.join(self.is_worse_than)}: do not use it"
        if len(self.is_better_than) < len(self.gains):
            others = " or ".join(name for name in self.gains if name not in self.is_better_than)
            return f"it is not shown to predict responses better than {others}: take it as an example, not as a fact"
        return f"it predicts responses better than {' and '.join(self.gains)}"


def with_open_ends(interval: Interval) -> Interval:
    """Return an interval whose infinite ends, which the log leaves open, are None."""
    low, high = (None if end is None or not math.isfinite(end) else end for end in (interval.low, interval.high))
    return Interval(interval.mean, low, high)


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
        # The latest days, not random rows: a world is used for visits that come after its log.
        day = log.times // DAY
        days = np.unique(day)
        n_held_out = max(1, round(HELD_OUT * len(days)))
        later = np.asarray(day >= days[-n_held_out])
        if min(int(later.sum()), int((~later).sum())) >= LEAST_ROWS:
            return later, n_held_out
    return np.arange(len(log)) >= len(log) - int(HELD_OUT * len(log)), 0


def hold_out(log: Log, *, seed: int = 0, progress: Progress = lambda line: None) -> HeldOut:
    """Fit a world to the earlier part of a log, and compare the responses it expects with those of the later part."""
    earlier, later, days = split_log(log)
    progress(f"fitting to the earlier {len(earlier):,} rows")
    models = fit_shop(earlier, seed=seed)
    shop = _at_later_rows(models, earlier, later)
    expected = _expected_responses(shop, later)  # (D, n)
    # The mean over draws is the posterior predictive probability.
    mean = expected.mean(axis=0)
    responses = (later.rewards != 0.0).astype(float)
    clusters = make_clusters(len(later), later.user_ids)
    gains = {}
    for name, simpler in _simpler_models(models, earlier, later).items():
        gain = log_likelihood(responses, mean) - log_likelihood(responses, simpler)
        gains[name] = with_open_ends(bootstrap_interval(group_sums(clusters, Terms(1e3 * gain))))
    shares = _shares(models, later, responses, expected)
    columns = column_gains(models, shop, later)
    columns = tuple(column._replace(gain=with_open_ends(column.gain)) for column in columns)
    expected_responses = float(mean.sum())
    came = int(responses.sum())
    return HeldOut(len(later), len(earlier), days, came, expected_responses, gains, tuple(shares), columns)


def _expected_responses(shop: FittedShop, later: Log) -> FloatArray:
    """Return the probability that each draw of a shop gives each later row's response `(D, n)`."""
    rows = np.arange(len(later))
    return np.array([shop.chances_of(shop.draw(number), rows, later.actions) for number in range(shop.n_draws)])


def _at_later_rows(models: FittedModels, earlier: Log, later: Log) -> FittedShop:
    """Return a shop whose visits are the later rows: known visitors stay who they are, days are new."""
    n_known = models.shop.n_users
    if later.user_ids is None or earlier.user_ids is None:
        users = n_known + np.arange(len(later))
    else:
        known = np.unique(earlier.user_ids)
        # The fit numbers users in the order of their ids, so a place among the sorted ids is the user's number.
        place = np.searchsorted(known, later.user_ids).clip(max=n_known - 1)
        # Numbers beyond all known ones, of which the shop draws effects a priori.
        new = n_known + codes_of(later.user_ids)
        users = np.where(known[place] == later.user_ids, place, new)
    hours = np.zeros(len(later)) if later.times is None else models.hours[later.times // HOUR % HOURS]
    return replace(
        models.shop,
        features=later.features,
        users=users,
        levels=hours,
        segments=models.segments.assign(later.features),
        # All changes lie before the later rows, so they hold from the first of these on.
        changes=tuple(change._replace(row=0) for change in models.shop.changes),
    )


def _simpler_models(models: FittedModels, earlier: Log, later: Log) -> dict[str, FloatArray]:
    """Return the probabilities `(n,)` that simpler models give to the later rows' responses."""
    responses = (earlier.rewards != 0.0).astype(float)
    # The posterior mean under Jeffreys' prior: neither 0 nor 1, whatever came.
    rate = (responses.sum() + 0.5) / (len(earlier) + 1.0)
    simpler = {"the overall response rate": np.full(len(later), rate)}
    categories = models.shop.categories
    if len(models.shop.category_names) > 1:
        counts = np.bincount(categories[earlier.actions], minlength=len(models.shop.category_names))
        sums = np.bincount(categories[earlier.actions], responses, len(counts))
        # One response more, at the overall rate: no category has a rate of 0.
        rates = (sums + 1.0) / (counts + 1.0 / rate)
        simpler["the response rate of each category"] = rates[categories[later.actions]]
    return simpler


def _shares(models: FittedModels, later: Log, responses: FloatArray, expected: FloatArray) -> list[Share]:
    """Compare observed with expected responses: of all rows, by day, segment, category, and tenth of expectation."""
    n = len(later)
    parts: list[tuple[str, tuple[str, ...], IntArray]] = [
        ("all", ("all",), np.zeros(n, np.int64)),
        ("segment", tuple(models.segments.names), models.segments.assign(later.features)),
        ("category", models.shop.category_names, models.shop.categories[later.actions]),
    ]
    times = np.zeros(n, np.int64) if later.times is None else later.times
    days, day = np.unique(times // DAY, return_inverse=True)
    if len(days) > 1:
        names = tuple(str(np.datetime64(int(number), "D")) for number in days)
        parts.insert(1, ("day", names, day.reshape(-1)))
    # Ranks, in which rows of equal expectation stay in their order: tenths are of equal size.
    tenth = np.argsort(np.argsort(expected.mean(axis=0), kind="stable"), kind="stable") * BINS // n
    parts.append(("tenth", tuple(f"{number} of {BINS}" for number in range(1, BINS + 1)), tenth))
    # Days are the fourth of the families of `fit._kinds`; those of later rows are new, so only their variance is known.
    of_days = 0.0 if later.times is None else models.clicks.effects[3].spread
    shares = []
    for kind, names, labels in parts:
        for number, name in enumerate(names):
            rows = labels == number
            if rows.any():
                interval = _response_range(expected[:, rows], day.reshape(-1)[rows], of_days)
                total = float(expected[:, rows].mean(axis=0).sum())
                shares.append(Share(kind, name, int(rows.sum()), int(responses[rows].sum()), total, *interval))
    return shares


def _response_range(expected: FloatArray, day: IntArray, of_days: float) -> tuple[float, float]:
    """Return where 95% of the responses of n rows lie: they differ by chance, by draw, and by what days add to logits.

    Args:
        expected: The probability of each row's response in each draw `(D, n)`.
        day: The number of each row's day `(n,)`; days are independent.
        of_days: The variance of what a day adds to the logits of its rows.
    """
    mean = expected.mean(axis=0)
    by_chance = mean * (1.0 - mean)  # also what a logit more adds to a row's responses
    by_day = np.bincount(day, by_chance)
    variance = by_chance.sum() + expected.sum(axis=1).var() + of_days * (by_day**2).sum()
    return _chance(float(mean.sum()), float(variance))


def _chance(mean: float, variance: float) -> tuple[float, float]:
    """Return where 95% of a count of this mean and variance lie, taken to be gamma distributed: never below 0."""
    if mean <= 0.0 or variance <= 0.0:
        return mean, mean
    scale = variance / mean
    shape = mean / scale  # not mean**2 / variance: the square of a tiny mean is 0
    low, high = (float(special.gammaincinv(shape, p)) * scale for p in TAILS)
    return low, high
