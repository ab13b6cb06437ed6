"""Features of visitors and products for a fitted world's models: centred features, and which of them go together."""

from typing import NamedTuple

import numpy as np
from scipy import special, stats

from zoosim.core.arrays import with_ones
from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.models.hierarchy import Design, make_design
from zoosim.schema.encoder import Encoder

MOST_VISITOR_FEATURES = 30
MOST_PRODUCT_FEATURES = 64
MOST_PAIRS = 1_200
"""Pairs of a visitor's and a product's feature that get a coefficient."""

VARIED = 1e-9

MIXED = -1
"""The block of principal components, in which all columns go together."""
ALL_COLUMNS = "all columns"

SHOWN = -2
"""The block of how often a log shows each product."""
SHOWN_OFTEN = "how often it was shown"


class Features(NamedTuple):
    """Features of visitors: `(features - centre) @ mixing`, behind a 1; and what the models know of products.

    `categories (K,)` are indices into `category_names`; a log without categories has a single one. `product_columns`
    name the design's blocks of products' features after the 1.
    """

    centre: FloatArray
    mixing: FloatArray
    design: Design
    categories: IntArray
    category_names: tuple[str, ...]
    product_columns: tuple[str, ...]

    def represent(self, features: FloatArray) -> FloatArray:
        """Return the models' features of visitors `(n, q)`."""
        return with_ones((features - self.centre) @ self.mixing)


class _Mixed(NamedTuple):
    """Columns to use: `mixing (d, m)` of centred features, and the block of each."""

    mixing: FloatArray
    blocks: IntArray


def model_features(log: Log) -> Features:
    """Return the features that models of a log's visitors and products use.

    Blocks, which share a variance, are the columns of the schema. Where there are too many features, principal
    components take their place. How often a product was shown is a feature, too: a shop shows what sells, so that what
    it rarely shows is worse than its columns say, and would be drawn towards what is shown often (the propensity as a
    covariate, Hahn, Murray & Carvalho 2020).
    """
    encoders = (Encoder(), Encoder()) if log.fitted is None else (log.fitted.visitors, log.fitted.products)
    names = tuple(sorted(set(log.categories))) or ("all products",)
    categories = np.searchsorted(names, log.categories) if log.categories else np.zeros(log.n_actions, np.int64)
    products, product_blocks = _with_categories(log, _column_blocks(encoders[1], log.products.shape[1]), categories)
    products = _normal_scores(products)
    centred_products = products - products.mean(axis=0)
    # Centred, so that the coefficient of the 1 is the level of the mean product for the mean visitor.
    of_products = _mixed(centred_products, product_blocks, MOST_PRODUCT_FEATURES)
    shown = _shown_often(log)
    # In a block of its own, so that its variance is estimated apart from that of any column.
    blocks = np.append(of_products.blocks, np.full(shown.shape[1], SHOWN))
    # M has a coefficient for each pair of features, 1s included: q x width stays within `MOST_PAIRS`.
    width = len(blocks) + 1
    centre = log.features.mean(axis=0)
    of_visitors = _mixed(
        log.features - centre,
        _column_blocks(encoders[0], log.features.shape[1]),
        min(MOST_VISITOR_FEATURES, max(1, MOST_PAIRS // width - 1)),
    )
    design = make_design(np.hstack([centred_products @ of_products.mixing, shown]), of_visitors.blocks, blocks)
    columns = _named_blocks(encoders[1], log.products.shape[1], blocks)
    return Features(centre, of_visitors.mixing, design, categories, names, columns)


def _named_blocks(encoder: Encoder, width: int, blocks: IntArray) -> tuple[str, ...]:
    """Name the blocks that `blocks (r,)` number, in order: columns of the schema, and the category after them."""
    names = encoder.names if encoder.width == width else [ALL_COLUMNS]
    by_number = {**dict(enumerate(names)), len(names): "category", MIXED: ALL_COLUMNS, SHOWN: SHOWN_OFTEN}
    return tuple(by_number[int(block)] for block in np.unique(blocks))


def _shown_often(log: Log) -> FloatArray:
    """Return how often each product was shown, as normal scores `(K, 1)`; `(K, 0)` where all were as often."""
    counts = np.bincount(log.actions, minlength=log.n_actions)
    # (rank - 1/2) / n stays within 0 and 1, so that no quantile is infinite.
    scores = special.ndtri((stats.rankdata(counts) - 0.5) / len(counts))
    return np.asarray(scores[:, None] if scores.std() > VARIED else np.zeros((len(counts), 0)))


def _normal_scores(products: FloatArray) -> FloatArray:
    """Return numbers of products as the normal quantiles of their ranks, of prices much like logarithms.

    So a few expensive products cannot carry a line far from where most are. Columns of two values stay as they are.
    """
    scores = products.copy()
    for place, column in enumerate(products.T):
        if len(np.unique(column)) > 2:
            scores[:, place] = special.ndtri((stats.rankdata(column) - 0.5) / len(column))
    return scores


def _with_categories(log: Log, blocks: IntArray, categories: IntArray) -> tuple[FloatArray, IntArray]:
    """Return the products' features with their categories, where features do not tell these already."""
    one_hot = np.eye(int(categories.max(initial=0)) + 1)[categories]
    # Categories of one product each would say no more than what is the product's own.
    if one_hot.shape[1] > 1 and len(log.categories) > len(set(log.categories)):
        columns = {column.tobytes() for column in np.ascontiguousarray(log.products.T)}
        if not all(column.tobytes() in columns for column in np.ascontiguousarray(one_hot.T)):
            block = int(blocks.max(initial=-1)) + 1
            return np.hstack([log.products, one_hot]), np.concatenate([blocks, np.full(one_hot.shape[1], block)])
    return log.products, blocks


def _column_blocks(encoder: Encoder, width: int) -> IntArray:
    """Number each feature by the column that it was made of; one block for features of which nobody knows."""
    if encoder.width != width:
        return np.zeros(width, np.int64)
    return np.repeat(np.arange(len(encoder.columns)), [len(column.features) for column in encoder.columns])


def _mixed(centred: FloatArray, blocks: IntArray, most: int) -> _Mixed:
    """Return the features that vary, or the principal components of all where these are more than `most`."""
    varied = np.flatnonzero(centred.std(axis=0) > VARIED) if len(centred) else np.zeros(0, np.int64)
    # As they are where they are few: components mix columns, which can then not be judged one by one.
    if len(varied) <= most:
        return _Mixed(np.eye(centred.shape[1])[:, varied], blocks[varied])
    # Of the covariance, not of correlations: columns count by their scale.
    values, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    largest = np.argsort(-values)[:most]
    return _Mixed(vectors[:, largest], np.full(len(largest), MIXED))
