"""What ranking needs of a catalogue, computed once: boost features standardised over it, and lengths of embeddings.

Standardising within a request leaves little to do at a visit. Six of the ten features are the same for everybody. A
taste or a specificity that a feature is multiplied by cancels out but for its sign. And the match of user u and
products has mean u'm and variance u'Cu, with m and C mean and covariance of the embeddings.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.search.catalogue import Catalogue

STATIC = (0, 1, 2, 4, 5, 6)
"""Boost features that are the same for everybody, in the order of the rows of `Shelf.static`."""

MATCH = 3
"""The boost feature that the products' embeddings are needed for."""

SIGNED = ((7, 1), (8, 2), (9, 3))
"""Boost features that are a static one with the sign of a taste or a specificity: (feature, row of `Shelf.static`)."""

SPREAD = 1e-9
"""A feature's spread, as a share of its size, up to which it counts as none."""


class Shelf(NamedTuple):
    """K products as rankers see them.

    `category (K,)`, `embeddings (d, K)`, `lengths (K,)` 1 / length of each; `static (6, K)` standardised features;
    `mean (d,)` and `covariance (d, d)` of the embeddings, `size` the mean square of their entries.
    """

    category: IntArray
    embeddings: FloatArray
    lengths: FloatArray
    static: FloatArray
    mean: FloatArray
    covariance: FloatArray
    size: float


def stock(catalogue: Catalogue) -> Shelf:
    """Prepare a catalogue for ranking."""
    embeddings = np.ascontiguousarray(catalogue.embeddings)
    squares = (embeddings**2).sum(axis=0)
    mean = embeddings.mean(axis=1)
    covariance = _covariance(embeddings, mean)
    c = catalogue
    features = (c.cm2, c.discount, c.label, c.bestseller, c.price, np.where(c.strategic, c.cm2, 0.0))
    return Shelf(
        category=catalogue.category,
        embeddings=embeddings,
        lengths=np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0.0),
        static=np.stack([standardised(feature) for feature in features]),
        mean=mean,
        covariance=covariance,
        size=float(squares.mean() / len(embeddings)),
    )


@jit
def _covariance(embeddings: FloatArray, mean: FloatArray) -> FloatArray:
    """Return the covariance `(d, d)` of the columns of `embeddings (d, K)`, its sums in a fixed order."""
    out = np.empty((mean.shape[0], mean.shape[0]))
    for i in range(mean.shape[0]):
        for j in range(i + 1):
            total = 0.0
            for k in range(embeddings.shape[1]):
                total += (embeddings[i, k] - mean[i]) * (embeddings[j, k] - mean[j])
            out[i, j] = out[j, i] = total / embeddings.shape[1]
    return out


def standardised(feature: FloatArray) -> FloatArray:
    """Return a feature `(K,)` less its mean, by its standard deviation over the catalogue; 0 where it has no spread."""
    centred = feature - feature.mean()
    spread = np.sqrt((centred**2).mean())
    none = spread <= SPREAD * np.sqrt((feature**2).mean())
    return np.zeros_like(feature) if none else centred / spread


@jit
def match_scale(shelf: Shelf, user: FloatArray) -> tuple[float, float]:
    """Return mean and 1 / standard deviation, 0 where there is none, of the match of `user (d,)` and products."""
    mean, variance, length = 0.0, 0.0, 0.0
    for i in range(user.shape[0]):
        mean += user[i] * shelf.mean[i]
        length += user[i] * user[i]
        for j in range(user.shape[0]):
            variance += user[i] * shelf.covariance[i, j] * user[j]
    if variance <= SPREAD * length * shelf.size:
        return mean, 0.0
    return mean, 1.0 / np.sqrt(variance)
