"""What a search shop sells: one array a property, built once and then read-only."""

from typing import NamedTuple

import numpy as np

from zoosim.core.search_config import SearchConfig
from zoosim.core.types import BoolArray, FloatArray, IntArray, frozen


class Catalogue(NamedTuple):
    """K products: `ids (K,)`, `category (K,)` by number, `price (K,)` and `cm2 (K,)` in EUR, `discount (K,)` in [0, 1].

    `label (K,)` is 1 for a private label; `bestseller (K,)` a score of at least 0; `strategic (K,)`; `embeddings
    (d, K)`, a column a product.
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
    """Draw a catalogue by the laws of `config`."""
    kinds, count = list(config.categories.values()), config.n_products
    category = rng.choice(len(kinds), count, p=_shares([kind.share for kind in kinds]))

    def of(name: str) -> FloatArray:
        return np.array([getattr(kind, name) for kind in kinds], float)[category]

    price = np.exp(of("log_price_mean") + of("log_price_sd") * rng.normal(size=count))
    cm2 = of("cm2_slope") * price + config.cm2_sd * rng.normal(size=count)
    label = (rng.random(count) < of("private_label")).astype(float)
    bestseller = np.maximum(of("bestseller_mean") + of("bestseller_sd") * rng.normal(size=count), 0.0)
    reduced = rng.random(count) >= config.discount.none
    discount = np.where(reduced, rng.uniform(config.discount.low, config.discount.high, count), 0.0)
    return Catalogue(
        ids=frozen(np.arange(count)),
        category=frozen(category),
        price=frozen(price),
        cm2=frozen(cm2),
        discount=frozen(discount),
        label=frozen(label),
        bestseller=frozen(bestseller),
        strategic=frozen(of("strategic") > 0.0),
        embeddings=draw_embeddings(config, category, rng=rng),
    )


def draw_embeddings(config: SearchConfig, category: IntArray, *, rng: np.random.Generator) -> FloatArray:
    """Draw an embedding around the centre of its category for each product: `category (K,)` -> `(d, K)`."""
    kinds = list(config.categories.values())
    spread = np.array([kind.embedding_sd for kind in kinds])[category]
    centres = rng.normal(size=(config.embedding_dim, len(kinds)))
    embeddings = rng.normal(size=(config.embedding_dim, len(category)))
    embeddings *= spread
    embeddings += centres[:, category]
    return frozen(embeddings)


def _shares(shares: list[float]) -> FloatArray:
    """Return shares that add up to 1 to the last bit."""
    values: FloatArray = np.array(shares) / np.sum(shares)
    return values
