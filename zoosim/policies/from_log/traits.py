"""Traits in which products differ most, so that a model learns from those alike together."""

from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray

MOST_TRAITS = 8
SAME_SIZE = 1e-9
"""Principal components whose sizes differ by less, as a share of the largest, count as of one size."""


class Traits(NamedTuple):
    """The traits of K products, `scores (K, p)`; those of any products are (products - mean) @ weights.

    `mean (d_p,)` and `weights (d_p, p)` are of the products' features.
    """

    scores: FloatArray
    mean: FloatArray
    weights: FloatArray


def find_traits(products: FloatArray) -> Traits:
    """Return the traits of products `(K, d_p)`, and how those of others follow from their features; p may be 0."""
    mean = products.mean(axis=0)
    spread = products.std(axis=0)
    scores = traits_of(products)
    if scores is None:
        return Traits(np.zeros((len(products), 0)), mean, np.zeros((len(mean), 0)))
    differs = spread > 0.0
    scaled = (products - mean)[:, differs] / spread[differs]
    weights = np.zeros((len(mean), scores.shape[1]))
    # Scores lie in the span of the scaled columns, so least squares finds weights that give them but for rounding.
    weights[differs] = np.linalg.lstsq(scaled, scores, rcond=None)[0] / spread[differs, None]
    return Traits(scores, mean, weights)


def traits_of(products: FloatArray) -> FloatArray | None:
    """Return what products `(K, d_p)` differ in most: their scores on at most 8 principal components, each of
    variance 1 or less; None where nothing is known of them, or all are alike.

    Components of one size, such as those of one-hot features, span a space whose axes are free, and the sign of every
    component is free, too. The first products settle both; rounding would, differently on each processor.
    """
    spread = products.std(axis=0)
    if not (spread > 0.0).any():
        return None
    scaled = (products - products.mean(axis=0))[:, spread > 0.0] / spread[spread > 0.0]
    components, sizes, _ = np.linalg.svd(scaled, full_matrices=False)
    sizes = sizes[sizes > SAME_SIZE * sizes[0]]
    is_last_of_size = np.append(sizes[:-1] - sizes[1:] > SAME_SIZE * sizes[0], True)
    stops = np.flatnonzero(is_last_of_size) + 1
    starts = np.append(0, stops[:-1])
    scores = [
        sizes[start] * _turn_to_first_products(components[:, start:stop])
        for start, stop in zip(starts, stops, strict=True)
        if start < MOST_TRAITS
    ]
    kept = np.hstack(scores)[:, :MOST_TRAITS]
    return np.asarray(kept / kept.std(axis=0).max())


def _turn_to_first_products(basis: FloatArray) -> FloatArray:
    """Rotate an orthonormal basis `(K, g)` so that it depends on nothing but the space that it spans: `(K, min(g, 8))`.

    Gram-Schmidt over products in their order: the first one lies on the first axis, the next one that is not on it lies
    in the plane of the first two, and so on, always on the positive side.
    """
    remaining = basis.copy()
    axes = []
    for _ in range(min(basis.shape[1], MOST_TRAITS)):
        lengths = np.linalg.norm(remaining, axis=1)
        first = int((lengths > 1e-6 * lengths.max()).argmax())  # shorter ones are rounding
        axis = remaining[first] / lengths[first]
        axes.append(axis)
        remaining -= np.outer(remaining @ axis, axis)
    return np.asarray(basis @ np.stack(axes, axis=1))
