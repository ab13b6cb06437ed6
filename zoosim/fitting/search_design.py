"""A log of searches as the arrays that behaviour is estimated from."""

from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.errors import DataError
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.logs.searches import Ragged, Searches

MOST_CONCENTRATION = 100.0
"""The largest sum of a segment's concentrations: beyond, all of its users are as good as alike."""

MOST_PRODUCTS = 1_000
"""Products with an effect of their own, those shown most often; the others share one."""

FEW_USERS = 1.0
"""The sum of concentrations where no user comes twice, as in the built-in segments."""


class CategoryTastes(NamedTuple):
    """Tastes by category: Dirichlet `concentrations (S, C)` of segments, and each visit's expected `taste (n, C)`."""

    concentrations: FloatArray
    taste: FloatArray


class SearchDesign(NamedTuple):
    """n searches of at most L products shown, each array `(n, L)` but for those of visits, `(n,)`.

    `shown`, `clicks`, `purchases` are 0 or 1; `score` of the base ranker, `log_price` = log(1 + price), `label` of
    private labels, `taste` expected of the visitor for the product's category; `category` by number; `product`, the
    number of the product's effect.
    """

    segment: IntArray
    query_type: IntArray
    shown: FloatArray
    clicks: FloatArray
    purchases: FloatArray
    score: FloatArray
    log_price: FloatArray
    label: FloatArray
    taste: FloatArray
    category: IntArray
    product: IntArray

    def head(self, positions: int) -> "SearchDesign":
        """Return the first positions of the searches."""
        columns: list[Any] = [column[:, :positions] if column.ndim == 2 else column for column in self]
        return SearchDesign(*columns)

    def rows(self, chosen: IntArray | slice) -> "SearchDesign":
        """Return some of the searches."""
        columns: list[Any] = [column[chosen] for column in self]
        return SearchDesign(*columns)


class DesignSizes(NamedTuple):
    """Numbers of segments, types of queries, categories and effects of products of a shop."""

    segments: int
    types: int
    categories: int
    products: int


def shop_sizes(searches: Searches) -> DesignSizes:
    """Return the sizes of a log's shop."""
    schema = searches.requests.schema
    n_products = int(effect_of_products(searches).max()) + 1
    return DesignSizes(len(schema.segments), len(schema.query_types), len(schema.categories), n_products)


def effect_of_products(searches: Searches) -> IntArray:
    """Return the number of each product's effect `(K,)`."""
    n_products = len(searches.requests.names)
    if n_products <= MOST_PRODUCTS:
        return np.arange(n_products)
    counts = np.bincount(Ragged.of(searches.frame["shown"]).values.astype(np.int64), minlength=n_products)
    effect = np.full(n_products, MOST_PRODUCTS)
    # Stable, so that ties are settled by number, the same way on every machine.
    effect[np.argsort(-counts, kind="stable")[:MOST_PRODUCTS]] = np.arange(MOST_PRODUCTS)
    return effect


def searches_of(log: Log) -> Searches:
    """Return the searches of a log; raises `DataError` for a log that holds none."""
    if log.searches is None:
        raise DataError(
            f"{log.source}: holds no searches; make it by zoosim import (search: in its schema) or zoosim log"
        )
    return log.searches


def query_categories(searches: Searches) -> pl.DataFrame:
    """Return `query` and the number of the `category` that most of its candidates have."""
    category = pl.Series(searches.requests.table.category)
    candidates = searches.frame.select("query", "candidates").unique("query", keep="first", maintain_order=True)
    rows = candidates.explode("candidates")
    named = rows.with_columns(category=category[rows["candidates"].to_numpy()])
    # Ties between categories go to the lower number.
    counts = named.group_by("query", "category").len().sort("query", "len", "category", descending=[False, True, False])
    return counts.group_by("query", maintain_order=True).first().select("query", "category")


def estimate_tastes(log: Log) -> CategoryTastes:
    """Estimate which categories segments search for, and how much their users differ.

    A segment's mean is the share of its searches. The sum of its concentrations, the same for all, follows from how
    often two searches of one user mean the same category (moments of the Dirichlet-multinomial, Mosimann 1962).
    """
    searches = searches_of(log)
    schema = searches.requests.schema
    frame = searches.frame.select("query", "segment").join(
        query_categories(searches), on="query", maintain_order="left"
    )
    intent = frame["category"].to_numpy()
    segment = np.array([schema.segments.index(name) for name in frame["segment"]], np.int64)
    counts = np.zeros((len(schema.segments), len(schema.categories)))
    np.add.at(counts, (segment, intent), 1.0)
    # One search more, spread evenly over the categories, so that no share is 0.
    means = (counts + 1.0 / counts.shape[1]) / (counts.sum(axis=1, keepdims=True) + 1.0)
    users = np.arange(len(log)) if log.user_ids is None else np.unique(log.user_ids, return_inverse=True)[1]
    of_user = np.zeros((int(users.max()) + 1, counts.shape[1]))
    np.add.at(of_user, (users, intent), 1.0)
    total = _concentration(of_user, means, segment)
    # The posterior mean under a Dirichlet prior: its concentrations and the user's searches, added up.
    taste = (total * means[segment] + of_user[users]) / (total + of_user[users].sum(axis=1, keepdims=True))
    # Worlds round these to four digits, and at 0 no user of the segment could ever search for the category.
    return CategoryTastes(np.maximum(total * means, 1e-3), taste)


def _concentration(of_user: FloatArray, means: FloatArray, segment: IntArray) -> float:
    """Return the sum of concentrations by `of_user (U, C)`, how often each user searched each category."""
    searches = of_user.sum(axis=1)
    # Pairs of two different searches: one with itself always agrees.
    pairs = (searches * (searches - 1.0)).sum()
    if pairs <= 0.0:
        return FEW_USERS
    agreement = (of_user * (of_user - 1.0)).sum() / pairs
    # The chance that two independent searches of a segment mean the same category.
    alike = float((means**2).sum(axis=1)[segment].mean())
    if agreement <= alike:
        return MOST_CONCENTRATION
    # Two searches of a user agree with chance (1 + A alike) / (1 + A), A being the sum; solved for A.
    return float(np.clip((1.0 - agreement) / (agreement - alike), 0.05, MOST_CONCENTRATION))


def search_design(log: Log, tastes: CategoryTastes) -> SearchDesign:
    """Return the arrays of a log; raises `DataError` for one without searches, or with a purchase and no click."""
    searches = searches_of(log)
    requests = searches.requests
    schema = requests.schema
    lists = {name: Ragged.of(searches.frame[name]) for name in ("shown", "clicked", "purchased", "candidates")}
    width = int(np.diff(lists["shown"].starts).max())
    products = lists["shown"].padded(width, -1).astype(np.int64)
    is_shown = products >= 0
    # Where nothing is shown any product will do: `shown`, which is 0 there, takes it out of every sum.
    rows = np.maximum(products, 0)
    segment = np.array([schema.segments.index(name) for name in searches.frame["segment"]], np.int64)
    types = list(schema.query_types)
    design = SearchDesign(
        segment=segment,
        query_type=np.array([types.index(name) for name in searches.frame["query_type"]], np.int64),
        shown=is_shown.astype(float),
        clicks=lists["clicked"].padded(width, 0.0),
        purchases=lists["purchased"].padded(width, 0.0),
        score=_scores(searches, rows, is_shown),
        log_price=np.log1p(requests.table.price)[rows],
        label=requests.table.label[rows],
        taste=np.take_along_axis(tastes.taste, requests.table.category[rows], axis=1),
        category=requests.table.category[rows],
        product=effect_of_products(searches)[rows],
    )
    stranded = (design.purchases > design.clicks).any(axis=1)
    if stranded.any():
        row = int(stranded.argmax())
        raise DataError(
            f"{log.source}: row {row}, column purchased: got a purchase without a click, expected clicks first"
        )
    return design


def worth_of_purchases(searches: Searches) -> FloatArray:
    """Return what a purchase of each product shown earns `(n, L)`."""
    shown = Ragged.of(searches.frame["shown"])
    rows = shown.padded(int(np.diff(shown.starts).max()), 0).astype(np.int64)
    return searches.requests.worth[rows]


def _scores(searches: Searches, rows: IntArray, is_shown: BoolArray) -> FloatArray:
    """Return the base scores of the products shown `(n, L)`, 0 where none is shown."""
    candidates = Ragged.of(searches.frame["candidates"])
    scores = Ragged.of(searches.frame["base_scores"]).values
    visits = np.repeat(np.arange(len(rows)), np.diff(candidates.starts))
    n_products = len(searches.requests.names)
    # One whole number per pair of visit and product, so that a single sorted search finds all of them.
    keys = visits * n_products + candidates.values
    order = np.argsort(keys, kind="stable")
    wanted = np.arange(len(rows))[:, None] * n_products + rows
    # Where nothing is shown any place will do, as its score is not used.
    places = order[np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)]
    return np.where(is_shown, scores[places], 0.0)
