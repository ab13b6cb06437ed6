"""The population of users of a search shop: each of a segment, with tastes and an embedding."""

from typing import Any, NamedTuple

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
    """Draw a population from the distributions in `config`, its segments in proportion to their first shares.

    Segments that come later, by a shift, have users of their own beside those, in proportion to their largest share.
    """
    first_counts = _counts([config.shares_of(name)[0] for name in config.segments], config.n_users)
    late_shares = [
        0.0 if count else max(config.shares_of(name)) for name, count in zip(config.segments, first_counts, strict=True)
    ]
    late_counts = np.ceil(np.array(late_shares) * config.n_users).astype(np.int64)
    early = _draw(config, first_counts, rng)
    late = _draw(config, late_counts, rng.spawn(1)[0])
    order = np.argsort(np.concatenate([early.segment, late.segment]), kind="stable")
    columns: dict[str, Any] = {
        name: frozen(np.concatenate([getattr(early, name), getattr(late, name)])[order])
        for name in Users._fields
        if name != "bounds"
    }
    return Users(**columns, bounds=frozen(early.bounds + late.bounds))


def _draw(config: SearchConfig, counts: IntArray, rng: np.random.Generator) -> Users:
    segments = list(config.segments.values())
    total = int(counts.sum())
    segment = np.repeat(np.arange(len(segments)), counts)

    def per_user(setting: str) -> FloatArray:
        return np.array([getattr(settings, setting) for settings in segments], float)[segment]

    price_taste = per_user("price_taste_mean") + per_user("price_taste_sd") * rng.normal(size=total)
    label_taste = per_user("label_taste_mean") + per_user("label_taste_sd") * rng.normal(size=total)
    concentrations = np.array([[settings.category_tastes[name] for name in config.categories] for settings in segments])
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
