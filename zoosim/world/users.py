"""Who searches: a population of users, each of a segment, with tastes and an embedding."""

from typing import NamedTuple

import numpy as np

from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray, IntArray
from zoosim.world.world import frozen


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
    """Draw a population by the laws of `config`, its segments in proportion to their shares."""
    kinds = list(config.segments.values())
    counts = _counts([_first_share(config.shares_of(name)) for name in config.segments], config.n_users)
    segment, total = np.repeat(np.arange(len(kinds)), counts), int(counts.sum())

    def of(name: str) -> FloatArray:
        return np.array([getattr(kind, name) for kind in kinds], float)[segment]

    price_taste = of("price_taste_mean") + of("price_taste_sd") * rng.normal(size=total)
    label_taste = of("label_taste_mean") + of("label_taste_sd") * rng.normal(size=total)
    concentrations = np.array([[kind.category_tastes[name] for name in config.categories] for kind in kinds])
    tastes = np.maximum(rng.gamma(concentrations[segment]), 1e-300)
    tastes /= tastes.sum(axis=1, keepdims=True)
    embeddings = rng.normal(size=(total, config.embedding_dim))
    bounds = np.concatenate([[0], np.cumsum(counts)])
    return Users(
        segment=frozen(segment),
        price_taste=frozen(price_taste),
        label_taste=frozen(label_taste),
        category_tastes=frozen(tastes),
        embeddings=frozen(embeddings),
        bounds=frozen(bounds),
    )


def _first_share(shares: list[float]) -> float:
    """Return the first of the shares that a segment has over time, of one that is to come the largest."""
    return shares[0] or max(shares)


def _counts(shares: list[float], total: int) -> IntArray:
    """Return how many users each segment has: in proportion, at least 1 where the share is above 0."""
    exact = np.array(shares) / sum(shares) * total
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: total - counts.sum()]] += 1
    counts[(counts == 0) & (exact > 0)] = 1
    return counts
