"""Products by counter-based draws: what each of them is like follows from the seed and the product's number alone."""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.memory import check_memory
from zoosim.core.rng import normal, stream_key, uniform
from zoosim.core.types import BoolArray, Float32Array, FloatArray, IntArray, frozen
from zoosim.worlds.catalogue.config import CatalogueConfig


class Products(NamedTuple):
    """All products that there ever are, in the order of their arrival; arrays are read-only.

    `features (P, n + 1)` of 32 bits, what a shop sees: n tastes, then the appeal; `effects (P, n + 1)`, what clicks
    follow: the same with what no feature shows; `categories (P,)`, numbers from 0.
    """

    features: Float32Array
    effects: Float32Array
    categories: np.ndarray


class Batch(NamedTuple):
    """Products that come together: `start` to `stop` - 1, `appeal` beyond the others, of one `category` if not -1."""

    start: int
    stop: int
    category: int
    appeal: float


def draw_products(config: CatalogueConfig, seed: int) -> Products:
    """Draw the products of a seed.

    Raises:
        ConfigError: they do not fit in memory.
    """
    batches = _batches(config)
    count = batches[-1].stop
    width = config.n_tastes + 1
    # Two arrays of 32 bits, the category, and the ids and masks of the periods.
    n_bytes = count * (2 * 4 * width + 2 + 16)
    advice = "lower env.n_products, env.n_tastes or env.arrivals"
    check_memory(n_bytes, f"env: {count:,} products with {width} features", advice)
    products = Products(
        np.empty((count, width), np.float32), np.empty((count, width), np.float32), np.empty(count, np.int16)
    )
    sizes = 1.0 / np.arange(1, config.n_categories + 1)
    bounds = np.cumsum(sizes) / sizes.sum()
    keys = np.array([stream_key(seed, "catalogue", name) for name in ("centres", "categories", "seen", "hidden")])
    for batch in batches:
        _draw_batch(keys, batch, bounds, config.in_category, config.hidden, products)
    return Products(*map(frozen, products))


def _batches(config: CatalogueConfig) -> list[Batch]:
    """Return the products of the opening, and those of each arrival."""
    batches = [Batch(0, config.n_products, -1, 0.0)]
    new_category = config.n_categories
    for arrival in config.arriving:
        start = batches[-1].stop
        category = new_category if arrival.new_category else -1
        new_category += arrival.new_category
        batches.append(Batch(start, start + config.n_arriving(arrival), category, arrival.appeal))
    return batches


@jit
def _draw_batch(
    keys: np.ndarray, batch: Batch, bounds: FloatArray, in_category: float, hidden: float, products: Products
) -> None:
    """Write the products of a batch; `keys` are those of centres, categories, what is seen and what is hidden."""
    n_tastes = products.features.shape[1] - 1
    of_category = np.sqrt(in_category)
    own = np.sqrt(1.0 - in_category)
    seen = np.sqrt(1.0 - hidden)
    unseen = np.sqrt(hidden)
    for product in range(batch.start, batch.stop):
        category = batch.category
        if category < 0:
            place = int(np.searchsorted(bounds, uniform(keys[1], product, 0), side="right"))
            category = min(place, bounds.shape[0] - 1)
        products.categories[product] = category
        for j in range(n_tastes + 1):
            value = normal(keys[2], product, j)
            if j < n_tastes:
                value = of_category * normal(keys[0], category, j) + own * value
            else:
                value += batch.appeal
            products.features[product, j] = value
            products.effects[product, j] = seen * value
            if hidden > 0.0:
                products.effects[product, j] += unseen * normal(keys[3], product, j)


@jit
def draw_tastes(key: np.uint64, user: int, n_tastes: int) -> FloatArray:
    """Return the tastes of a user `(n_tastes,)`."""
    tastes = np.empty(n_tastes)
    for j in range(n_tastes):
        tastes[j] = normal(key, user, j)
    return tastes


@jit
def draw_available(keys: np.ndarray, shares: FloatArray, counts: IntArray, n_products: int) -> BoolArray:
    """Return which products are in stock `(n_products,)` while run-outs last.

    Args:
        keys: Key of each run-out `(r,)`.
        shares: Share of the products that each takes `(r,)`.
        counts: How many products there were when it began `(r,)`.
        n_products: How many there are.
    """
    available = np.ones(n_products, np.bool_)
    for run_out in range(shares.shape[0]):
        for product in range(counts[run_out]):
            if uniform(keys[run_out], product, 0) < shares[run_out]:
                available[product] = False
    return available


@jit
def find_best(effects: Float32Array, query: FloatArray, available: BoolArray) -> tuple[int, float]:
    """Return the available product with the largest inner product with a query, the first on ties, and that number."""
    best = -1
    largest = -np.inf
    for product in range(available.shape[0]):
        if not available[product]:
            continue
        score = inner_product(effects, product, query)
        if best < 0 or score > largest:
            best = product
            largest = score
    return best, largest


@jit
def inner_product(effects: Float32Array, product: int, query: FloatArray) -> float:
    """Return the inner product of a row of `effects` with a query, summed in 64 bits."""
    total = 0.0
    for j in range(query.shape[0]):
        total += effects[product, j] * query[j]
    return total
