"""Products that could be shown in each row of a log: those for sale at the time, and to whom they are shown at all.

A shop that shows some products to some visitors only, such as those that it sends to their country, has propensities of
0 for the others. That shows in the propensities: for shares q of the products, q(A) / p(A) has the expectation sum over
a of q(a) over the products that could be shown, which is less than over all (Horvitz & Thompson 1952).
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy import sparse

from zoosim.core.types import BoolArray, FloatArray, IntArray

BLOCKS = 50
"""Periods by which products are for sale or not."""

ABSENT = 12.0
"""Rows that a product is expected to have, and lacks, before its first or after its last, to count as not for sale."""

ERRORS = 4.0
"""Standard errors by which q(A) / p(A) may miss its expectation."""

TOLERANCE = 0.04
"""Share of its expectation by which it may miss it in any case: so few products make no sound column look like none."""

MOST_LEVELS = 50
"""Levels of a column by which products may differ."""

MOST_COLUMNS = 3
"""Columns that may together settle which products can be shown."""

MOST_PAIRS = 20_000_000
"""Pairs of an assortment and a product."""

FEWEST_ROWS = 20
"""Rows of a group that it takes to say which products are shown to it."""


class Assortments(NamedTuple):
    """The products that could be shown.

    Args:
        of_row: The assortment of each row `(n,)`, from 0.
        offers: 1 where an assortment has a product `(assortments, K)`.
    """

    of_row: IntArray
    offers: FloatArray

    def total(self, of_products: FloatArray) -> FloatArray:
        """Return for each row the sum over the products that could be shown of a number of each `(n,)`."""
        return np.asarray((self.offers @ of_products)[self.of_row])

    def rows(self, chosen: BoolArray) -> "Assortments":
        """Return the assortments of some rows."""
        return self._replace(of_row=self.of_row[chosen])

    def mean(self, weights: FloatArray, scores: sparse.csr_array, levels: IntArray) -> FloatArray:
        """Return for each row the mean of products' scores at its level, over the products that could be shown `(n,)`.

        Args:
            weights: The weight of each product `(K,)`.
            scores: The score of each product at each level `(K, levels)`.
            levels: The level of each row `(n,)`.
        """
        means = np.empty(len(self.of_row))
        for start in range(0, len(self.offers), BLOCKS):  # of many assortments and levels the table is large
            rows = np.flatnonzero((self.of_row >= start) & (self.of_row < start + BLOCKS))
            offered = self.offers[start : start + BLOCKS] * weights
            table = (offered @ scores) / np.maximum(offered.sum(axis=1), TINY)[:, None]
            means[rows] = table[self.of_row[rows] - start, levels[rows]]
        return means


TINY = 1e-12
"""Instead of 0 as a divisor, where no product for sale was shown in the rows to learn from."""


def assortments_by_time(products: IntArray) -> Assortments:
    """Return which products were likely for sale in each of some periods, by when they were shown first and last.

    Args:
        products: The product of each row `(n,)`, from 0, in order of time.
    """
    n = len(products)
    period = np.arange(n) * BLOCKS // n
    counts = np.bincount(products)
    first = np.full(len(counts), n)
    last = np.zeros(len(counts), np.int64)
    np.minimum.at(first, products, np.arange(n))
    np.maximum.at(last, products, np.arange(n))
    # Rows per row of the log while it was for sale: where 12 are expected, none has a chance of exp(-12).
    rate = counts / (last - first + 1.0)
    begins = np.where(rate * first > ABSENT, period[first], 0)
    ends = np.where(rate * (n - 1 - last) > ABSENT, period[last], BLOCKS)
    periods = np.arange(BLOCKS)[:, None]
    return Assortments(period, ((begins <= periods) & (periods <= ends)).astype(float))


def assortments_by_columns(
    by_time: Assortments, products: IntArray, propensities: FloatArray, halves: BoolArray, columns: Iterable[IntArray]
) -> Assortments | None:
    """Return which products could be shown in each row, where columns may settle it.

    Columns are crossed, at most three, until in each group the propensities fit the products that were shown to it. A
    column that depends on the product shown does not pass: fewer products are shown at a level of it than could be.

    Args:
        by_time: The products that were for sale at the time.
        products: The product of each row `(n,)`, from 0.
        propensities: Its probability `(n,)`.
        halves: Which half of the visitors each row is of `(n,)`.
        columns: The levels of each column `(n,)`, from 0; read only where products differ by visitor.

    Returns:
        The assortments; None where products differ by visitor, and no columns settle how.
    """
    weights = _Weights(products, propensities, halves)
    found = weights.miss(by_time)
    if not weights.are_too_small(found):
        return by_time
    candidates = [levels for levels in columns if 1 < levels.max() + 1 <= MOST_LEVELS]
    groups = np.zeros(len(products), np.int64)
    for _ in range(MOST_COLUMNS):
        crossed = [np.unique(groups * MOST_LEVELS + levels, return_inverse=True)[1] for levels in candidates]
        crossed = [one for one in crossed if BLOCKS * (int(one.max()) + 1) * len(by_time.offers[0]) <= MOST_PAIRS]
        if not crossed:
            return None
        misses = [weights.miss(_within(by_time, products, one)) for one in crossed]
        totals = [float(np.abs(np.bincount(one, miss)).sum()) for one, miss in zip(crossed, misses, strict=True)]
        best = int(np.argmin(totals))
        groups = crossed[best]
        if weights.fit(misses[best], groups):
            return _within(by_time, products, groups)
    return None


def _within(by_time: Assortments, products: IntArray, groups: IntArray) -> Assortments:
    """Return the products for sale at the time, of those that are shown at all to a row's group."""
    n_groups = int(groups.max()) + 1
    shown = np.zeros((n_groups, by_time.offers.shape[1]))
    shown[groups, products] = 1.0
    n_periods = len(by_time.offers)
    offers = (by_time.offers[:, None, :] * shown).reshape(n_periods * n_groups, -1)
    return Assortments(by_time.of_row * n_groups + groups, offers)


class _Weights:
    """The weights q(A) / p(A) of rows, q by the other half of the visitors."""

    def __init__(self, products: IntArray, propensities: FloatArray, halves: BoolArray) -> None:
        n_products = int(products.max()) + 1
        self.products = products
        self.halves = halves
        # Each half of the visitors is judged by the other, so that no row weighs in its own expectation.
        self.shares = {
            half: np.bincount(products[halves != half], minlength=n_products) / max(int((halves != half).sum()), 1)
            for half in (False, True)
        }
        self.weights = np.where(halves, self.shares[True][products], self.shares[False][products]) / propensities

    def miss(self, assortments: Assortments) -> FloatArray:
        """Return by how much the weight of each row exceeds its expectation `(n,)`."""
        expected = {half: assortments.total(shares) for half, shares in self.shares.items()}
        return np.asarray(self.weights - np.where(self.halves, expected[True], expected[False]))

    def are_too_small(self, miss: FloatArray) -> bool:
        """Return whether some of the products could not be shown to some of the rows' visitors."""
        return bool(miss.sum() < -max(ERRORS * np.sqrt((miss * miss).sum()), TOLERANCE * (self.weights - miss).sum()))

    def fit(self, miss: FloatArray, groups: IntArray) -> bool:
        """Return whether the weights are in each group as expected; groups of few rows are passed over.

        Products that a group could have been shown, but was not, weigh about what those do that it was shown once (Good
        1953, https://doi.org/10.1093/biomet/40.3-4.237).
        """
        _, places, counts = np.unique(
            groups * (int(self.products.max()) + 1) + self.products, return_inverse=True, return_counts=True
        )
        miss = miss - self.weights * (counts[places] == 1)
        sums = np.bincount(groups, miss)
        expected = np.bincount(groups, self.weights - miss)
        errors = np.sqrt(np.bincount(groups, miss * miss))
        fits = np.abs(sums) <= np.maximum(ERRORS * errors, TOLERANCE * expected)
        return bool(fits[np.bincount(groups) >= FEWEST_ROWS].all())
