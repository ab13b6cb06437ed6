"""A small made-up shop, where products are chosen, to check policies in."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PolicySpec

VISITS = 60


@dataclass(frozen=True)
class Shop:
    """A made-up task: `VISITS` visitors of `n_users`, and a click table that depends on the product alone."""

    name: str
    n_products: int
    user_dim: int
    product_dim: int
    n_users: int
    seed: int

    @cached_property
    def spec(self) -> PolicySpec:
        """The spec that policies are made with."""
        return PolicySpec(user_dim=self.user_dim, product_dim=self.product_dim, n_users=self.n_users, steps=VISITS)

    @cached_property
    def _arrays(self) -> tuple[FloatArray, FloatArray, IntArray, BoolArray, FloatArray]:
        """Draw users, products, visitors `(VISITS,)`, masks `(VISITS, K)` and rewards `(VISITS, K)`."""
        rng = np.random.default_rng(self.seed)
        k = self.n_products
        users = _sparse_normals(rng, self.n_users, self.user_dim)
        products = _sparse_normals(rng, k, self.product_dim)
        masks = rng.random((VISITS, k)) < 0.6
        masks[::4] = True
        masks[1::4] = False
        masks[np.arange(VISITS), rng.integers(0, k, VISITS)] = True
        rewards = (rng.random((VISITS, k)) < np.linspace(0.1, 0.7, k)).astype(np.float64)
        visitors = rng.integers(0, self.n_users, VISITS)
        return users, products, visitors, masks, rewards

    def context(self, visit: int, available: Iterable[bool] | None = None, *, frozen: bool = False) -> Context:
        """Return the context of a visit in fresh arrays, writable or `frozen`; `available` replaces its mask."""
        users, products, visitors, masks, _ = self._arrays
        user_id = int(visitors[visit % VISITS])
        arrays: dict[str, np.ndarray] = {
            "user": users[user_id].copy(),
            "product_ids": self.product_ids,
            "products": products.copy(),
            "available": masks[visit % VISITS].copy() if available is None else np.array(list(available)),
        }
        for array in arrays.values():
            array.flags.writeable = not frozen
        return Context(user_id=user_id, **arrays)

    @property
    def product_ids(self) -> IntArray:
        """Return the ids of the products `(K,)`: numbers that are no places among the candidates."""
        return 100 + 7 * np.arange(self.n_products)

    def rearranged(self, visit: int, places: IntArray, newcomers: int = 0) -> Context:
        """Return the context of a visit with the products at `places`, in that order, and some new ones behind."""
        context = self.everything(visit)
        fresh = np.random.default_rng(self.seed + 2).normal(0, 1, (newcomers, self.product_dim))
        return Context(
            user_id=context.user_id,
            user=context.user,
            product_ids=np.concatenate([context.product_ids[places], 10_000 + np.arange(newcomers)]),
            products=np.vstack([context.products[places], fresh]),
            available=np.ones(len(places) + newcomers, bool),
        )

    def everything(self, visit: int) -> Context:
        """Return the context of a visit with every product available."""
        return self.context(visit, np.ones(self.n_products, bool))

    def feedback(self, visit: int, action: int) -> tuple[float, None]:
        """Return what `action` earns at a visit; the shop logs nothing else of it."""
        return float(self._arrays[4][visit % VISITS, action]), None

    def log(self, visits: int) -> "ShopLog":
        """Return a past of uniformly random choices, as `Policy.fit` takes it."""
        rng = np.random.default_rng(self.seed + 1)
        users, products, _, _, _ = self._arrays
        user_ids = rng.integers(0, self.n_users, visits)
        return ShopLog(
            actions=rng.integers(0, self.n_products, visits),
            rewards=(rng.random(visits) < 0.3).astype(np.float64),
            propensities=np.full(visits, 1 / self.n_products),
            features=users[user_ids],
            products=products,
            user_ids=user_ids,
            product_ids=self.product_ids,
        )


@dataclass(frozen=True)
class ShopLog:
    """A log of a made-up shop in which every product could always be shown; see `PastLog`."""

    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray
    features: FloatArray
    products: FloatArray
    user_ids: IntArray
    product_ids: IntArray

    def __len__(self) -> int:
        return len(self.actions)

    def available(self, start: int, stop: int) -> BoolArray:
        """Return what could be shown in rows `start` to `stop - 1`: everything."""
        return np.ones((stop - start, len(self.products)), bool)


def _sparse_normals(rng: np.random.Generator, rows: int, columns: int) -> FloatArray:
    """Draw a matrix of normal numbers, a fifth of them 0 instead."""
    normals = rng.normal(0, 1, (rows, columns))
    return normals * (rng.random((rows, columns)) < 0.8)


ONE_PRODUCT = Shop("a shop of 1 product", n_products=1, user_dim=1, product_dim=1, n_users=1, seed=1)
SMALL = Shop("a shop of 5 products", n_products=5, user_dim=3, product_dim=2, n_users=4, seed=2)
LARGER = Shop("a shop of 12 products", n_products=12, user_dim=6, product_dim=4, n_users=30, seed=3)
APART = Shop("a shop of 6 products", n_products=6, user_dim=1, product_dim=6, n_users=1, seed=4)
SHOPS = (ONE_PRODUCT, SMALL, LARGER)
