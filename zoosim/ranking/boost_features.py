"""Boost features: ten features of a product at a request, of which most are the same for everybody.

Six are standardised over the catalogue. A taste or a specificity that a feature is multiplied by cancels out in
standardising but for its sign, so three more are one of the six with a sign. The last is the match of user and product.
"""

from typing import Any

import numpy as np

from zoosim.core.search_names import FEATURES
from zoosim.core.types import FloatArray, IntArray

STATIC = (0, 1, 2, 4, 5, 6)
"""Boost features that are the same for everybody, in the order of the rows of `static_features`."""

MATCH = 3
"""The boost feature that the products' embeddings are needed for."""

SIGNED = ((7, 1), (8, 2), (9, 3))
"""Boost features that are a static one with the sign of a taste or a specificity, as (feature, row of
`static_features`)."""

NO_SPREAD = 1e-9
"""A feature's standard deviation, as a share of its size, up to which it counts as constant."""


def static_features(table: Any) -> FloatArray:
    """Return the static boost features `(6, K)` of the products of a catalogue, given its columns by name."""
    strategic_cm2 = np.where(table.strategic, table.cm2, 0.0)
    columns = (table.cm2, table.discount, table.label, table.bestseller, table.price, strategic_cm2)
    return np.stack([standardised(column) for column in columns])


def standardised(feature: FloatArray) -> FloatArray:
    """Return a feature `(K,)` less its mean, by its standard deviation over the catalogue; 0 where it is constant."""
    centred = feature - feature.mean()
    # By 1 / K and not 1 / (K - 1): the catalogue is all there is, not a sample.
    deviation = np.sqrt((centred**2).mean())
    # Rounding leaves a constant a deviation of some 1e-16 of its size, which must not be scaled up to 1.
    if deviation <= NO_SPREAD * np.sqrt((feature**2).mean()):
        return np.zeros_like(feature)
    scaled: FloatArray = centred / deviation
    return scaled


def unmatched_features(static: FloatArray, signs: FloatArray, products: IntArray) -> FloatArray:
    """Return the boost features `(n, 10)` of products without embeddings, whose match with users is 0.

    Args:
        static: The static features of the catalogue, `(6, K)`.
        signs: Signs of price taste, label taste and specificity, `(3,)`.
        products: Indices of products, `(n,)`.
    """
    out = np.zeros((len(products), len(FEATURES)))
    for row, feature in enumerate(STATIC):
        out[:, feature] = static[row, products]
    for sign, (feature, row) in zip(signs, SIGNED, strict=True):
        out[:, feature] = sign * static[row, products]
    return out
