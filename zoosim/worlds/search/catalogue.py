"""The catalogue of a search shop: one read-only array per property of its products, drawn once."""

from typing import NamedTuple

import numpy as np

from zoosim.core.search_config import SearchConfig
from zoosim.core.types import BoolArray, FloatArray, IntArray, frozen


class Catalogue(NamedTuple):
    """K products: `ids (K,)`, `category (K,)` by number, `price (K,)` and `cm2 (K,)` in EUR, `discount (K,)` in [0, 1].

    `label (K,)` is 1 for a private label; `bestseller (K,)` a score of at least 0; `strategic (K,)`; `embeddings
    (d, K)`, a column per product.
    """

    ids: IntArray
    category: IntArray
    price: FloatArray
    cm2: FloatArray
    discount: FloatArray
    label: FloatArray
    bestseller: FloatArray
    strategic: BoolArray
    embeddings: FloatArray


def draw_catalogue(config: SearchConfig, *, rng: np.random.Generator) -> Catalogue:
    """Draw a catalogue from the distributions in `config`."""
    categories = list(config.categories.values())
    count = config.n_products
    shares = np.array([settings.share for settings in categories])
    category = rng.choice(len(categories), count, p=shares / np.sum(shares))

    def per_product(setting: str) -> FloatArray:
        return np.array([getattr(settings, setting) for settings in categories], float)[category]

    price = np.exp(per_product("log_price_mean") + per_product("log_price_sd") * rng.normal(size=count))
    cm2 = per_product("cm2_slope") * price + config.cm2_sd * rng.normal(size=count)
    label = (rng.random(count) < per_product("private_label")).astype(float)
    bestseller = np.maximum(per_product("bestseller_mean") + per_product("bestseller_sd") * rng.normal(size=count), 0.0)
    discounted = rng.random(count) >= config.discount.none
    discount = np.where(discounted, rng.uniform(config.discount.low, config.discount.high, count), 0.0)
    return Catalogue(
        ids=frozen(np.arange(count)),
        category=frozen(category),
        price=frozen(price),
        cm2=frozen(cm2),
        discount=frozen(discount),
        label=frozen(label),
        bestseller=frozen(bestseller),
        strategic=frozen(per_product("strategic") > 0.0),
        embeddings=draw_embeddings(config, category, rng=rng),
    )


def draw_embeddings(config: SearchConfig, category: IntArray, *, rng: np.random.Generator) -> FloatArray:
    """Draw an embedding around the centre of its category for each product: `category (K,)` -> `(d, K)`."""
    deviation = np.array([settings.embedding_sd for settings in config.categories.values()])[category]
    centres = rng.normal(size=(config.embedding_dim, len(config.categories)))
    embeddings = rng.normal(size=(config.embedding_dim, len(category)))
    embeddings *= deviation
    embeddings += centres[:, category]
    return frozen(embeddings)
