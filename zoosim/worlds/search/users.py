"""The population of users of a search shop: each of a segment, with tastes and an embedding."""

from typing import NamedTuple

import numpy as np

from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray, IntArray, frozen
from zoosim.worlds.search.catalogue import per_row


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
    """Draw a population, its segments in proportion to their first shares.

    Segments that come later, by a shift, have users of their own beside those, in proportion to their largest share.

    Args:
        config: The shop.
        rng: Source of the draws.
    """
    shares = [config.shares_of(name) for name in config.segments]
    early_counts = _counts([first for first, *_ in shares], config.n_users)
    late_shares = np.where(early_counts > 0, 0.0, np.max(shares, axis=1))
    late_counts = np.ceil(late_shares * config.n_users).astype(np.int64)
    early = _draw(config, early_counts, rng)
    # By a generator of their own, so that segments which come later move no draw of the others.
    late = _draw(config, late_counts, rng.spawn(1)[0])
    order = np.argsort(np.concatenate([early.segment, late.segment]), kind="stable")
    columns = [np.concatenate(parts)[order] for parts in zip(early[:-1], late[:-1], strict=True)]
    return Users(*(frozen(column) for column in (*columns, early.bounds + late.bounds)))


def _draw(config: SearchConfig, counts: IntArray, rng: np.random.Generator) -> Users:
    segment = np.repeat(np.arange(len(counts)), counts)

    def taste(setting: str) -> FloatArray:
        mean = per_row(config.segments, f"{setting}_mean", segment)
        return mean + per_row(config.segments, f"{setting}_sd", segment) * rng.normal(size=len(segment))

    price_taste = taste("price_taste")
    label_taste = taste("label_taste")
    concentrations = np.array([settings.concentrations(config.categories) for settings in config.segments.values()])
    # A Dirichlet draw is gamma draws over their sum; of tiny concentrations all may underflow to 0.
    tastes = np.maximum(rng.gamma(concentrations[segment]), 1e-300)
    tastes /= tastes.sum(axis=1, keepdims=True)
    embeddings = rng.normal(size=(len(segment), config.embedding_dim))
    return Users(segment, price_taste, label_taste, tastes, embeddings, np.concatenate([[0], np.cumsum(counts)]))


def _counts(shares: list[float], total: int) -> IntArray:
    """Return how many users each segment has: in proportion, at least 1 where the share is above 0."""
    exact = np.array(shares) / sum(shares) * total
    counts = np.floor(exact).astype(np.int64)
    # The largest remainders get what rounding down has left over.
    counts[np.argsort(counts - exact, kind="stable")[: total - counts.sum()]] += 1
    counts[(counts == 0) & (exact > 0)] = 1
    return counts
