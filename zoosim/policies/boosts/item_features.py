"""Features of a product shown to a visitor, for linear models of clicks and purchases.

A row is the outer product of what is known of the visitor, u, and of the product, x, and beside it what is known of the
pair, r; last, where they are few, the outer product of segments and categories: what each segment buys. Any taste may
go with any property; how much so is for the prior and the data to say.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.policies.boosts.base import TASTES, BoostSpec

COLUMNS = ("price", "label", "cm2", "discount", "bestseller", "strategic")
"""Properties of a product, in the order of x behind its first number, which is 1; price as log(1 + price)."""

WIDTHS = (1.0, 1.0, 1.0, 0.3, 0.3, 0.3, 0.5)
"""Prior widths of the numbers of x: largest for what a shop knows of tastes for."""


MOST_CROSSED = 64
"""Pairs of segment and category have weights of their own where there are at most so many."""


class Crossed(NamedTuple):
    """Numbers of segments and categories whose pairs have a column each; 0 where these are too many."""

    segments: int
    categories: int


class FeatureLengths(NamedTuple):
    """The lengths of u (visitor), x (product) and r (pair), and what is `crossed`."""

    visitor: int
    product: int
    pair: int
    crossed: Crossed

    @property
    def row(self) -> int:
        """The length of a row."""
        return self.visitor * self.product + self.pair + self.crossed.segments * self.crossed.categories


def columns_of(properties: Mapping[str, Any]) -> FloatArray:
    """Return the `COLUMNS` of n products as `(n, 6)`, the price as log(1 + price)."""
    price, *others = (np.asarray(properties[name], np.float64) for name in COLUMNS)
    return np.stack([np.log1p(np.maximum(price, 0.0)), *others], axis=1)


def sizes_of(spec: BoostSpec) -> FeatureLengths:
    """Return the lengths of the parts of a row for a task."""
    pair = 1 + spec.product_dim + spec.n_categories
    are_few = spec.n_segments * spec.n_categories <= MOST_CROSSED
    crossed = Crossed(spec.n_segments, spec.n_categories) if are_few else Crossed(0, 0)
    return FeatureLengths(1 + spec.n_segments + spec.n_tastes, 1 + len(COLUMNS), pair, crossed)


def prior_of(spec: BoostSpec) -> tuple[FloatArray, FloatArray]:
    """Return means and deviations of the weights of rows before anything is known, each `(d,)`.

    Clicks are rather rare. A taste for something is a tendency to click on it, so its weight is thought to be positive;
    a taste goes less with what it is not for. What tastes do not explain, segments and products do a little.
    """
    sizes = sizes_of(spec)
    first = 1 + spec.n_segments
    means = np.zeros((sizes.visitor, sizes.product))
    outer = np.empty((sizes.visitor, sizes.product))
    means[0, 0] = -1.0
    outer[0] = 0.15
    outer[1:first] = 0.08
    outer[first:] = 0.3
    outer[0, 0] = 1.5
    outer[1:first, 0] = 0.5
    for taste in range(spec.n_tastes):
        outer[first + taste, 1 : 1 + TASTES] *= 0.3
        means[first + taste, 1 + taste] = 0.4
        outer[first + taste, 1 + taste] = 0.3
    pair = np.full(sizes.pair, 0.4)
    pair[0] = 1.5
    pair[1 : 1 + spec.product_dim] = 0.2
    crossed = np.full(sizes.crossed.segments * sizes.crossed.categories, 0.3)
    deviations = np.concatenate([(outer * np.array(WIDTHS)).ravel(), pair, crossed])
    return np.concatenate([means.ravel(), np.zeros(sizes.pair + len(crossed))]), deviations


def visitor_of(spec: BoostSpec, features: FloatArray) -> tuple[FloatArray, int]:
    """Split the features of a context into those of the visitor and of the query.

    Args:
        spec: The task, which says which columns there are.
        features: The features of a context, `(user_dim,)`.

    Returns:
        The visitor's features u (1, segment one-hot, tastes), and the number of the query type, 0 where there is none.
    """
    tastes = spec.n_segments + spec.n_kinds
    chosen = [np.ones(1), features[: spec.n_segments], features[tastes : tastes + spec.n_tastes]]
    kind = int(np.argmax(features[spec.n_segments : tastes])) if spec.n_kinds else 0
    return np.concatenate(chosen), kind


def pairs_of(base: FloatArray, features: FloatArray, category: IntArray, size: int) -> FloatArray:
    """Return the pair features r of n products, `(n, size)`: base score, boost features, category one-hot.

    Args:
        base: Base scores, `(n,)`.
        features: Boost features, `(n, d)`.
        category: Numbers of categories, `(n,)`.
        size: Length of r: 1 + d + the number of categories.
    """
    d = features.shape[1]
    out = np.zeros((len(base), size))
    out[:, 0] = base
    out[:, 1 : 1 + d] = features
    out[np.arange(len(base)), 1 + d + category] = 1.0
    return out


@jit
def join(visitor: FloatArray, product: FloatArray, pair: FloatArray, crossed: Crossed, out: FloatArray) -> None:
    """Write the row of one product: u (x) x, then r, then the segments (x) categories that have weights of their own.

    Args:
        visitor: u, features of the visitor.
        product: x, features of the product.
        pair: r, features of the pair.
        crossed: How many segments and categories are crossed.
        out: Overwritten; as long as `FeatureLengths.row`.
    """
    offset = 0
    for i in range(visitor.shape[0]):
        for j in range(product.shape[0]):
            out[offset] = visitor[i] * product[j]
            offset += 1
    for j in range(pair.shape[0]):
        out[offset + j] = pair[j]
    offset += pair.shape[0]
    # The category, one-hot, stands last in r.
    first = pair.shape[0] - crossed.categories
    for i in range(crossed.segments):
        for j in range(crossed.categories):
            out[offset] = visitor[1 + i] * pair[first + j]
            offset += 1
