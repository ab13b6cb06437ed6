"""Who searches: a population of users, each of a segment, with tastes and an embedding."""

from typing import NamedTuple

import numpy as np

from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray, IntArray, frozen


class Users(NamedTuple):
    """M users sorted by segment: `segment (M,)`, `price_taste (M,)`, `label_taste (M,)`, `category_tastes (M, C)`.

    `embeddings (M, d)`; the users of segment s are `bounds[s]` to `bounds[s + 1]` - 1, `bounds (S + 1,)`.
    """

    segment: IntArray
    price_taste: FloatArray
    label_taste: FloatArray
    category_tastes: FloatArray
    embeddings: FloatArray
    bounds: IntArray


def draw_users(config: SearchConfig, *, rng: np.random.Generator) -> Users:
    """Draw a population by the laws of `config`, its segments in proportion to their first shares.

    Segments that come later, by a shift, have users of their own beside those, in proportion to their largest share.
    """
    first = _counts([config.shares_of(name)[0] for name in config.segments], config.n_users)
    late = [
        0.0 if counted else max(config.shares_of(name)) for name, counted in zip(config.segments, first, strict=True)
    ]
    early, others = _draw(config, first, rng), _draw(config, _late_counts(late, config.n_users), rng.spawn(1)[0])
    order = np.argsort(np.concatenate([early.segment, others.segment]), kind="stable")
    columns = [np.concatenate(pair)[order] for pair in zip(early[:-1], others[:-1], strict=True)]
    segment, price_taste, label_taste, tastes, embeddings = map(frozen, columns)
    return Users(segment, price_taste, label_taste, tastes, embeddings, frozen(early.bounds + others.bounds))


def _late_counts(shares: list[float], total: int) -> IntArray:
    counts: IntArray = np.ceil(np.array(shares) * total).astype(np.int64)
    return counts


def _draw(config: SearchConfig, counts: IntArray, rng: np.random.Generator) -> Users:
    kinds, total = list(config.segments.values()), int(counts.sum())
    segment = np.repeat(np.arange(len(kinds)), counts)

    def of(name: str) -> FloatArray:
        return np.array([getattr(kind, name) for kind in kinds], float)[segment]

    price_taste = of("price_taste_mean") + of("price_taste_sd") * rng.normal(size=total)
    label_taste = of("label_taste_mean") + of("label_taste_sd") * rng.normal(size=total)
    concentrations = np.array([[kind.category_tastes[name] for name in config.categories] for kind in kinds])
    tastes = np.maximum(rng.gamma(concentrations[segment]), 1e-300)
    tastes /= tastes.sum(axis=1, keepdims=True)
    embeddings = rng.normal(size=(total, config.embedding_dim))
    return Users(segment, price_taste, label_taste, tastes, embeddings, np.concatenate([[0], np.cumsum(counts)]))


def _counts(shares: list[float], total: int) -> IntArray:
    """Return how many users each segment has: in proportion, at least 1 where the share is above 0."""
    exact = np.array(shares) / sum(shares) * total
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: total - counts.sum()]] += 1
    counts[(counts == 0) & (exact > 0)] = 1
    return counts
