"""Scores of all products at one visit: base relevance, and boosts added to it. Compiled.

Sums run in a fixed order, so that every processor returns the same bits, and block by block: a block of the arrays
stays in the processor's first cache while every feature is added to it.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.normals import fill_normals
from zoosim.core.types import FloatArray, IntArray
from zoosim.ranking.boost_features import MATCH, SIGNED, STATIC
from zoosim.worlds.search.catalogue_index import CatalogueIndex, match_scale
from zoosim.worlds.search.queries import QueryTable

BLOCK = 512
"""Products that are worked on together."""


class BaseRanker(NamedTuple):
    """The base ranker: weights of `cosine` and shared `tokens`, standard deviation of noise, and its `key`."""

    key: np.uint64
    cosine: float
    tokens: float
    noise_sd: float


@jit
def score_request(
    relevance: BaseRanker,
    step: int,
    index: CatalogueIndex,
    query: FloatArray,
    table: QueryTable,
    row: int,
    out: FloatArray,
) -> int:
    """Write the base scores of a visit.

    Args:
        relevance: The base ranker.
        step: Number of the visit.
        index: The catalogue.
        query: Embedding of the query, `(d,)`.
        table: The shop's queries.
        row: Row of the query in the table.
        out: Overwritten, `(K,)`; -inf for what is no candidate.

    Returns:
        The number of candidates.
    """
    if table.starts.shape[0] == 0:
        # Noise by visit and product, drawn into the array in which the scores then take its place.
        fill_normals(relevance.key, step, out)
        base_scores(index, query, table.shared[row], relevance.cosine, relevance.tokens, relevance.noise_sd, out)
        count: int = out.shape[0]
        return count
    # No boost brings what is no candidate to the top.
    out[:] = -np.inf
    first = table.starts[row]
    end = table.starts[row + 1]
    for j in range(first, end):
        out[table.candidates[j]] = table.scores[j]
    return int(end - first)


@jit
def add_match(index: CatalogueIndex, vector: FloatArray, first: int, out: FloatArray) -> None:
    """Add the inner products of a vector with the embeddings of products.

    Args:
        index: The catalogue.
        vector: The vector, `(d,)`.
        first: Index of the first product.
        out: What they are added to, `(n,)`, for the n products from `first` on.
    """
    # Dimension by dimension: inner loops run along rows and vectorise, and each product's sum has the same order.
    for i in range(vector.shape[0]):
        row = index.embeddings[i, first : first + out.shape[0]]
        scale = vector[i]
        for j in range(out.shape[0]):
            out[j] += scale * row[j]


@jit
def base_scores(
    index: CatalogueIndex,
    query: FloatArray,
    shared: FloatArray,
    cosine: float,
    tokens: float,
    noise_sd: float,
    out: FloatArray,
) -> None:
    """Write base relevance.

    Args:
        index: The catalogue.
        query: Embedding of the query, `(d,)`.
        shared: Number of tokens that the query shares with each category, `(C,)`.
        cosine, tokens: Weights of the cosine, and of log(1 + shared tokens).
        noise_sd: Standard deviation of the noise.
        out: Noise from N(0, 1), `(K,)`, which is replaced.
    """
    length = np.sqrt(np.sum(query * query))
    # Weight and length go into the query's vector, once, rather than into each product's inner product.
    unit = query * (cosine / length if length > 0.0 else 0.0)
    # By category, all of whose products share the same words: C logarithms in place of K.
    words = tokens * np.log(1.0 + shared)
    buffer = np.empty(BLOCK)
    for first in range(0, out.shape[0], BLOCK):
        part = out[first : first + BLOCK]
        match = buffer[: part.shape[0]]
        inverse_lengths = index.inverse_lengths[first : first + BLOCK]
        match[:] = 0.0
        add_match(index, unit, first, match)
        for j in range(part.shape[0]):
            part[j] = match[j] * inverse_lengths[j] + words[index.category[first + j]] + noise_sd * part[j]


@jit
def signs_of(price_taste: float, label_taste: float, specificity: float, out: FloatArray) -> None:
    """Write the signs by which `weights_of` turns boosts, `(3,)`."""
    out[0] = np.sign(price_taste)
    out[1] = np.sign(label_taste)
    out[2] = np.sign(specificity)


@jit
def weights_of(action: FloatArray, signs: FloatArray) -> tuple[FloatArray, float]:
    """Return the weights that boosts give the static features, `(6,)`, and the match.

    Args:
        action: Boosts, `(10,)`.
        signs: Signs of price taste, label taste and specificity, `(3,)`.
    """
    static = np.empty(len(STATIC))
    for n, feature in enumerate(STATIC):
        static[n] = action[feature]
    for n, (feature, row) in enumerate(SIGNED):
        static[row] += action[feature] * signs[n]
    return static, action[MATCH]


@jit
def boosted_scores(
    index: CatalogueIndex, base: FloatArray, user: FloatArray, signs: FloatArray, action: FloatArray, out: FloatArray
) -> None:
    """Write base scores + boost features @ boosts.

    Args:
        index: The catalogue.
        base: Base scores, `(K,)`.
        user: Embedding of the user, `(d,)`.
        signs: Signs of price taste, label taste and specificity, `(3,)`.
        action: Boosts, `(10,)`.
        out: Overwritten, `(K,)`.
    """
    static, match = weights_of(action, signs)
    mean, scale = match_scale(index, user)
    vector = user * (match * scale)
    for first in range(0, out.shape[0], BLOCK):
        part = out[first : first + BLOCK]
        # The mean of the match is taken off here, once, and its inner products are then added.
        part[:] = base[first : first + BLOCK] - match * scale * mean
        if match * scale != 0.0:
            add_match(index, vector, first, part)
        _add_static(index, static, first, part)


@jit
def template_scores(
    index: CatalogueIndex,
    base: FloatArray,
    user: FloatArray,
    signs: FloatArray,
    by_rules: FloatArray,
    boosts: FloatArray,
    out: FloatArray,
) -> None:
    """Write base scores + what a template adds to them.

    Args:
        index: The catalogue.
        base: Base scores, `(K,)`.
        user: Embedding of the user, `(d,)`.
        signs: Signs of price taste, label taste and specificity, `(3,)`.
        by_rules: What the template's rules add, `(K,)`.
        boosts: The template's boosts, `(10,)`.
        out: Overwritten, `(K,)`.
    """
    has_boosts = np.any(boosts != 0.0)
    if has_boosts:
        boosted_scores(index, base, user, signs, boosts, out)
    for p in range(out.shape[0]):
        out[p] = (out[p] if has_boosts else base[p]) + by_rules[p]


@jit
def matches(index: CatalogueIndex, user: FloatArray, out: FloatArray) -> None:
    """Write the standardised match of a user and each product.

    Args:
        index: The catalogue.
        user: Embedding of the user, `(d,)`.
        out: Overwritten, `(K,)`.
    """
    mean, scale = match_scale(index, user)
    for first in range(0, out.shape[0], BLOCK):
        part = out[first : first + BLOCK]
        part[:] = -scale * mean
        add_match(index, user * scale, first, part)


@jit
def matched_scores(
    index: CatalogueIndex, base: FloatArray, match: FloatArray, signs: FloatArray, action: FloatArray, out: FloatArray
) -> None:
    """Write what `boosted_scores` does, up to rounding, from matches that were computed before.

    Args:
        index: The catalogue.
        base: Base scores, `(K,)`.
        match: What `matches` wrote for the user, `(K,)`.
        signs: Signs of price taste, label taste and specificity, `(3,)`.
        action: Boosts, `(10,)`.
        out: Overwritten, `(K,)`.
    """
    static, weight = weights_of(action, signs)
    for first in range(0, out.shape[0], BLOCK):
        part = out[first : first + BLOCK]
        part[:] = base[first : first + BLOCK] + weight * match[first : first + BLOCK]
        _add_static(index, static, first, part)


@jit
def _add_static(index: CatalogueIndex, weights: FloatArray, first: int, out: FloatArray) -> None:
    for n in range(weights.shape[0]):
        row = index.static[n, first : first + out.shape[0]]
        if weights[n] != 0.0:
            for j in range(out.shape[0]):
                out[j] += weights[n] * row[j]


@jit
def boost_features(
    index: CatalogueIndex, user: FloatArray, signs: FloatArray, products: IntArray, out: FloatArray
) -> None:
    """Write the boost features of some products.

    Args:
        index: The catalogue.
        user: Embedding of the user, `(d,)`.
        signs: Signs of price taste, label taste and specificity, `(3,)`.
        products: Indices of the products, `(n,)`.
        out: Overwritten, `(n, 10)`.
    """
    mean, scale = match_scale(index, user)
    for n in range(products.shape[0]):
        p = products[n]
        match = 0.0
        for i in range(user.shape[0]):
            match += user[i] * index.embeddings[i, p]
        for row, feature in enumerate(STATIC):
            out[n, feature] = index.static[row, p]
        for sign, (feature, row) in enumerate(SIGNED):
            out[n, feature] = signs[sign] * index.static[row, p]
        out[n, MATCH] = (match - mean) * scale
