"""A catalogue prepared for ranking, once: boost features standardised over it, and lengths of embeddings.

Standardising within a request leaves little to do per visit. Six of the ten features are the same for everybody. A
taste or a specificity that a feature is multiplied by cancels out but for its sign. And the match of user u and
products has mean u'm and variance u'Cu, with m and C mean and covariance of the embeddings.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.ranking.boost_features import NO_SPREAD, static_features
from zoosim.worlds.search.catalogue import SearchCatalogue


class CatalogueIndex(NamedTuple):
    """K products as rankers see them.

    `category (K,)`; `embeddings (d, K)` and 1 / length of each, `inverse_lengths (K,)`; `static (6, K)` standardised
    features; `mean (d,)` and `covariance (d, d)` of the embeddings, and the `mean_square` of their entries.
    """

    category: IntArray
    embeddings: FloatArray
    inverse_lengths: FloatArray
    static: FloatArray
    mean: FloatArray
    covariance: FloatArray
    mean_square: float


def index_catalogue(catalogue: SearchCatalogue) -> CatalogueIndex:
    """Prepare a catalogue for ranking."""
    c = catalogue
    embeddings = np.ascontiguousarray(c.embeddings)
    squares = (embeddings**2).sum(axis=0)
    mean = embeddings.mean(axis=1)
    return CatalogueIndex(
        category=c.category,
        embeddings=embeddings,
        inverse_lengths=np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0.0),
        static=static_features(catalogue),
        mean=mean,
        covariance=_covariance(embeddings, mean),
        mean_square=float(squares.mean() / len(embeddings)),
    )


@jit
def _covariance(embeddings: FloatArray, mean: FloatArray) -> FloatArray:
    """Return the covariance `(d, d)` of the columns of `embeddings (d, K)`.

    A matrix product would be faster, but sums in an order that depends on the processor.
    """
    out = np.empty((mean.shape[0], mean.shape[0]))
    for i in range(mean.shape[0]):
        for j in range(i + 1):
            total = 0.0
            for k in range(embeddings.shape[1]):
                total += (embeddings[i, k] - mean[i]) * (embeddings[j, k] - mean[j])
            out[i, j] = total / embeddings.shape[1]
            out[j, i] = out[i, j]
    return out


@jit
def match_scale(index: CatalogueIndex, user: FloatArray) -> tuple[float, float]:
    """Return mean and 1 / standard deviation of the match of a user and products.

    The latter is 0 where the match is constant, up to rounding.

    Args:
        index: The catalogue.
        user: Embedding of the user, `(d,)`.
    """
    mean = 0.0
    variance = 0.0
    length = 0.0
    for i in range(user.shape[0]):
        mean += user[i] * index.mean[i]
        length += user[i] * user[i]
        for j in range(user.shape[0]):
            variance += user[i] * index.covariance[i, j] * user[j]
    # u'Cu rounds in proportion to |u|^2 times the squares of the embeddings' entries.
    if variance <= NO_SPREAD * length * index.mean_square:
        return mean, 0.0
    return mean, 1.0 / np.sqrt(variance)
