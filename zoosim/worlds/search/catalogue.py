"""The catalogue of a search shop: one read-only array per property of its products, drawn once."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.search_config import SearchConfig
from zoosim.core.types import BoolArray, FloatArray, IntArray, frozen


class SearchCatalogue(NamedTuple):
    """K products: `ids (K,)`, `category (K,)` by number, `price (K,)` and `cm2 (K,)` in EUR, `discount (K,)` in [0, 1].

    `label (K,)` is 1 for a private label; `bestseller (K,)` a score of at least 0; `strategic (K,)`; `appeal (K,)` what
    a product's utility has beyond its other properties; `embeddings (d, K)`, a column per product.
    """

    ids: IntArray
    category: IntArray
    price: FloatArray
    cm2: FloatArray
    discount: FloatArray
    label: FloatArray
    bestseller: FloatArray
    strategic: BoolArray
    appeal: FloatArray
    embeddings: FloatArray

    def renewed(self, successors: "SearchCatalogue", replaced: BoolArray) -> "SearchCatalogue":
        """Return the catalogue in which `successors` have the places of the products `replaced (K,)`."""
        columns: list[Any] = [frozen(np.where(replaced, *pair)) for pair in zip(successors, self, strict=True)]
        return SearchCatalogue(*columns)


def draw_catalogue(config: SearchConfig, *, rng: np.random.Generator) -> tuple[SearchCatalogue, SearchCatalogue | None]:
    """Draw a catalogue from the distributions in a configuration.

    Args:
        config: The shop.
        rng: Source of the draws.

    Returns:
        The catalogue, and a successor for each product if shifts renew it, else None.
    """
    products = _draw_properties(config, rng)
    centres = _draw_centres(config, rng)
    products = products._replace(embeddings=_draw_around(config, centres, products.category, rng))
    if not config.renews:
        return products, None
    # After all products, so that a shop that renews its catalogue opens with those of one that does not.
    others = _draw_properties(config, rng)
    embeddings = _draw_around(config, centres, others.category, rng)
    return products, others._replace(ids=frozen(others.ids + len(others.ids)), embeddings=embeddings)


def draw_embeddings(config: SearchConfig, category: IntArray, *, rng: np.random.Generator) -> FloatArray:
    """Draw an embedding around the centre of its category for each product, `(d, K)`.

    Args:
        config: The shop.
        category: Category of each product by number, `(K,)`.
        rng: Source of the draws.
    """
    return _draw_around(config, _draw_centres(config, rng), category, rng)


def _draw_properties(config: SearchConfig, rng: np.random.Generator) -> SearchCatalogue:
    """Draw the products of a catalogue but for their embeddings."""
    count = config.n_products
    shares = np.array([category.share for category in config.categories.values()])
    category = rng.choice(len(shares), count, p=shares / np.sum(shares))

    def normal(setting: str) -> FloatArray:
        mean = per_row(config.categories, f"{setting}_mean", category)
        return mean + per_row(config.categories, f"{setting}_sd", category) * rng.normal(size=count)

    # The draws stand in this order, which the products of a seed depend on.
    price = np.exp(normal("log_price"))
    cm2 = per_row(config.categories, "cm2_slope", category) * price + config.cm2_sd * rng.normal(size=count)
    label = (rng.random(count) < per_row(config.categories, "private_label", category)).astype(float)
    bestseller = np.maximum(normal("bestseller"), 0.0)
    discounted = rng.random(count) >= config.discount.none
    discount = np.where(discounted, rng.uniform(config.discount.low, config.discount.high, count), 0.0)
    return SearchCatalogue(
        ids=frozen(np.arange(count)),
        category=frozen(category),
        price=frozen(price),
        cm2=frozen(cm2),
        discount=frozen(discount),
        label=frozen(label),
        bestseller=frozen(bestseller),
        strategic=frozen(per_row(config.categories, "strategic", category) > 0.0),
        appeal=frozen(np.zeros(count)),
        embeddings=np.zeros((config.embedding_dim, 0)),
    )


def _draw_centres(config: SearchConfig, rng: np.random.Generator) -> FloatArray:
    return rng.normal(size=(config.embedding_dim, len(config.categories)))


def _draw_around(config: SearchConfig, centres: FloatArray, category: IntArray, rng: np.random.Generator) -> FloatArray:
    embeddings = rng.normal(size=(config.embedding_dim, len(category)))
    embeddings *= per_row(config.categories, "embedding_sd", category)
    embeddings += centres[:, category]
    return frozen(embeddings)


def per_row(records: Mapping[str, Any], setting: str, numbers: IntArray) -> FloatArray:
    """Return a setting of categories or segments for each row `(n,)`.

    Args:
        records: Settings of the categories or segments, in their order.
        setting: Name of the setting.
        numbers: Number of the category or segment that each row belongs to, `(n,)`.
    """
    return np.array([getattr(record, setting) for record in records.values()], float)[numbers]
