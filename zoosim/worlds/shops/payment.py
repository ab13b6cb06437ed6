"""The consequences of a click: purchases, what is spent, and what is sent back."""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.rng import normal, stream, uniform
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.shops.draw import ShopCatalogue, ShopParameters

SPREAD = 0.7
"""Standard deviation of the logarithm of what people spend, around the price."""

DIFFERENCE = 0.4
"""Standard deviation of the logarithm of the share of clicks that is bought, over products."""

CLICK_OF_MIXTURE = 0.02
"""Worth of a click where clicks and margin are mixed, in units of the typical price."""


class Payment(NamedTuple):
    """The payment for a click: each product is bought with a chance `buys (P,)`, and sent back with `returns (P,)`.

    A visit earns `click` for a click, `purchase` for a purchase, and of what is spent, around `prices (P,)`, the
    `shares (P,)`; a returned purchase earns `-cost` in place of these.
    """

    buys: FloatArray
    returns: FloatArray
    prices: FloatArray
    shares: FloatArray
    click: float
    purchase: float
    cost: float


def draw_payment(kind: ShopParameters, catalogue: ShopCatalogue, seed: int) -> Payment:
    """Draw what products earn, as the kind of shop pays.

    Args:
        kind: The kind of shop.
        catalogue: Its products.
        seed: Seed of the draws.
    """
    rng = stream(seed, "payment")
    count = len(catalogue.prices)
    # Of mean 1, since exp(N(0, s^2)) has the mean exp(s^2 / 2): products differ around the kind's own rate.
    differences = np.exp(rng.normal(0.0, DIFFERENCE, count) - DIFFERENCE**2 / 2.0)
    buys = (kind.purchase_rate / kind.click_rate * differences).clip(max=0.9)
    margins = rng.uniform(0.05, 0.4, count)
    returns = rng.uniform(0.0, 0.25, count)
    nothing = np.zeros(count)
    everything = Payment(buys, nothing, catalogue.prices, nothing, click=0.0, purchase=0.0, cost=0.0)
    match kind.pays:
        case "click":
            return everything._replace(click=1.0)
        case "purchase":
            return everything._replace(purchase=1.0)
        case "revenue":
            return everything._replace(shares=np.ones(count))
    # The rest pays margin: what is sent back costs a fifth of the typical price, which is 1.
    click = CLICK_OF_MIXTURE if kind.pays == "mixture" else 0.0
    return everything._replace(click=click, shares=margins, returns=returns, cost=0.2)


@jit
def expected_earnings(chances: FloatArray, products: IntArray, payment: Payment) -> FloatArray:
    """Return what candidates earn at n visits in expectation, `(n, K)`.

    Args:
        chances: Chance of a click, `(n, K)`.
        products: Rows of the candidates, `(K,)`.
        payment: What comes of a click.
    """
    earned = np.empty(products.shape[0])
    # The mean of exp(SPREAD z) of a standard normal z.
    spent = np.exp(SPREAD**2 / 2.0)
    for k in range(products.shape[0]):
        p = products[k]
        kept = payment.purchase + payment.shares[p] * payment.prices[p] * spent
        of_purchase = (1.0 - payment.returns[p]) * kept - payment.returns[p] * payment.cost
        earned[k] = payment.click + payment.buys[p] * of_purchase
    return chances * earned


@jit
def draw_earnings(
    start: int, chances: FloatArray, products: IntArray, payment: Payment, click_key: np.uint64, size_key: np.uint64
) -> FloatArray:
    """Draw what candidates earn at n visits, by common random numbers, `(n, K)`.

    Args:
        start: Number of the first visit.
        chances: Chance of a click, above 0, `(n, K)`.
        products: Rows of the candidates, `(K,)`.
        payment: What comes of a click.
        click_key, size_key: Keys of the draws of clicks, and of what is spent, by (visit, product).
    """
    earned = np.zeros(chances.shape)
    for i in range(chances.shape[0]):
        for k in range(chances.shape[1]):
            p = products[k]
            draw = uniform(click_key, start + i, p) / chances[i, k]  # below 1 where there is a click, and uniform then
            if draw < 1.0:
                earned[i, k] = payment.click
                if draw < payment.buys[p]:
                    earned[i, k] += _purchase(payment, p, draw / payment.buys[p], size_key, start + i)
    return earned


@jit
def _purchase(payment: Payment, p: int, draw: float, key: np.uint64, step: int) -> float:
    """Draw what a purchase earns; `draw` in [0, 1) settles whether it is returned."""
    if draw < payment.returns[p]:
        return -payment.cost
    return float(payment.purchase + payment.shares[p] * payment.prices[p] * np.exp(SPREAD * normal(key, step, p)))
