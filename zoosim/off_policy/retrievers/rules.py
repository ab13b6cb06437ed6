"""Plain rules of what to retrieve, which a trained retriever has to beat: click rates of products and of categories."""

from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray, IntArray
from zoosim.off_policy.groups import Groups, group_rows
from zoosim.retrieval.towers.rows import ShownRows

MOST_SEGMENTS, SEGMENTS = 50, 20
"""Patterns of visitors' columns of 0 and 1 up to which each is a segment; of more, so many clusters are made."""

MOST_CATEGORIES, CATEGORIES = 1_000, 50
"""Likewise of products, where no catalogue names their categories."""

PRIOR_ROWS = 20.0
"""Rows with the mean click rate that each segment and category has beside its own."""

PRIOR_CLICKS = 1.0
"""Clicks as expected that each product has beside its own."""


class Rule(NamedTuple):
    """Click rates by segment and category, times how much better than expected a product does.

    Attributes:
        name: What tables call it.
        segments: Of visitors.
        rates: Click rates `(S, C)`.
        categories: Of each product `(K,)`.
        factors: Clicks of each product over those that its category and visitors lead to expect, shrunk to 1, `(K,)`.
    """

    name: str
    segments: Groups
    rates: FloatArray
    categories: IntArray
    factors: FloatArray

    def scores(self, segment: int) -> FloatArray:
        """Return the click rate of each product in a segment `(K,)`."""
        return np.asarray(self.rates[segment][self.categories] * self.factors)

    def chances(self, segments: IntArray, products: IntArray) -> FloatArray:
        """Return the click rates of rows by their segment `(m,)` and product `(m,)`."""
        return np.asarray(self.rates[segments, self.categories[products]] * self.factors[products])


def category_rule(rows: ShownRows, categories: IntArray) -> Rule:
    """Return the rule of segments and categories `(K,)`."""
    return _rule("category rule", rows, group_rows(rows.visitors, MOST_SEGMENTS, SEGMENTS), categories)


def popularity(rows: ShownRows) -> Rule:
    """Return the rule that knows each product's click rate alone."""
    one = group_rows(np.zeros((len(rows.visitors), 1)), 1, 1)
    return _rule("popularity", rows, one, np.zeros(rows.n_products, np.int64))


def _rule(name: str, rows: ShownRows, segments: Groups, categories: IntArray) -> Rule:
    n_categories = int(categories.max()) + 1
    cells = segments.labels[rows.visit] * n_categories + categories[rows.product]
    n_cells = segments.n_groups * n_categories
    shown = np.bincount(cells, minlength=n_cells)
    clicks = np.bincount(cells, rows.clicked, n_cells)
    rates = (clicks + PRIOR_ROWS * rows.clicked.mean()) / (shown + PRIOR_ROWS)
    expected = np.bincount(rows.product, rates[cells], rows.n_products)
    own = np.bincount(rows.product, rows.clicked, rows.n_products)
    factors = (own + PRIOR_CLICKS) / (expected + PRIOR_CLICKS)
    return Rule(name, segments, rates.reshape(segments.n_groups, n_categories), categories, factors)
