"""What a visitor does with a ranking: looks on or leaves, clicks, buys, is pleased or tired."""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.rng import mix, normal, uniform
from zoosim.core.search_config import Behaviour
from zoosim.core.types import BoolArray, FloatArray, IntArray


class Laws(NamedTuple):
    """The figures of `Behaviour`, for compiled code; `bias (T, P)` of examination by query type and position."""

    price: float
    private_label: float
    category: float
    utility_sd: float
    examine_satisfaction: float
    purchase_slope: float
    purchase_bias: float
    purchase_price: float
    click_satisfaction: float
    skip_satisfaction: float
    purchase_satisfaction: float
    leave_below: float
    max_purchases: int
    bias: FloatArray


def laws_of(behaviour: Behaviour, biases: list[list[float]]) -> Laws:
    """Return the laws of a config; `biases` of each query type are drawn out to the longest."""
    longest = max(map(len, biases))
    bias = np.array([row + row[-1:] * (longest - len(row)) for row in biases])
    return Laws(**behaviour.model_dump(), bias=bias)


class Keys(NamedTuple):
    """Keys of counter-based draws: of examination by (visit, position), of the others by (visit, product)."""

    utility: np.uint64
    examination: np.uint64
    clicks: np.uint64
    purchases: np.uint64


@jit
def in_mood(keys: Keys, mood: int) -> Keys:
    """Return the keys by which a visit goes another way; mood 0 is the visit as it happens."""
    other = mix(np.uint64(mood)) if mood > 0 else np.uint64(0)
    return Keys(
        np.uint64(keys.utility ^ other),
        np.uint64(keys.examination ^ other),
        np.uint64(keys.clicks ^ other),
        np.uint64(keys.purchases ^ other),
    )


class Slate(NamedTuple):
    """The shown products as their visitor sees them, each `(k,)`: `products`, cosine with the query, log(1 + price).

    `label` is 1 for a private label, `taste` the visitor's for the product's category.
    """

    products: IntArray
    cosine: FloatArray
    log_price: FloatArray
    label: FloatArray
    taste: FloatArray


class Outcome(NamedTuple):
    """What a visit came to, each `(k,)` by position: `clicks`, `purchases`, and what only a simulator knows.

    `examined`, `utilities`, `satisfaction` after each position, and the chances of `examine`, `click` and `purchase`,
    NaN where it did not come to that.
    """

    clicks: BoolArray
    purchases: BoolArray
    examined: BoolArray
    utilities: FloatArray
    satisfaction: FloatArray
    examine: FloatArray
    click: FloatArray
    purchase: FloatArray


@jit
def empty_outcome(k: int) -> Outcome:
    """Return an outcome of `k` positions where nothing has happened."""
    flags, figures, chances = np.zeros((3, k), np.bool_), np.zeros((2, k)), np.full((3, k), np.nan)
    return Outcome(flags[0], flags[1], flags[2], figures[0], figures[1], chances[0], chances[1], chances[2])


@jit
def sigmoid(x: float) -> float:
    """Return 1 / (1 + exp(-x))."""
    chance: float = 1.0 / (1.0 + np.exp(-x))
    return chance


@jit
def utility(laws: Laws, slate: Slate, n: int, price_taste: float, label_taste: float) -> float:
    """Return the utility of the product at position `n`, before noise."""
    liking = laws.price * price_taste * slate.log_price[n] + laws.private_label * label_taste * slate.label[n]
    total: float = slate.cosine[n] + liking + laws.category * slate.taste[n]
    return total


@jit
def purchase_chance(laws: Laws, liking: float, log_price: float) -> float:
    """Return the chance that who clicked a product of a utility buys it."""
    return sigmoid(laws.purchase_slope * liking + laws.purchase_bias + laws.purchase_price * log_price)


@jit
def draw_utility(laws: Laws, slate: Slate, n: int, tastes: tuple[float, float], keys: Keys, visit: int) -> float:
    """Return the utility of the product at position `n` with the noise of a visit."""
    noise = laws.utility_sd * normal(keys.utility, visit, slate.products[n])
    return utility(laws, slate, n, tastes[0], tastes[1]) + noise


@jit
def look_chance(laws: Laws, kind: int, n: int, satisfaction: float) -> float:
    """Return the chance that position `n` is looked at."""
    bias = laws.bias[kind, min(n, laws.bias.shape[1] - 1)]
    return sigmoid(bias + laws.examine_satisfaction * satisfaction)


@jit
def react(laws: Laws, keys: Keys, visit: int, product: int, liking: float, buy: float) -> tuple[bool, bool, float]:
    """Settle what a visitor does with a product of utility `liking` that is bought, once clicked, with chance `buy`.

    Returns whether it is clicked, whether it is bought, and how satisfaction moves.
    """
    if uniform(keys.clicks, visit, product) >= sigmoid(liking):
        return False, False, laws.skip_satisfaction
    pleased = laws.click_satisfaction * liking
    if uniform(keys.purchases, visit, product) >= buy:
        return True, False, pleased
    return True, True, pleased + laws.purchase_satisfaction


@jit
def behave(
    laws: Laws, slate: Slate, kind: int, tastes: tuple[float, float], keys: Keys, visit: int, out: Outcome
) -> None:
    """Let a visitor go through a ranking: query type `kind`, `tastes` for price and private label; `out` is new."""
    satisfaction, bought, there = 0.0, 0, True
    for n, product in enumerate(slate.products):
        liking = out.utilities[n] = draw_utility(laws, slate, n, tastes, keys, visit)
        if there:
            out.examine[n] = look_chance(laws, kind, n, satisfaction)
            there = out.examined[n] = uniform(keys.examination, visit, n) < out.examine[n]
        if there:
            buy = purchase_chance(laws, liking, slate.log_price[n])
            out.click[n] = sigmoid(liking)
            out.clicks[n], out.purchases[n], move = react(laws, keys, visit, product, liking, buy)
            if out.clicks[n]:
                out.purchase[n] = buy
            satisfaction, bought = satisfaction + move, bought + out.purchases[n]
            there = bought < laws.max_purchases and satisfaction >= laws.leave_below
        out.satisfaction[n] = satisfaction


@jit
def expectation(
    laws: Laws, slate: Slate, kind: int, tastes: tuple[float, float], keys: Keys, visit: int, values: FloatArray
) -> float:
    """Return what a ranking comes to in one mood, products being worth `values (k + 1,)` EUR, the last one a click's.

    Utilities and satisfaction go as they are drawn; at each position that it comes to, clicks and purchases count by
    their chances, so that the mean over moods is the expectation, and varies less than what visits come to (Rao 1945,
    Blackwell 1947).
    """
    satisfaction, bought, total = 0.0, 0, 0.0
    for n in range(slate.products.shape[0]):
        liking, look = draw_utility(laws, slate, n, tastes, keys, visit), look_chance(laws, kind, n, satisfaction)
        buy = purchase_chance(laws, liking, slate.log_price[n])
        total += look * sigmoid(liking) * (values[-1] + buy * values[n])
        if uniform(keys.examination, visit, n) >= look:
            break
        _, purchased, move = react(laws, keys, visit, slate.products[n], liking, buy)
        satisfaction, bought = satisfaction + move, bought + purchased
        if bought >= laws.max_purchases or satisfaction < laws.leave_below:
            break
    return total
