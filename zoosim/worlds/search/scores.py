"""Scores of all products for one visit: base relevance, boosts, templates; sums in a fixed order, in vector code."""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.search.catalogue_index import MATCH, SIGNED, STATIC, Shelf, match_scale

BLOCK = 512
"""Products that are worked on together."""


@jit
def add_match(shelf: Shelf, vector: FloatArray, first: int, out: FloatArray) -> None:
    """Add the inner products of `vector (d,)` and the embeddings of products `first` on to `out (n,)`."""
    for i in range(vector.shape[0]):
        row, scale = shelf.embeddings[i, first : first + out.shape[0]], vector[i]
        for j in range(out.shape[0]):
            out[j] += scale * row[j]


@jit
def base_scores(
    shelf: Shelf, query: FloatArray, shared: FloatArray, cosine: float, tokens: float, noise_sd: float, out: FloatArray
) -> None:
    """Replace noise from N(0, 1) in `out (K,)` by base relevance.

    `query (d,)`; `shared (C,)` how many tokens the query shares with each category; weights of cosine and of tokens.
    """
    length = np.sqrt(np.sum(query * query))
    unit = query * (cosine / length if length > 0.0 else 0.0)
    words, match = tokens * np.log(1.0 + shared), np.empty(BLOCK)
    for first in range(0, out.shape[0], BLOCK):
        part = out[first : first + BLOCK]
        own, lengths = match[: part.shape[0]], shelf.lengths[first : first + BLOCK]
        own[:] = 0.0
        add_match(shelf, unit, first, own)
        for j in range(part.shape[0]):
            part[j] = own[j] * lengths[j] + words[shelf.category[first + j]] + noise_sd * part[j]


@jit
def weights_of(action: FloatArray, signs: FloatArray) -> tuple[FloatArray, float]:
    """Return what an `action (10,)` weighs the static features `(6,)` and the match by.

    `signs (3,)` of price taste, label taste and specificity.
    """
    static = np.empty(len(STATIC))
    for n, feature in enumerate(STATIC):
        static[n] = action[feature]
    for n, (feature, row) in enumerate(SIGNED):
        static[row] += action[feature] * signs[n]
    return static, action[MATCH]


@jit
def boosted_scores(
    shelf: Shelf, base: FloatArray, user: FloatArray, signs: FloatArray, action: FloatArray, out: FloatArray
) -> None:
    """Write base + phi . action to `out (K,)`: `base (K,)`, `user (d,)` embedding, `signs (3,)`, `action (10,)`."""
    static, match = weights_of(action, signs)
    mean, scale = match_scale(shelf, user)
    vector = user * (match * scale)
    for first in range(0, out.shape[0], BLOCK):
        part = out[first : first + BLOCK]
        part[:] = base[first : first + BLOCK] - match * scale * mean
        if match * scale != 0.0:
            add_match(shelf, vector, first, part)
        _add_static(shelf, static, first, part)


@jit
def matches(shelf: Shelf, user: FloatArray, out: FloatArray) -> None:
    """Write the standardised match of a user `(d,)` and each product to `out (K,)`."""
    mean, scale = match_scale(shelf, user)
    for first in range(0, out.shape[0], BLOCK):
        part = out[first : first + BLOCK]
        part[:] = -scale * mean
        add_match(shelf, user * scale, first, part)


@jit
def matched_scores(
    shelf: Shelf, base: FloatArray, match: FloatArray, signs: FloatArray, action: FloatArray, out: FloatArray
) -> None:
    """Write what `boosted_scores` does, but for rounding, when a user's `matches (K,)` are at hand."""
    static, weight = weights_of(action, signs)
    for first in range(0, out.shape[0], BLOCK):
        part = out[first : first + BLOCK]
        part[:] = base[first : first + BLOCK] + weight * match[first : first + BLOCK]
        _add_static(shelf, static, first, part)


@jit
def _add_static(shelf: Shelf, weights: FloatArray, first: int, out: FloatArray) -> None:
    for n in range(weights.shape[0]):
        row = shelf.static[n, first : first + out.shape[0]]
        if weights[n] != 0.0:
            for j in range(out.shape[0]):
                out[j] += weights[n] * row[j]


@jit
def boost_features(shelf: Shelf, user: FloatArray, signs: FloatArray, products: IntArray, out: FloatArray) -> None:
    """Write the boost features of `products (n,)` to `out (n, 10)`."""
    mean, scale = match_scale(shelf, user)
    for n in range(products.shape[0]):
        p, match = products[n], 0.0
        for i in range(user.shape[0]):
            match += user[i] * shelf.embeddings[i, p]
        for row, feature in enumerate(STATIC):
            out[n, feature] = shelf.static[row, p]
        for place, (feature, row) in enumerate(SIGNED):
            out[n, feature] = signs[place] * shelf.static[row, p]
        out[n, MATCH] = (match - mean) * scale
