"""Contexts of boost policies from requests to a search shop: the same in logs, training and a model that decides.

For shops whose base scores are their own; products and users have no embeddings there.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np

from zoosim.core.config import Strict
from zoosim.core.errors import DataError
from zoosim.core.jit import jit
from zoosim.core.parameters import unknown
from zoosim.core.search_config import RewardWeights
from zoosim.core.types import NOBODY, Context, FloatArray, IntArray, frozen
from zoosim.ranking.boost_features import static_features, unmatched_features
from zoosim.ranking.product_table import ProductTable
from zoosim.ranking.top_k import top_of
from zoosim.schema.values import product_key

SHRINKAGE = 0.7
ROUNDING = 0.5
LIMIT = 3.0
"""Constants by which a shop estimates tastes: shrunk, rounded, cut."""

SUMMARY = 8
"""Features of the base ranker's top k."""


class SearchSchema(Strict):
    """The parts of requests to a search shop.

    `query_types` have a specificity each. `context` says what policies see: segment and query type (`simple`), and
    tastes and a summary of the base ranker's top `k` as well.
    """

    segments: list[str]
    query_types: dict[str, float]
    categories: list[str]
    context: Literal["simple", "rich", "rich-oracle"] = "simple"
    k: int
    a_max: float
    reward: RewardWeights = RewardWeights()

    @property
    def n_tastes(self) -> int:
        """Return how many tastes policies see."""
        return 0 if self.context == "simple" else 2

    @property
    def n_features(self) -> int:
        """Return how many features policies see of a request."""
        n_simple = len(self.segments) + len(self.query_types)
        return n_simple if self.context == "simple" else n_simple + self.n_tastes + SUMMARY

    @property
    def largest_taste(self) -> float:
        """Return the taste beyond which features of policies are the same for all; infinity where there is none."""
        return (LIMIT + ROUNDING / 2.0) / SHRINKAGE if self.context == "rich" else math.inf

    def number(self, what: Literal["segments", "query_types"], name: Any) -> int:
        """Return the number of a segment or query type; raises `DataError` for an unknown one."""
        names = list(getattr(self, what))
        if name not in names:
            raise DataError(unknown(f"unknown {what.replace('_', ' ').rstrip('s')}", str(name), names))
        return names.index(name)


class SearchRequests:
    """The catalogue of a search shop, `names (K,)` with their `table`, from which the contexts of requests are made."""

    def __init__(self, schema: SearchSchema, names: Sequence[str], table: ProductTable) -> None:
        self.schema = schema
        self.names = tuple(names)
        self.table = read_only(table)
        self.ids = frozen(np.array([product_key(name) for name in names], np.int64))
        self.row_of = {name: row for row, name in enumerate(self.names)}
        self._static = static_features(self.table)

    @cached_property
    def worth(self) -> FloatArray:
        """Return what a purchase of each product earns `(K,)`."""
        weights = self.schema.reward
        table = self.table
        return frozen(weights.gmv * table.price + weights.cm2 * table.cm2 + weights.strategic * table.strategic)

    def context(self, features: FloatArray, products: IntArray, scores: FloatArray, signs: FloatArray) -> Context:
        """Return a request for `products (n,)` with base `scores (n,)`; `signs (3,)` as `unmatched_features` takes."""
        return Context(
            user_id=NOBODY,
            features=frozen(np.asarray(features, np.float64)),
            product_ids=frozen(self.ids[products]),
            product_table=read_only(self.table.rows(products)),
            base_scores=frozen(np.asarray(scores, np.float64)),
            boost_features=frozen(unmatched_features(self._static, signs, products)),
        )

    def features(
        self, segment: int, query_type: int, tastes: FloatArray, products: IntArray, scores: FloatArray
    ) -> FloatArray:
        """Return what policies see of a request `(d,)`; `tastes (2,)` are for price and private label."""
        schema = self.schema
        n_segments = len(schema.segments)
        n_simple = n_segments + len(schema.query_types)
        out = np.zeros(schema.n_features)
        out[segment] = 1.0
        out[n_segments + query_type] = 1.0
        if schema.context != "simple":
            out[n_simple : n_simple + 2] = tastes if schema.context == "rich-oracle" else estimated(tastes)
            shown = top_of(scores, min(schema.k, len(scores)))
            summarise(self.table.rows(products), shown, scores, out[n_simple + 2 :])
        return out

    def signs(self, tastes: FloatArray, query_type: int) -> FloatArray:
        """Return the signs `(3,)` of the tastes `(2,)` and of the specificity of a query type."""
        specificity = list(self.schema.query_types.values())[query_type]
        return np.sign([*tastes, specificity])

    def ranking(self, context: Context, boosts: FloatArray) -> IntArray:
        """Return the indices `(k,)` of a request's products that `boosts (10,)` bring to the top, best first."""
        scores = context.base_scores + context.boost_features @ boosts
        return top_of(scores, min(self.schema.k, len(scores)))

    def feedback(
        self, context: Context, shown: IntArray, clicks: FloatArray, purchases: FloatArray
    ) -> Mapping[str, Any]:
        """Return what a visit showed, as boost policies learn from it; `shown (k,)` are indices into the request."""
        return {
            "shown": context.product_ids[shown],
            "products": context.product_table.rows(shown)._asdict(),
            "boost_features": context.boost_features[shown],
            "base_scores": context.base_scores[shown],
            "clicks": clicks,
            "purchases": purchases,
        }


def read_only(table: ProductTable) -> ProductTable:
    """Return a table whose columns cannot be written to."""
    columns: list[Any] = [frozen(column) for column in table]
    return ProductTable(*columns)


def estimated(tastes: FloatArray) -> FloatArray:
    """Return tastes as a shop knows them: shrunk by .7, rounded to .5, cut at 3."""
    estimates: FloatArray = np.clip(ROUNDING * np.round(SHRINKAGE * tastes / ROUNDING), -LIMIT, LIMIT)
    return estimates


@jit
def summarise(table: Any, products: IntArray, base: FloatArray, out: FloatArray) -> None:
    """Write a summary of `products (k,)` of a `table` by columns to `out (8,)`.

    Mean and deviation of price; means of CM2, discount, bestseller and relevance; shares of private label and strategic
    goods.
    """
    out[:] = 0.0
    for p in products:
        out[0] += table.price[p]
        out[2] += table.cm2[p]
        out[3] += table.discount[p]
        out[4] += table.bestseller[p]
        out[5] += base[p]
        out[6] += table.label[p]
        out[7] += table.strategic[p]
    out /= products.shape[0]
    # In a second pass: the mean of squares less the squared mean would cancel where prices are alike.
    for p in products:
        out[1] += (table.price[p] - out[0]) ** 2
    out[1] = np.sqrt(out[1] / products.shape[0])
