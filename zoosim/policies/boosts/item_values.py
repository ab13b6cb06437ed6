"""Expected earnings of products that are looked at, by logistic models of clicks and purchases."""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import dot
from zoosim.linear.logistic import chance
from zoosim.policies.boosts.item_features import Crossed


class Goods(NamedTuple):
    """K products as model inputs: `products (K, x)`, `category (K,)`, `worth (K,)` of a purchase in EUR."""

    products: FloatArray
    category: IntArray
    worth: FloatArray


@jit
def contracted(weights: FloatArray, visitor: FloatArray, products: int, crossed: Crossed, out: FloatArray) -> None:
    """Contract weights of rows with one visitor's features.

    Args:
        weights: Weights of rows, as `join` writes them.
        visitor: u, features of the visitor.
        products: Length of x.
        crossed: How many segments and categories are crossed.
        out: Overwritten with weights of x, then of r.
    """
    out[:products] = 0.0
    # w'(u (x) x) = (W'u)'x: after this a product costs as many products as x is long.
    for i in range(visitor.shape[0]):
        for j in range(products):
            out[j] += visitor[i] * weights[i * products + j]
    start = visitor.shape[0] * products
    for j in range(out.shape[0] - products):
        out[products + j] = weights[start + j]
    start += out.shape[0] - products
    first = out.shape[0] - crossed.categories
    for i in range(crossed.segments):
        for j in range(crossed.categories):
            out[first + j] += visitor[1 + i] * weights[start + i * crossed.categories + j]


@jit
def log_odds(weights: FloatArray, goods: Goods, base: FloatArray, features: FloatArray, p: int) -> float:
    """Return the log odds of a product.

    Args:
        weights: Weights of x and r, as `contracted` writes them.
        goods: The K products.
        base: Base scores, `(K,)`.
        features: Boost features, `(K, d)`.
        p: Number of the product.
    """
    x = goods.products.shape[1]
    d = features.shape[1]
    total = dot(weights[:x], goods.products[p]) + weights[x] * base[p]
    return float(total + dot(weights[x + 1 : x + 1 + d], features[p]) + weights[x + 1 + d + goods.category[p]])


@jit
def value_items(
    click: FloatArray,
    purchase: FloatArray,
    visitor: FloatArray,
    goods: Goods,
    base: FloatArray,
    features: FloatArray,
    per_click: float,
    crossed: Crossed,
    out: FloatArray,
) -> None:
    """Write what each of K products earns in EUR if it is looked at.

    Args:
        click: Weights of rows for clicks.
        purchase: Weights for purchases: of the log odds of a click, then of rows.
        visitor: u, features of the visitor.
        goods: The products.
        base: Base scores, `(K,)`.
        features: Boost features, `(K, d)`.
        per_click: What a click counts, in EUR.
        crossed: How many segments and categories are crossed.
        out: Overwritten, `(K,)`.
    """
    x = goods.products.shape[1]
    click_weights = np.empty(click.shape[0] - (visitor.shape[0] - 1) * x - crossed.segments * crossed.categories)
    purchase_weights = np.empty(click_weights.shape[0])
    contracted(click, visitor, x, crossed, click_weights)
    contracted(purchase[1:], visitor, x, crossed, purchase_weights)
    for p in range(out.shape[0]):
        a = log_odds(click_weights, goods, base, features, p)
        b = purchase[0] * a + log_odds(purchase_weights, goods, base, features, p)
        out[p] = chance(a) * (per_click + chance(b) * goods.worth[p])
