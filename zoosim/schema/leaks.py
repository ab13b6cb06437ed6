"""Columns of a log that nobody knows before a product is chosen: tests of what depends on the product or its reward.

What is known before the choice is independent of the product shown, given what the shop's policy went by. With logged
propensities p that can be tested, however much the shop personalises: for any weights q of products and any score r of
a product and a column's value, q(A) / p(A) r(A, C) has the expectation sum over a of q(a) r(a, C), given the visitor.
The score is learned from some visitors and tested by the others (a classifier two-sample test after Lopez-Paz & Oquab
2017, https://arxiv.org/abs/1610.06545, with the importance weights of Horvitz & Thompson 1952). Without propensities
only what the product nearly settles is recognised. What follows from a reward, or tells it too well, is not known
either.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl
from scipy import sparse

from zoosim.core.arrays import evenly_spread
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.schema.assortments import Assortments, assortments_by_columns, assortments_by_time
from zoosim.schema.rules import follows, holds_something, is_in_other_units, needs
from zoosim.schema.values import UNREADABLE, WORDS, numbers_of, present, visitor_ids

MOST_ROWS = 25_000
"""Rows by which columns are tested, all of some visitors where the log knows them."""

FEWEST_SAMPLED = MOST_ROWS // 5
"""Rows of some visitors that are enough; where there are fewer, rows are taken whoever came."""

LEAST_HALF = 0.1
"""Share of the rows that are of the smaller half of the visitors."""

BINS = 20
"""Quantiles by which numbers are put into levels."""

ERRORS = 4.5
"""Standard errors from which on a column depends on the product shown: chance has that once in 300,000 tests."""

FEWEST_ROWS = 20
"""Rows of each half of the visitors that it takes to compare them."""

SHRINKAGE = 2.0
"""Rows that a product's mean, or a pair's share, is shrunk by."""

AUC, LEAST_AUC = 0.78, 0.72
"""Nothing known before the choice tells rewarded visits from others as well as this: of 100 pairs of a rewarded
visit and another, 78 in order, and 72 at least, two standard errors below. Single columns of shops reach .5 to .7."""

FEWEST_REWARDED = 20
"""Rewarded rows, and others, that it takes to say so."""

EXPLAINED = 0.7
"""Share of a column that products explain from which on it describes them, where there are no propensities."""

SAME_VISITOR = 0.95
"""Share of visits at which a column holds what it held at the visitor's visit before, if it describes visitors."""

NO_LEVELS = (*UNREADABLE, pl.List, pl.Array)
"""Types of columns that are put into no levels."""


@dataclass(frozen=True)
class LogSample:
    """The rows of a log that columns are compared with.

    Args:
        rows: Which rows of the table `(n,)`.
        action: The column of products shown, in these rows.
        products: The products shown, as numbers from 0 `(n,)`.
        propensities: Their probabilities `(n,)`; None where the log has none.
        visitors: Who came, as numbers from 0 `(n,)`; rows of their own where the log does not say.
        previous: The row, among these, of the same visitor's visit before `(n,)`; -1 where there is none.
        assortments: Which products could be shown in each row.
        rewards: What visits earned, columns by name.
    """

    rows: IntArray
    action: pl.Series
    products: IntArray
    propensities: FloatArray | None
    visitors: IntArray
    previous: IntArray
    assortments: Assortments
    rewards: Mapping[str, pl.Series]

    @cached_property
    def halves(self) -> BoolArray:
        """The half of the visitors that each row is of `(n,)`: scores learned from one are tested by the other.

        Halves of the rows instead, where most are of one visitor: all who are not signed in, say.
        """
        rng = np.random.default_rng(0)
        halves = (rng.random(int(self.visitors.max()) + 1) < 0.5)[self.visitors]
        if min(halves.mean(), 1.0 - halves.mean()) < LEAST_HALF:
            halves = rng.random(len(halves)) < 0.5
        return np.asarray(halves)

    @cached_property
    def rewarded(self) -> dict[str, BoolArray]:
        """The rows that earned something `(n,)`, by the reward's column."""
        return {name: holds_something(column) for name, column in self.rewards.items()}


def sample_log(
    table: pl.DataFrame,
    action: str,
    rewards: Sequence[str],
    *,
    propensity: str | None = None,
    visitor: str | None = None,
    time: str | None = None,
) -> LogSample | None:
    """Return the rows of a table by which its columns are tested.

    Args:
        table: One row per product shown.
        action: The column of the product shown.
        rewards: The columns of what was earned.
        propensity: The column of the probability of the product shown.
        visitor: The column of who came.
        time: The column of when. Default: rows are in order of time.

    Returns:
        The sample; None where the product's column cannot be compared.
    """
    if isinstance(table[action].dtype, UNREADABLE):
        return None
    visitors = None if visitor is None or isinstance(table[visitor].dtype, UNREADABLE) else visitor_ids(table[visitor])
    rows = _sampled_rows(table.height, visitors)
    if time is not None and table[time].dtype not in UNREADABLE:
        rows = rows[table[time].gather(rows).rank("ordinal").fill_null(0).arg_sort().to_numpy()]
    shown = table[action].gather(rows)
    numbers = np.arange(len(rows)) if visitors is None else _codes(visitors.gather(rows))
    chances = None if propensity is None else numbers_of(table[propensity].gather(rows))
    if chances is not None and not ((chances > 0.0) & (chances <= 1.0)).all():
        chances = None
    earned = {name: table[name].gather(rows) for name in rewards if not isinstance(table[name].dtype, UNREADABLE)}
    products = _codes(shown)
    sample = LogSample(
        rows, shown, products, chances, numbers, _previous(numbers), assortments_by_time(products), earned
    )
    others = [name for name in table.columns if name not in (action, propensity, time, *rewards)]
    return _with_assortments(sample, table.select(others))


def _with_assortments(sample: LogSample, table: pl.DataFrame) -> LogSample:
    """Return the sample with what could be shown to whom; without propensities where no column of the table settles it.

    Without, the products that a row's visitor never sees would count as products that the column speaks against.
    """
    if sample.propensities is None:
        return sample
    columns = (
        table[name].gather(sample.rows) for name in table.columns if not isinstance(table[name].dtype, NO_LEVELS)
    )
    levels = (_levels(column)[0] for column in columns)
    found = assortments_by_columns(sample.assortments, sample.products, sample.propensities, sample.halves, levels)
    return replace(sample, propensities=None) if found is None else replace(sample, assortments=found)


def _sampled_rows(n: int, visitors: pl.Series | None) -> IntArray:
    """Return rows: all of a share of the visitors, or every so many of the table's."""
    if n <= MOST_ROWS or visitors is None:
        return evenly_spread(n, MOST_ROWS)
    share = MOST_ROWS / n
    # By a hash of the visitor, so that all rows of one are in, or none: their order tells of visits before.
    chosen = np.flatnonzero((visitors.hash(seed=0) % 1_000_003 < int(share * 1_000_003)).to_numpy())
    if len(chosen) < FEWEST_SAMPLED:  # nearly all rows are of a few visitors
        return evenly_spread(n, MOST_ROWS)
    return chosen[: 2 * MOST_ROWS]


def _codes(column: pl.Series) -> IntArray:
    """Return the values of a column as numbers from 0 `(n,)`, missing ones being a value of their own."""
    return np.asarray(column.cast(pl.String).fill_null("").rank("dense").cast(pl.Int64).to_numpy() - 1)


def _previous(visitors: IntArray) -> IntArray:
    # Stable, so that the rows of a visitor stay in their order.
    order = np.argsort(visitors, kind="stable")
    follows = np.zeros(len(order), bool)
    follows[1:] = visitors[order[1:]] == visitors[order[:-1]]
    previous = np.full(len(order), -1)
    previous[order[follows]] = order[:-1][follows[1:]]
    return previous


def describes_product(column: pl.Series, action: pl.Series) -> bool:
    """Return whether a column has one value for each product, so that it is no reward.

    Args:
        column: The column, `(n,)`.
        action: The product shown in each row, `(n,)`.
    """
    if {type(series.dtype) for series in (column, action)} & set(UNREADABLE):
        return False
    rows = _sampled_rows(column.len(), None)
    return follows(column.gather(rows), action.gather(rows))


def known_too_late(column: pl.Series, sample: LogSample) -> str:
    """Return why a column is no feature of visitors: it depends on the product shown, or on a reward; else nothing.

    Args:
        column: The column, of all rows of the log.
        sample: The rows of the log by which it is tested.
    """
    if isinstance(column.dtype, UNREADABLE):
        return ""
    column = column.gather(sample.rows)
    if follows(column, sample.action):
        return f"has one value for each {sample.action.name}, so it describes the product"
    held = holds_something(column)
    for name, reward in sample.rewards.items():
        if needs(held, sample.rewarded[name]) or follows(column, reward) or is_in_other_units(column, reward):
            return f"follows from {name}, so nobody knows it before the product is chosen"
    if isinstance(column.dtype, NO_LEVELS):
        return ""
    return _depends_on_reward(column, sample) or _depends_on_product(column, sample)


def _depends_on_product(column: pl.Series, sample: LogSample) -> str:
    """Say that a column depends on the product shown more than by what the shop's policy went by."""
    levels, ranks = _levels(column)
    if sample.propensities is None:
        explained = _explained(levels, ranks, sample)
        if explained >= EXPLAINED and not _describes_visitors(levels, sample):
            return f"is settled by the {sample.action.name} shown ({explained:.0%} of it), so it describes the product"
        return ""
    errors = dependence(levels, ranks, sample)
    if errors >= ERRORS:
        return (
            f"depends on the {sample.action.name} shown beyond its probability ({errors:.0f} standard errors), so it "
            "is not known before"
        )
    return ""


def dependence(levels: IntArray, ranks: FloatArray | None, sample: LogSample) -> float:
    """Return by how many standard errors a column depends on the product shown, given the propensities; the larger of
    two statistics, by levels and by ranks.

    Args:
        levels: Which level of the column each row has `(n,)`, from 0.
        ranks: The ranks of numbers `(n,)`, from -1 to 1, 0 where one is missing; None for a column without order.
        sample: The rows, with propensities.
    """
    if min(int(sample.halves.sum()), int((~sample.halves).sum())) < FEWEST_ROWS:
        return 0.0
    by_levels = np.zeros(len(levels))
    by_ranks = np.zeros(len(levels))
    for half in (False, True):
        train = sample.halves != half
        test = sample.halves == half
        by_levels[test] = _scores_of_levels(levels, sample, train, test)
        if ranks is not None:
            by_ranks[test] = _scores_of_ranks(ranks, sample, train, test)
    return max(_standard_errors(by_levels), _standard_errors(by_ranks))


def _standard_errors(scores: FloatArray) -> float:
    # The scores have mean 0 where nothing depends on the product, so their squares add up to the variance.
    size = float(np.sqrt((scores * scores).sum()))
    return float(scores.sum()) / size if size > 0.0 else 0.0


def _scores_of_levels(levels: IntArray, sample: LogSample, train: BoolArray, test: BoolArray) -> FloatArray:
    """Return weighted scores of the rows to test, of mean 0 where the column is known before the choice.

    A pair of product and level scores (observed + s) / (expected + s) - 1 by the rows to train on, at least 0. Any
    score is valid; this one is 0 for most pairs, so that many levels cost little.
    """
    n_levels = int(levels.max()) + 1
    n_products = int(sample.products.max()) + 1
    popularity = np.bincount(sample.products[train], minlength=n_products) / train.sum()
    usual = np.bincount(levels[train], minlength=n_levels) / train.sum()
    pairs, counts = np.unique(sample.products[train] * n_levels + levels[train], return_counts=True)
    product, level = np.divmod(pairs, n_levels)
    expected = popularity[product] * usual[level] * train.sum()
    pair_scores = np.maximum((counts + SHRINKAGE) / (expected + SHRINKAGE) - 1.0, 0.0)
    by_product = sparse.csr_array((pair_scores, (product, level)), shape=(n_products, n_levels))
    means = sample.assortments.rows(test).mean(popularity, by_product, levels[test])

    wanted = sample.products[test] * n_levels + levels[test]
    places = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
    # A pair that does not occur in the rows to train on scores 0.
    scores = np.where(pairs[places] == wanted, pair_scores[places], 0.0)
    assert sample.propensities is not None
    weights = popularity[sample.products[test]] / sample.propensities[test]
    return np.asarray(weights * (scores - means))


def _scores_of_ranks(ranks: FloatArray, sample: LogSample, train: BoolArray, test: BoolArray) -> FloatArray:
    """Return weighted scores as above: a product's mean rank, shrunk, times the rank of the row."""
    n_products = int(sample.products.max()) + 1
    counts = np.bincount(sample.products[train], minlength=n_products)
    popularity = counts / train.sum()
    centred = ranks - ranks[train].mean()
    effects = np.bincount(sample.products[train], centred[train], minlength=n_products) / (counts + SHRINKAGE)
    assert sample.propensities is not None
    weights = popularity[sample.products[test]] / sample.propensities[test]
    one_level = np.zeros(int(test.sum()), np.int64)
    means = sample.assortments.rows(test).mean(popularity, sparse.csr_array(effects[:, None]), one_level)
    return np.asarray(weights * (effects[sample.products[test]] - means) * centred[test])


def _describes_visitors(levels: IntArray, sample: LogSample) -> bool:
    """Return whether a column hardly changes from one visit of a visitor to the next, whatever is shown."""
    rows = np.flatnonzero(sample.previous >= 0)
    same = levels[rows] == levels[sample.previous[rows]]
    return len(rows) >= FEWEST_REWARDED and float(same.mean()) >= SAME_VISITOR


def _explained(levels: IntArray, ranks: FloatArray | None, sample: LogSample) -> float:
    """Return the share of a column that the product settles: of the variance of ranks, or of levels beyond chance."""
    if ranks is not None:
        means = _leave_one_out(ranks, sample.products)
        spread = float(np.square(ranks - ranks.mean()).sum())
        return 1.0 - float(np.square(ranks - means).sum()) / spread if spread > 0.0 else 0.0
    _, places, counts = np.unique(
        sample.products * (int(levels.max()) + 1) + levels, return_inverse=True, return_counts=True
    )
    usual = np.bincount(levels) / len(levels)
    of_product = np.bincount(sample.products)[sample.products]
    # Each row is left out of its own share, else products of few rows would explain everything.
    shares = (counts[places.reshape(-1)] - 1) / np.maximum(of_product - 1, 1)
    chance = float(usual[levels].mean())
    return (float(shares.mean()) - chance) / (1.0 - chance) if chance < 1.0 else 0.0


def _leave_one_out(values: FloatArray, groups: IntArray) -> FloatArray:
    """Return the mean of each row's group without the row itself."""
    counts = np.bincount(groups)[groups]
    sums = np.bincount(groups, values)[groups]
    return np.asarray((sums - values) / np.maximum(counts - 1, 1))


def _depends_on_reward(column: pl.Series, sample: LogSample) -> str:
    """Say that a column, or its change since the visitor's visit before, tells a reward too well to be known before."""
    levels, ranks = _levels(column)
    changed = None if ranks is None else _change(column, sample)
    for name, rewarded in sample.rewarded.items():
        area = separation(levels, rewarded, sample)
        if area >= AUC:
            return f"tells {name} too well to be known before the product is chosen (AUC {area:.2f})"
        if changed is None:
            continue
        since, rows = changed
        area = separation(since, rewarded[rows], sample, rows)
        if area >= AUC:
            return f"changes with {name} at the same visit (AUC {area:.2f}), so it counts what came of it"
    return ""


def separation(levels: IntArray, rewarded: BoolArray, sample: LogSample, rows: IntArray | None = None) -> float:
    """Return the AUC of the share of rewarded rows by level, learned from one half of the visitors for the other.

    Args:
        levels: Level of the column in each row, from 0, `(m,)`.
        rewarded: Rows that earned the reward, `(m,)`.
        sample: The rows of the log, which are split into halves of visitors.
        rows: The rows of the sample that these are, `(m,)`; None for all.

    Returns:
        From 0 to 1; 0 where the rows are too few to show that it is above `LEAST_AUC`.
    """
    halves = sample.halves if rows is None else sample.halves[rows]
    shares = np.zeros(len(levels))
    n_levels = int(levels.max(initial=0)) + 1
    for half in (False, True):
        train = halves != half
        test = halves == half
        counts = np.bincount(levels[train], minlength=n_levels)
        sums = np.bincount(levels[train], rewarded[train], minlength=n_levels)
        prior = (sums.sum() + 0.5) / (counts.sum() + 1.0)
        shares[test] = ((sums + prior) / (counts + 1.0))[levels[test]]
    return _area(shares, rewarded)


def _area(scores: FloatArray, positive: BoolArray) -> float:
    """Return the area under the ROC curve (Mann & Whitney 1947), ties counting half; 0 where rows are too few."""
    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    if min(n_positive, n_negative) < FEWEST_REWARDED:
        return 0.0
    ranks = pl.Series(scores).rank("average").to_numpy()
    area = float((ranks[positive].sum() - n_positive * (n_positive + 1) / 2.0) / (n_positive * n_negative))
    error = np.sqrt(area * (1.0 - area) / min(n_positive, n_negative))
    return area if area - 2.0 * error >= LEAST_AUC else 0.0


def _change(column: pl.Series, sample: LogSample) -> tuple[IntArray, IntArray] | None:
    """Return levels of a number's change since the visitor's visit before, and the rows that have one; None for few."""
    numbers = numbers_of(column)
    rows = np.flatnonzero(sample.previous >= 0)
    if len(rows) < 2 * FEWEST_REWARDED:
        return None
    levels, _ = _levels(pl.Series(numbers[rows] - numbers[sample.previous[rows]]).fill_nan(None))
    return levels, rows


def _levels(column: pl.Series) -> tuple[IntArray, FloatArray | None]:
    """Return which level each value has `(n,)`, and the ranks of numbers, from -1 to 1; missing values are a level."""
    numbers = numbers_of(column)
    known = np.isfinite(numbers)
    held = int(present(column).sum()) if column.dtype in WORDS else int(known.sum())
    if not known.any() or 2 * known.sum() <= held:
        return _codes(column), None
    distinct, codes = np.unique(numbers[known], return_inverse=True)
    levels = np.zeros(len(numbers), np.int64)
    if len(distinct) > 2 * BINS:
        edges = np.unique(np.quantile(numbers[known], np.linspace(0.0, 1.0, BINS + 1)[1:-1]))
        codes = np.searchsorted(edges, numbers[known], side="right")
    levels[known] = 1 + codes.reshape(-1)
    ranks = np.zeros(len(numbers))
    ranks[known] = 2.0 * pl.Series(numbers[known]).rank("average").to_numpy() / (known.sum() + 1) - 1.0
    return levels, ranks
