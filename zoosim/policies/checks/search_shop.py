"""A small made-up search shop, where products are boosted, to check policies in."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from zoosim.core.types import Context, FloatArray, IntArray, frozen
from zoosim.policies.boosts.base import BoostSpec
from zoosim.ranking.product_table import ProductTable

VISITS = 40


@dataclass(frozen=True)
class BoostShop:
    """A made-up search shop of `n_products` that shows `k` of them; clicks depend on the position alone.

    `columns` counts the features that describe segments, query types and tastes.
    """

    name: str
    n_products: int
    k: int
    a_max: float
    columns: tuple[int, int, int]
    seed: int

    @cached_property
    def spec(self) -> BoostSpec:
        """The spec that policies are made with."""
        segments, kinds, tastes = self.columns
        sizes: dict[str, Any] = {"n_segments": segments, "n_kinds": kinds, "n_tastes": tastes, "k": self.k}
        return BoostSpec(a_max=self.a_max, n_categories=3, user_dim=8, product_dim=4, steps=VISITS, **sizes)

    @cached_property
    def ids(self) -> IntArray:
        """Return the ids of the products `(n_products,)`."""
        return frozen(7 + 3 * np.arange(self.n_products))

    @cached_property
    def table(self) -> ProductTable:
        """Return what the shop knows of its products, read-only."""
        count = self.n_products
        rng = np.random.default_rng(self.seed)
        numbers = np.exp(rng.normal(2.0, 0.5, (2, count)))
        flags = rng.random((3, count))
        return ProductTable(
            category=frozen(rng.integers(0, 3, count)),
            price=frozen(numbers[0]),
            cm2=frozen(0.1 * numbers[0] - 0.2),
            discount=frozen(np.where(flags[0] < 0.3, 0.1, 0.0)),
            label=frozen((flags[1] < 0.4).astype(float)),
            bestseller=frozen(numbers[1]),
            strategic=frozen(flags[2] < 0.2),
        )

    def context(self, visit: int, products: IntArray | None = None, *, frozen: bool = True) -> Context:
        """Return the context of a visit in fresh arrays; of `products (K,)`, by index, in place of all.

        All frozen contexts of all products share one table, as those of a shop do.
        """
        features, base_scores, boost_features = _drawn(self, visit)
        chosen = np.arange(self.n_products) if products is None else products
        arrays: dict[str, np.ndarray] = {
            "features": features.copy(),
            "product_ids": self.ids[chosen],
            "base_scores": base_scores[chosen],
            "boost_features": boost_features[chosen],
        }
        table = self.table
        if products is not None or not frozen:
            table = self.table.rows(chosen)
        for array in (*arrays.values(), *table):
            array.flags.writeable = not frozen
        return Context(user_id=visit % 5, product_table=table, **arrays)

    def feedback(
        self, visit: int, action: FloatArray, products: IntArray | None = None
    ) -> tuple[float, dict[str, Any]]:
        """Return what boosts earn at a visit, and what the shop would log of it."""
        context = self.context(visit, products)
        rng = np.random.default_rng((self.seed, visit, 1))
        table = context.product_table
        scores = context.base_scores + context.boost_features @ action
        shown = np.argsort(-scores, kind="stable")[: self.k]
        clicks = rng.random(len(shown)) < 0.6 / (1.0 + np.arange(len(shown)))
        purchases = clicks & (rng.random(len(shown)) < 0.5)
        parts = {"gmv": table.price, "cm2": table.cm2, "strategic": table.strategic}
        sums = {name: float(column[shown[purchases]].sum()) for name, column in parts.items()}
        reward = sums["gmv"] + 0.4 * sums["cm2"] + 2.0 * sums["strategic"] + 0.1 * float(clicks.sum())
        return reward, {
            "shown": context.product_ids[shown],
            "products": table.rows(shown)._asdict(),
            "boost_features": context.boost_features[shown],
            "base_scores": context.base_scores[shown],
            "clicks": clicks,
            "purchases": purchases,
            "reward_parts": {**sums, "clicks": int(clicks.sum()), "rank_change": 0},
        }


@lru_cache(maxsize=10 * VISITS)
def _drawn(shop: BoostShop, visit: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draw the features of a visit, and the base scores and boost features of all products."""
    rng = np.random.default_rng((shop.seed, visit))
    spec = shop.spec
    features = rng.normal(size=spec.user_dim)
    start = 0
    for size in shop.columns[:2]:
        features[start : start + size] = np.eye(size)[rng.integers(size)] if size else 0.0
        start += size
    return features, rng.normal(size=shop.n_products), rng.normal(size=(shop.n_products, spec.product_dim))


ONE_PRODUCT = BoostShop("a search shop of 1 product", n_products=1, k=1, a_max=0.5, columns=(0, 0, 0), seed=1)
SMALL = BoostShop("a search shop of 12 products", n_products=12, k=5, a_max=2.0, columns=(3, 2, 0), seed=2)
LARGER = BoostShop("a search shop of 60 products", n_products=60, k=20, a_max=0.5, columns=(3, 2, 2), seed=3)
SHOPS = (ONE_PRODUCT, SMALL, LARGER)
