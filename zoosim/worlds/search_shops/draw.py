"""Draw a search shop: a configuration of the search world with products, tastes, behaviour and rewards of its own."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import optimize, special

from zoosim.core.config import build
from zoosim.core.rng import stream
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray
from zoosim.worlds.search.world import build_search_world
from zoosim.worlds.search_shops.config import SearchShopsConfig

PAIRS = 4_000
"""Pairs of visitor and product by which levels of clicks and purchases are set."""

WIDEST = 40.0
"""Levels lie within so many log odds of 0."""

MOST_CHANGES = 2
CHANGE_AT = (0.2, 0.6)
"""Changes of a catalogue, at most, and between which shares of the run they fall."""

LONGEST_BIAS = 8
"""Positions with a bias of examination of their own."""


class ShopDraws:
    """Draws of the parts of one shop.

    Args:
        config: What shops are drawn from.
        rng: Source of the draws; their order decides what a seed's shop is.
    """

    def __init__(self, config: SearchShopsConfig, rng: np.random.Generator) -> None:
        self._config = config
        self._rng = rng

    def number(self, ends: Sequence[float]) -> float:
        """Draw evenly."""
        low, high = ends
        return float(self._rng.uniform(low, high))

    def logarithmic(self, ends: Sequence[float]) -> float:
        """Draw evenly on a log scale."""
        return float(np.exp(self._rng.uniform(*np.log(ends))))

    def happens(self, share: float) -> bool:
        """Draw whether one of a share."""
        return bool(self._rng.random() < share)

    def names(self, what: str, ends: Sequence[int]) -> dict[str, float]:
        """Draw how many there are of what; returns their names with their shares."""
        count = int(self._rng.integers(ends[0], ends[1] + 1))
        # At concentrations of 5 shares differ, but are rarely tiny.
        shares = self._rng.dirichlet(np.full(count, 5.0))
        return {f"{what} {number}": float(share) for number, share in enumerate(shares, start=1)}

    def category(self, name: str, share: float) -> dict[str, Any]:
        """Draw a category of products."""
        ranges = self._config.of_products
        return {
            "share": share,
            "log_price_mean": self.number(ranges.log_price),
            "log_price_sd": self.logarithmic(ranges.price_spread),
            "cm2_slope": self.number(ranges.margin),
            "private_label": self.number(ranges.private_label),
            "bestseller_mean": self.number(ranges.bestseller),
            "bestseller_sd": self.number((0.3, 1.0)),
            "embedding_sd": self.number((0.5, 0.9)),
            "words": [name],
            "strategic": self.happens(ranges.strategic),
        }

    def segment(self, share: float, categories: Sequence[str]) -> dict[str, Any]:
        """Draw a segment of users."""
        ranges = self._config.visitors
        tastes = self.number((1.0, 4.0)) * self._rng.dirichlet(np.ones(len(categories)))
        return {
            "share": share,
            "price_taste_mean": self.number(ranges.price),
            "price_taste_sd": self.logarithmic(ranges.spread),
            "label_taste_mean": self.number(ranges.label),
            "label_taste_sd": self.logarithmic(ranges.spread),
            "category_tastes": dict(zip(categories, np.maximum(tastes, 0.02).tolist(), strict=True)),
        }

    def query_type(self, share: float) -> dict[str, Any]:
        """Draw a type of query: who types it looks at fewer and fewer positions."""
        falls = self.number((0.1, 0.6)) * np.arange(LONGEST_BIAS)
        bias = np.maximum(self.number((0.5, 2.5)) - falls, self.number((-1.0, 0.3)))
        return {"share": share, "specificity": self.number((0.3, 1.0)), "bias": bias.tolist()}

    def behaviour(self) -> dict[str, float]:
        """Draw what visitors respond to, but for the levels of clicks and purchases."""
        ranges = self._config.effects
        return {
            "cosine": self.number(ranges.cosine),
            "price": self.number(ranges.price),
            "private_label": self.number(ranges.label),
            "category": self.number(ranges.category),
            "discount": self.number(ranges.discount),
            "bestseller": self.number(ranges.bestseller),
            "utility_sd": self.logarithmic(ranges.noise),
            "examine_satisfaction": self.number((0.0, 0.4)),
            "purchase_slope": self.number((0.4, 1.6)),
            "purchase_price": self.number((-0.3, 0.1)),
            "click_satisfaction": self.number((0.2, 0.6)),
            "skip_satisfaction": self.number((-0.3, -0.05)),
            "purchase_satisfaction": self.number((-1.5, -0.3)),
        }

    def reward(self) -> dict[str, float]:
        """Draw what a visit counts."""
        ranges = self._config.reward
        rank_change = self.logarithmic(ranges.rank_change)
        return {
            "cm2": self.number(ranges.margin),
            "strategic": self.number(ranges.strategic),
            "clicks": self.logarithmic(ranges.click),
            "rank_change": rank_change if self.happens(ranges.stable) else 0.0,
        }

    def shifts(self, categories: Sequence[str], steps: int) -> list[dict[str, Any]]:
        """Draw how the catalogue changes in a run."""
        ranges = self._config.changes
        count = int(self._rng.integers(1, MOST_CHANGES + 1))
        shares = np.sort(self._rng.uniform(*CHANGE_AT, count))
        # Visit 0 opens the shop. In a short run two changes may meet at one visit, and count as one.
        at = np.unique(np.maximum(1, (shares * steps).astype(int)))
        if not self.happens(ranges.share) or steps < 2:
            return []
        return [self._shift(int(step), number, categories) for number, step in enumerate(at, start=1)]

    def _shift(self, step: int, number: int, categories: Sequence[str]) -> dict[str, Any]:
        ranges = self._config.changes
        dearer = [name for name in categories if self.happens(0.5)]
        promoted = [name for name in categories if self.happens(0.3)]
        return {
            "step": step,
            "name": f"change {number}",
            "prices": {name: self.logarithmic(ranges.prices) for name in dearer},
            "promotions": {
                name: {"share": self.number(ranges.promoted), "discount": self.number((0.1, 0.4))} for name in promoted
            },
            "renewal": self.number(ranges.renewal),
        }


def draw_search_shop(config: SearchShopsConfig, *, seed: int, steps: int) -> SearchConfig:
    """Return the search shop of a seed.

    Args:
        config: What shops are drawn from.
        seed: Seed of the draws.
        steps: Length of the run, in visits.
    """
    draws = ShopDraws(config, stream(seed, "search shop"))
    categories = draws.names("category", config.categories)
    segments = draws.names("segment", config.segments)
    query_types = draws.names("query", config.query_types)
    rates = (draws.logarithmic(config.click_rate), draws.logarithmic(config.purchase_rate))
    behaviour = draws.behaviour()
    values = {
        "n_products": round(draws.logarithmic(config.products)),
        "n_users": config.users,
        "k": round(draws.number(config.shown)),
        "a_max": config.a_max,
        "context": "rich" if draws.happens(config.visitors.told) else "simple",
        "categories": {name: draws.category(name, share) for name, share in categories.items()},
        "segments": {name: draws.segment(share, list(categories)) for name, share in segments.items()},
        "query_types": {name: draws.query_type(share) for name, share in query_types.items()},
        "relevance": {
            "cosine": draws.number((0.3, 1.0)),
            "tokens": draws.number((0.0, 0.6)),
            "noise_sd": draws.number((0.02, 0.2)),
        },
        "behaviour": behaviour,
        "reward": draws.reward(),
        # Last, since it takes more draws where there are more changes.
        "shifts": draws.shifts(list(categories), steps),
    }
    drawn: SearchConfig = build(SearchConfig, values, "env")
    return drawn.model_copy(update={"behaviour": drawn.behaviour.model_copy(update=_levels(drawn, seed, rates))})


def _levels(config: SearchConfig, seed: int, rates: tuple[float, float]) -> dict[str, float]:
    """Return the intercepts of clicks and purchases by which both have their rates where products come at random."""
    behaviour = config.behaviour
    utility, log_price = _pairs(config, seed)

    # The same pairs at every level: a rate then rises smoothly with it, and has one root.
    def click_rate(level: float) -> float:
        return float(special.expit(utility + level).mean() - rates[0])

    intercept = optimize.brentq(click_rate, -WIDEST, WIDEST)
    chances = special.expit(utility + intercept)
    leaning = behaviour.purchase_slope * (utility + intercept) + behaviour.purchase_price * log_price

    def purchase_rate(level: float) -> float:
        # Per click, so pairs count by their chance of one.
        return float(np.average(special.expit(leaning + level), weights=chances) - rates[1])

    return {"intercept": intercept, "purchase_bias": optimize.brentq(purchase_rate, -WIDEST, WIDEST)}


def _pairs(config: SearchConfig, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return utilities, without an intercept, of random products to random visitors, and the products' log prices."""
    # Behaviour moves no draw of products or users, so these are those of the shop that runs will visit.
    world = build_search_world(config, seed=seed)
    behaviour = config.behaviour
    rng = stream(seed, "levels of a search shop")
    people = rng.integers(0, len(world.users.segment), PAIRS)
    products = rng.integers(0, len(world.catalogue.ids), PAIRS)
    # The terms of `mean_utility` that drawn shops have, then the noise of `draw_utility`.
    visitors = world.users.embeddings[people]
    embeddings = world.catalogue.embeddings[:, products].T
    lengths = np.linalg.norm(visitors, axis=1) * np.linalg.norm(embeddings, axis=1)
    log_price = np.log1p(world.catalogue.price[products])
    utility = behaviour.cosine * (visitors * embeddings).sum(axis=1) / lengths
    utility += behaviour.price * world.users.price_taste[people] * log_price
    utility += behaviour.private_label * world.users.label_taste[people] * world.catalogue.label[products]
    utility += behaviour.category * world.users.category_tastes[people, world.catalogue.category[products]]
    utility += behaviour.discount * world.catalogue.discount[products]
    utility += behaviour.bestseller * world.catalogue.bestseller[products]
    utility += behaviour.utility_sd * rng.normal(size=PAIRS)
    return utility, log_price
