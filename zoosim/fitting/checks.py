"""Checks of a fitted world: what it says of the log's own policies, of later days, and of the best choices."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.rng import stream
from zoosim.core.statistics import Interval
from zoosim.core.tabular import TabularResult
from zoosim.core.types import FloatArray, IntArray, Progress
from zoosim.fitting.equivalence import MARGIN, Equivalence, compare_values
from zoosim.fitting.fit import FittedModels
from zoosim.fitting.held_out import LEAST_RESPONSES, TAILS, HeldOut, hold_out, with_open_ends
from zoosim.logs.log import Log
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.intervals.clusters import group_sums, make_clusters
from zoosim.off_policy.intervals.intervals import bootstrap_interval
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST, WEAK, Verdict
from zoosim.worlds.fitted.shop import FittedShop

if TYPE_CHECKING:
    from zoosim.core.tables import Table

MOST_PAIRS = 300_000
"""Visits x products of each draw by which a world's values are computed."""


class ValueComparison(NamedTuple):
    """A policy's value in the fitted world, and by the log, by `estimator`.

    `log` is None where the log cannot tell, and `why_not` says why nothing is compared. Ends that the log leaves open
    are None. `equivalence` is None where nothing is compared.
    """

    policy: str
    world: Interval
    log: Interval | None
    estimator: str
    why_not: str = ""
    equivalence: Equivalence | None = None

    @property
    def agrees(self) -> bool | None:
        """True where both are shown to be the same within a margin; None where that cannot be told."""
        return None if self.equivalence is None else self.equivalence.agrees

    @property
    def words(self) -> str:
        """The comparison in a few words, or why nothing can be told."""
        return self.why_not if self.equivalence is None else self.equivalence.words

    @property
    def doubt(self) -> str:
        """Say, as part of a sentence, that the log cannot tell whether both are the same, and how many rows would."""
        needed = None if self.equivalence is None else self.equivalence.rows_needed
        rows = "" if needed is None else f"; about {needed:,} rows would"
        return f"the log cannot tell whether {self.policy} earn the same in the world (within {MARGIN:.0%}){rows}"


@dataclass(frozen=True, repr=False)
class Checks(TabularResult):
    """Checks of a fitted world: policies' values there and by the log, the oracle, and held-out rows.

    `oracle` is what the best product for each visitor earns, over the shops that the log allows: the best of a single
    estimate would be too high, since the luckiest products look best, and the best of means too low, since means hide
    what visitors differ in. `products` are what showing each product to everyone earns.
    """

    comparisons: tuple[ValueComparison, ...]
    oracle: Interval
    products: tuple[Interval, ...]
    held_out: HeldOut

    @property
    def verdict(self) -> Verdict:
        """The verdict on what policies earn in the world, and the reasons against believing it."""
        held_out = self.held_out
        is_poor = held_out.responses < LEAST_RESPONSES or held_out.is_worse_than or not held_out.is_better_than
        # Then nothing else counts: values may agree on average in a world that cannot tell visitors or products apart.
        if is_poor:
            return Verdict(DO_NOT_USE, (held_out.conclusion,))
        reasons = [] if len(held_out.is_better_than) == len(held_out.gains) else [held_out.conclusion]
        if not held_out.is_within_chance:
            came = f"{held_out.responses:,} responses came on held-out rows"
            reasons.append(f"{came} where the world expects {held_out.expected:,.0f}, which is beyond chance")
        reasons += [_not_shown(row) for row in self.comparisons if row.equivalence is not None and not row.agrees]
        reasons += [
            f"what {row.policy} earn there cannot be compared with the log ({row.estimator}: {row.why_not})"
            for row in self.comparisons
            if row.why_not
        ]
        return Verdict(WEAK if reasons else TRUST, tuple(reasons))

    def to_polars(self) -> pl.DataFrame:
        """Return a row per policy, and one of the best for each visitor, with numbers per visit.

        Returns:
            Columns `policy`; `world`, `world_low`, `world_high` (95% of the shops that the log allows); `log`,
            `log_low`, `log_high` (95% interval, null where it is open) by `estimator`; `agrees`, null where that cannot
            be told.
        """
        rows = [_as_row(row) for row in self.comparisons]
        rows.append(_as_row(ValueComparison("best for each visitor", self.oracle, None, "")))
        numbers = dict.fromkeys(("world", "world_low", "world_high", "log", "log_low", "log_high"), pl.Float64)
        schema = {"policy": pl.String, **numbers, "estimator": pl.String, "agrees": pl.Boolean}
        return pl.DataFrame(rows, schema=schema)

    def _headline(self) -> str:
        word, reasons = self.verdict
        return f"How far to believe the fitted world: {word}{'; '.join(('', *reasons))}"

    def _tables(self) -> "list[Table]":
        from zoosim.fitting.tables import checks_table

        return [checks_table(self)]

    @property
    def summary(self) -> dict[str, Any]:
        """All figures as plain values for JSON."""
        held_out = self.held_out
        plain = {key: getattr(held_out, key) for key in ("n", "n_fitted", "days", "responses", "expected")}
        gains = {name: gain._asdict() for name, gain in held_out.gains.items()}
        shares = [share._asdict() for share in held_out.shares]
        columns = [{**column._asdict(), "gain": column.gain._asdict()} for column in held_out.columns]
        return {
            "policies": [_as_plain(comparison) for comparison in self.comparisons],
            "oracle": self.oracle._asdict(),
            "held_out": {**plain, "gains": gains, "shares": shares, "columns": columns},
        }


def _not_shown(row: ValueComparison) -> str:
    """Say that a policy earns something else in the world than by the log, or that this cannot be told."""
    if row.agrees is False:
        return f"in the world {row.policy} earn something else than by the log: {row.words} of the logged value"
    return row.doubt


def _as_row(comparison: ValueComparison) -> dict[str, Any]:
    figures = dict(zip(("world", "world_low", "world_high"), comparison.world, strict=True))
    if comparison.log is not None:
        figures |= zip(("log", "log_low", "log_high"), comparison.log, strict=True)
    names = {"policy": comparison.policy, "estimator": comparison.estimator or None}
    return {**names, **figures, "agrees": comparison.agrees}


def _as_plain(comparison: ValueComparison) -> dict[str, Any]:
    log = None if comparison.log is None else comparison.log._asdict()
    names = {"policy": comparison.policy, "estimator": comparison.estimator}
    equivalence = None if comparison.equivalence is None else comparison.equivalence._asdict()
    says = {"agrees": comparison.agrees, "why_not": comparison.why_not, "equivalence": equivalence}
    return {**names, **says, "world": comparison.world._asdict(), "log": log}


def check_fit(log: Log, models: FittedModels, *, seed: int = 0, progress: Progress = lambda line: None) -> Checks:
    """Compare a fitted world with the log that it was fitted to, and with later rows that it was not.

    Raises `DataError` where the log has too few rows to hold any out.
    """
    log = log.in_order()
    # By a fit of its own to the earlier rows, as `models` have seen the later ones.
    held_out = hold_out(log, seed=seed, progress=progress)
    progress("computing what policies earn in the fitted world")
    values = shop_values(models.shop, seed=seed)
    logged = logged_values(models.shop, log.actions)
    # The mean over products is what uniform choices earn: a fitted world sells all of them at every visit.
    comparisons = compare_with_log(log, logged, values.products.mean(axis=1), seed=seed)
    return Checks(comparisons, _value(values.best), tuple(map(_value, values.products.T)), held_out)


def compare_with_log(
    log: Log, logged: FloatArray, uniform: FloatArray, *, seed: int = 0
) -> tuple[ValueComparison, ...]:
    """Compare what `logged` and `uniform` choices earn in each draw of a world `(D,)` with the log's own estimates."""
    compared = (_compare_logged(log, _value(logged)), _compare_uniform(log, _value(uniform), seed))
    value = float(log.rewards.mean())
    return tuple(
        row
        if row.why_not or row.log is None or row.log.low is None or row.log.high is None
        else row._replace(equivalence=compare_values(row.world.mean, _error(draws), row.log, value, len(log)))
        for row, draws in zip(compared, (logged, uniform), strict=True)
    )


def _error(draws: FloatArray) -> float:
    """Return the standard error of the mean of draws."""
    return float(draws.std() / np.sqrt(len(draws)))


def _value(draws: FloatArray) -> Interval:
    """Return the mean of draws, and the middle 95% of them."""
    low, high = np.quantile(draws, TAILS)
    return Interval(float(draws.mean()), float(low), float(high))


def _compare_logged(log: Log, world: Interval) -> ValueComparison:
    """Compare what the logged choices earn in a fitted world with the log's mean."""
    terms = group_sums(make_clusters(len(log), log.user_ids), Terms(log.rewards))
    by_log = with_open_ends(bootstrap_interval(terms))
    why_not = "no interval" if by_log.low is None or by_log.high is None else ""
    return ValueComparison("logged choices", world, by_log, "the log's mean", why_not)


def _compare_uniform(log: Log, world: Interval, seed: int) -> ValueComparison:
    """Compare what uniform choices earn in a fitted world with an estimate on the log, where it can be used."""
    policy = "uniform choices"
    if not log.has_propensities:
        return ValueComparison(policy, world, None, "dr", "no propensities")
    # With logged propensities doubly robust estimates hold whatever their model of rewards says (Dudik, Langford & Li
    # 2011), so that they can contradict a world whose models rest on the same rows.
    evaluation = evaluate(log, {policy: _uniform_chances}, estimators=["dr"], seed=seed, compare=False)
    result = evaluation.results[0]
    if result.verdict == DO_NOT_USE:
        return ValueComparison(policy, world, None, result.estimator, DO_NOT_USE)
    by_log = with_open_ends(Interval(result.value, result.low, result.high))
    why_not = "no interval" if by_log.low is None or by_log.high is None else ""
    return ValueComparison(policy, world, by_log, result.estimator, why_not)


def _uniform_chances(log: Log, start: int, stop: int) -> FloatArray:
    """Return the probabilities of uniform choices among the candidates of rows `(stop - start, K)`."""
    available = log.available(start, stop)
    return np.asarray(available / available.sum(axis=1, keepdims=True))


class ShopValues(NamedTuple):
    """The expected reward of a visit in each of D draws: by the `best` choice `(D,)`, by each product `(D, K)`."""

    best: FloatArray
    products: FloatArray


def shop_values(shop: FittedShop, *, seed: int = 0) -> ShopValues:
    """Return what choices are expected to earn per visit in each draw.

    Each draw is asked about other visits, so that the choice of visits is part of the spread.
    """
    rng = stream(seed, "visits to compute values by")
    # Visits x products bound the time of a draw; a mean over fewer than 100 visits would be chance, however many
    # products there are.
    n_visits = min(shop.n_rows, max(100, MOST_PAIRS // shop.n_products))
    best = np.empty(shop.n_draws)
    products = np.empty((shop.n_draws, shop.n_products))
    for number in range(shop.n_draws):
        visits = rng.choice(shop.n_rows, n_visits, replace=False)
        rewards = shop.expected_rewards(shop.draw(number), visits)
        products[number] = rewards.mean(axis=0)
        best[number] = rewards.max(axis=1).mean()
    return ShopValues(best, products)


def logged_values(shop: FittedShop, actions: IntArray) -> FloatArray:
    """Return what the logged actions `(R,)` are expected to earn per visit in each draw `(D,)`."""
    # All visits, not a sample of them: the log's mean, which this is compared with, is over all, too.
    rows = np.arange(shop.n_rows)
    draws = range(shop.n_draws)
    return np.array([shop.expected_rewards_of(shop.draw(number), rows, actions).mean() for number in draws])
