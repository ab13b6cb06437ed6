"""How far to believe a fitted world: what it says of the log's own policies, of later days, and of the best choices."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from zoosim.core.errors import DataError
from zoosim.core.rng import stream
from zoosim.core.statistics import Interval
from zoosim.core.types import BoolArray, FloatArray, IntArray, Progress
from zoosim.fitting.fit import HOUR, HOURS, FittedModels, fit_shop
from zoosim.logs.log import Log
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.intervals.clusters import group_sums, make_clusters
from zoosim.off_policy.intervals.intervals import bootstrap_interval
from zoosim.off_policy.verdict import DO_NOT_USE
from zoosim.worlds.fitted.shop import FittedShop

HELD_OUT = 0.25
DAY = HOURS * HOUR
LEAST_ROWS = 20
LEAST_RESPONSES = 30
BINS = 10
CHANCE = 1e-6
TAILS = (0.025, 0.975)
MOST_PAIRS = 300_000
"""Visits x products of each draw by which a world's values are computed."""


class Comparison(NamedTuple):
    """What a policy earns in the fitted world, and by the log, by `estimator`.

    `log` is None where the log cannot tell, and `why_not` says why nothing is compared. Ends that the log leaves open
    are None.
    """

    policy: str
    world: Interval
    log: Interval | None
    estimator: str
    why_not: str = ""

    @property
    def agrees(self) -> bool | None:
        """Whether both intervals have values in common; None where nothing is compared."""
        if self.log is None or self.why_not:
            return None
        return _reaches(self.world.low, self.log.high) and _reaches(self.log.low, self.world.high)


def _reaches(low: float | None, high: float | None) -> bool:
    """Whether an interval that begins at `low` begins before `high`; an open end, None, is no limit."""
    return low is None or high is None or low <= high


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

    `gains` are by how much the world's log likelihood a row exceeds that of simpler models, by name, in 1/1,000.
    """

    n: int
    n_fitted: int
    days: int
    responses: int
    expected: float
    gains: dict[str, Interval]
    shares: tuple[Share, ...]

    @property
    def sentence(self) -> str:
        """A summary of the fit in two sentences, no better than it is."""
        period = f"the last {self.days} day{'s' * (self.days > 1)}" if self.days else "the last quarter of the log"
        whole = next(share for share in self.shares if share.kind == "all")
        chance = "within" if whole.low <= self.responses <= whole.high else "beyond"
        return (
            f"On {period}, {self.n:,} rows that it was not fitted to, {self.responses:,} responses came and the world "
            f"expects {self.expected:,.0f} ({chance} chance). {self._conclusion}."
        )

    @property
    def _conclusion(self) -> str:
        """Say whether the world tells more than simpler models do."""
        if self.responses < LEAST_RESPONSES:
            return "These are too few responses to tell whether it knows who responds to what: take it as an example"
        better = [name for name, gain in self.gains.items() if gain.low is not None and gain.low > 0.0]
        worse = [name for name, gain in self.gains.items() if gain.high is not None and gain.high < 0.0]
        if worse:
            return f"It tells who responds to what worse than {' or '.join(worse)} does: do not use it"
        if len(better) < len(self.gains):
            others = " or ".join(name for name in self.gains if name not in better)
            return f"It cannot be shown that it tells more than {others}: take it as an example, not as a fact"
        return f"It tells who responds to what better than {' and '.join(self.gains)}"


@dataclass(frozen=True)
class Checks:
    """What is known of a fitted world: policies' values there and by the log, the oracle, and held-out rows.

    `oracle` is what the best product for each visitor earns, over the shops that the log allows: the best of a single
    estimate would be too high, since the luckiest products look best, and the best of means too low, since means hide
    what visitors differ in. `products` are what showing each product to everyone earns.
    """

    comparisons: tuple[Comparison, ...]
    oracle: Interval
    products: tuple[Interval, ...]
    held_out: HeldOut

    @property
    def summary(self) -> dict[str, Any]:
        """All figures as plain values for JSON."""
        held_out = self.held_out
        plain = {key: getattr(held_out, key) for key in ("n", "n_fitted", "days", "responses", "expected")}
        gains = {name: gain._asdict() for name, gain in held_out.gains.items()}
        shares = [share._asdict() for share in held_out.shares]
        return {
            "policies": [_as_plain(comparison) for comparison in self.comparisons],
            "oracle": self.oracle._asdict(),
            "held_out": {**plain, "gains": gains, "shares": shares},
        }


def _as_plain(comparison: Comparison) -> dict[str, Any]:
    log = None if comparison.log is None else comparison.log._asdict()
    names = {"policy": comparison.policy, "estimator": comparison.estimator}
    says = {"agrees": comparison.agrees, "why_not": comparison.why_not}
    return {**names, **says, "world": comparison.world._asdict(), "log": log}


def _with_open_ends(interval: Interval) -> Interval:
    """Return an interval whose infinite ends, which the log leaves open, are None."""
    low, high = (None if end is None or not math.isfinite(end) else end for end in (interval.low, interval.high))
    return Interval(interval.mean, low, high)


def check_fit(log: Log, models: FittedModels, *, seed: int = 0, progress: Progress = lambda line: None) -> Checks:
    """Compare a fitted world with the log that it was fitted to, and with later rows that it was not.

    Raises `DataError` where the log has too few rows to hold any out.
    """
    log = log.in_order()
    held_out = hold_out(log, seed=seed, progress=progress)
    progress("computing what policies earn in the fitted world")
    values = shop_values(models.shop, seed=seed)
    logged = _value(logged_values(models.shop, log.actions))
    comparisons = (_compare_logged(log, logged), _compare_uniform(log, _value(values.products.mean(axis=1)), seed))
    return Checks(comparisons, _value(values.best), tuple(map(_value, values.products.T)), held_out)


def _value(draws: FloatArray) -> Interval:
    """Return the mean of draws, and the middle 95% of them."""
    low, high = np.quantile(draws, TAILS)
    return Interval(float(draws.mean()), float(low), float(high))


def _compare_logged(log: Log, world: Interval) -> Comparison:
    """Compare what the logged choices earn in a fitted world with the log's mean."""
    terms = group_sums(make_clusters(len(log), log.user_ids), Terms(log.rewards))
    by_log = _with_open_ends(bootstrap_interval(terms))
    why_not = "no interval" if by_log.low is None and by_log.high is None else ""
    return Comparison("logged choices", world, by_log, "the log's mean", why_not)


def _compare_uniform(log: Log, world: Interval, seed: int) -> Comparison:
    """Compare what uniform choices earn in a fitted world with an estimate on the log, where it can be used."""
    policy = "uniform choices"
    if not log.has_propensities:
        return Comparison(policy, world, None, "dr", "no propensities")
    evaluation = evaluate(log, {policy: _uniform_chances}, estimators=["dr"], seed=seed, compare=False)
    result = evaluation.results[0]
    if result.verdict == DO_NOT_USE:
        return Comparison(policy, world, None, result.estimator, DO_NOT_USE)
    by_log = _with_open_ends(Interval(result.value, result.low, result.high))
    return Comparison(policy, world, by_log, result.estimator)


def _uniform_chances(log: Log, start: int, stop: int) -> FloatArray:
    """Return the probabilities of uniform choices among the candidates of rows `(stop - start, K)`."""
    available = log.available(start, stop)
    return np.asarray(available / available.sum(axis=1, keepdims=True))


class ShopValues(NamedTuple):
    """What a visit is expected to earn in each of D draws: by the `best` choice `(D,)`, by each product `(D, K)`."""

    best: FloatArray
    products: FloatArray


def shop_values(shop: FittedShop, *, seed: int = 0) -> ShopValues:
    """Return what choices are expected to earn per visit in each draw.

    Each draw is asked about other visits, so that the choice of visits is part of the spread.
    """
    rng = stream(seed, "visits to compute values by")
    n_visits = min(shop.n_rows, max(100, MOST_PAIRS // shop.n_products))
    best, products = np.empty(shop.n_draws), np.empty((shop.n_draws, shop.n_products))
    for number in range(shop.n_draws):
        visits = rng.choice(shop.n_rows, n_visits, replace=False)
        rewards = shop.expected_rewards(shop.draw(number), visits)
        products[number] = rewards.mean(axis=0)
        best[number] = rewards.max(axis=1).mean()
    return ShopValues(best, products)


def logged_values(shop: FittedShop, actions: IntArray) -> FloatArray:
    """Return what the logged actions `(R,)` are expected to earn per visit in each draw `(D,)`."""
    rows = np.arange(shop.n_rows)
    draws = range(shop.n_draws)
    return np.array([shop.expected_rewards_of(shop.draw(number), rows, actions).mean() for number in draws])


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


def hold_out(log: Log, *, seed: int = 0, progress: Progress = lambda line: None) -> HeldOut:
    """Fit a world to the earlier part of a log, and compare the responses it expects with those of the later part."""
    earlier, later, days = split_log(log)
    progress(f"fitting to the earlier {len(earlier):,} rows")
    models = fit_shop(earlier, seed=seed)
    expected = _expected_responses(models, earlier, later)  # (D, n)
    mean = expected.mean(axis=0)
    responses = (later.rewards != 0.0).astype(float)
    clusters = make_clusters(len(later), later.user_ids)
    gains = {}
    for name, simpler in _simpler_models(models, earlier, later).items():
        gain = _log_likelihood(responses, mean) - _log_likelihood(responses, simpler)
        gains[name] = _with_open_ends(bootstrap_interval(group_sums(clusters, Terms(1e3 * gain))))
    shares = _shares(models, later, responses, expected)
    return HeldOut(len(later), len(earlier), days, int(responses.sum()), float(mean.sum()), gains, tuple(shares))


def _expected_responses(models: FittedModels, earlier: Log, later: Log) -> FloatArray:
    """Return the probability that each draw of a shop gives each later row's response `(D, n)`."""
    shop = _at_later_rows(models, earlier, later)
    rows = np.arange(len(later))
    return np.array([shop.chances_of(shop.draw(number), rows, later.actions) for number in range(shop.n_draws)])


def _at_later_rows(models: FittedModels, earlier: Log, later: Log) -> FittedShop:
    """Return a shop whose visits are the later rows: known visitors stay who they are, days are new."""
    n_known = models.shop.n_users
    if later.user_ids is None or earlier.user_ids is None:
        users = n_known + np.arange(len(later))
    else:
        known = np.unique(earlier.user_ids)
        place = np.searchsorted(known, later.user_ids).clip(max=n_known - 1)
        new = n_known + np.unique(later.user_ids, return_inverse=True)[1].reshape(-1)
        users = np.where(known[place] == later.user_ids, place, new)
    hours = np.zeros(len(later)) if later.times is None else models.hours[later.times // HOUR % HOURS]
    return replace(
        models.shop,
        features=later.features,
        users=users,
        levels=hours,
        segments=models.segments.assign(later.features),
        changes=tuple(change._replace(row=0) for change in models.shop.changes),
    )


def _simpler_models(models: FittedModels, earlier: Log, later: Log) -> dict[str, FloatArray]:
    """Return the probabilities `(n,)` that simpler models give to the later rows' responses."""
    responses = (earlier.rewards != 0.0).astype(float)
    rate = (responses.sum() + 0.5) / (len(earlier) + 1.0)
    simpler = {"one rate for all": np.full(len(later), rate)}
    categories = models.shop.categories
    if len(models.shop.category_names) > 1:
        counts = np.bincount(categories[earlier.actions], minlength=len(models.shop.category_names))
        sums = np.bincount(categories[earlier.actions], responses, len(counts))
        rates = (sums + 1.0) / (counts + 1.0 / rate)
        simpler["a rate for each category"] = rates[categories[later.actions]]
    return simpler


def _log_likelihood(responses: FloatArray, chance: FloatArray) -> FloatArray:
    chance = np.clip(chance, CHANCE, 1.0 - CHANCE)
    return np.asarray(responses * np.log(chance) + (1.0 - responses) * np.log1p(-chance))


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
    tenth = np.argsort(np.argsort(expected.mean(axis=0), kind="stable"), kind="stable") * BINS // n
    parts.append(("tenth", tuple(f"{number} of {BINS}" for number in range(1, BINS + 1)), tenth))
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
