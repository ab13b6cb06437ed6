"""The behaviour of a visitor in a ranking: examines a position or leaves, clicks, buys, grows more or less satisfied.

Compiled functions of a single visit. All chance is counter-based, so the same visitor meets the same luck under every
ranking.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.rng import mix, normal, uniform
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import BoolArray, FloatArray, IntArray


class BehaviourParameters(NamedTuple):
    """The numbers of `Behaviour`, for compiled code; `bias (T, P)` of examination by query type and position.

    `segment_utility (S, C)`, by category, `segment_discount (S,)`, by a product's discount, and `type_intercept (T,)`
    are added to utilities, `segment_examination (S,)` to the log odds of examination, `segment_purchase (S, 2)`, an
    intercept and a slope by log(1 + price), to those of purchases.
    """

    intercept: float
    cosine: float
    score: float
    price: float
    private_label: float
    category: float
    discount: float
    bestseller: float
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
    segment_utility: FloatArray
    segment_discount: FloatArray
    segment_examination: FloatArray
    segment_purchase: FloatArray
    type_intercept: FloatArray


def behaviour_parameters(config: SearchConfig) -> BehaviourParameters:
    """Return the behaviour parameters of a config; each query type's last bias is repeated up to the longest list."""
    biases = [kind.bias for kind in config.query_types.values()]
    longest = max(map(len, biases))
    segments = config.segments.values()
    of_categories = [[part.category_utility.get(name, 0.0) for name in config.categories] for part in segments]
    return BehaviourParameters(
        **config.behaviour.model_dump(),
        bias=np.array([row + row[-1:] * (longest - len(row)) for row in biases]),
        segment_utility=np.array(of_categories) + np.array([[segment.intercept] for segment in segments]),
        segment_discount=np.array([segment.discount for segment in segments]),
        segment_examination=np.array([segment.examination for segment in segments]),
        segment_purchase=np.array([(segment.purchase_bias, segment.purchase_price) for segment in segments]),
        type_intercept=np.array([kind.intercept for kind in config.query_types.values()]),
    )


class Keys(NamedTuple):
    """Keys of counter-based draws: of examination by (visit, position), of the others by (visit, product)."""

    utility: np.uint64
    examination: np.uint64
    clicks: np.uint64
    purchases: np.uint64


@jit
def keys_of_replicate(keys: Keys, replicate: int) -> Keys:
    """Return the keys by which a visit is drawn again.

    Args:
        keys: The keys of the visit as it happens.
        replicate: Number of the replicate; 0 is the visit as it happens.
    """
    # Keys are joined by exclusive or, which 0 leaves as they are: replicate 0 is the visit itself.
    other = mix(np.uint64(replicate)) if replicate > 0 else np.uint64(0)
    return Keys(
        np.uint64(keys.utility ^ other),
        np.uint64(keys.examination ^ other),
        np.uint64(keys.clicks ^ other),
        np.uint64(keys.purchases ^ other),
    )


class Slate(NamedTuple):
    """The shown products as their visitor sees them, each `(k,)`: `products`, cosine with the query, log(1 + price).

    `score` is the base ranker's, `label` 1 for a private label, `taste` the visitor's for the product's category,
    `discount` and `bestseller` the product's; `appeal` what product, segment and query type add to utility besides.
    `purchase (k,)` is what the segment adds to the log odds of buying a product once clicked, `examination` what it
    adds to those of examining any position.
    """

    products: IntArray
    cosine: FloatArray
    score: FloatArray
    log_price: FloatArray
    label: FloatArray
    taste: FloatArray
    discount: FloatArray
    bestseller: FloatArray
    appeal: FloatArray
    purchase: FloatArray
    examination: float


class RankingOutcome(NamedTuple):
    """The outcome at each position of a ranking, `(k,)`: `clicks`, `purchases`, and what only a simulator knows.

    `examined`, `utilities`, `satisfaction` after each position, and the chances of `examine`, `click` and `purchase`,
    NaN where the visitor did not get that far.
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
def empty_outcome(k: int) -> RankingOutcome:
    """Return an outcome of `k` positions where nothing has happened."""
    flags = np.zeros((3, k), np.bool_)
    figures = np.zeros((2, k))
    chances = np.full((3, k), np.nan)
    return RankingOutcome(flags[0], flags[1], flags[2], figures[0], figures[1], chances[0], chances[1], chances[2])


@jit
def sigmoid(x: float) -> float:
    """Return 1 / (1 + exp(-x))."""
    chance: float = 1.0 / (1.0 + np.exp(-x))
    return chance


@jit
def mean_utility(behaviour: BehaviourParameters, slate: Slate, n: int, price_taste: float, label_taste: float) -> float:
    """Return the utility of a product, before noise.

    Args:
        behaviour: Coefficients of the utility.
        slate: The products shown.
        n: Position of the product, from 0.
        price_taste, label_taste: The visitor's tastes for price and for private label.
    """
    price = behaviour.price * price_taste * slate.log_price[n]
    label = behaviour.private_label * label_taste * slate.label[n]
    relevance = behaviour.intercept + behaviour.score * slate.score[n]
    utility = behaviour.cosine * slate.cosine[n] + (price + label) + behaviour.category * slate.taste[n]
    offer = behaviour.discount * slate.discount[n] + behaviour.bestseller * slate.bestseller[n]
    total: float = utility + relevance + offer + slate.appeal[n]
    return total


@jit
def draw_utility(
    behaviour: BehaviourParameters, slate: Slate, n: int, tastes: tuple[float, float], keys: Keys, visit: int
) -> float:
    """Return the utility of a product, with the noise of a visit.

    Args:
        behaviour: Coefficients of the utility.
        slate: The products shown.
        n: Position of the product, from 0.
        tastes: The visitor's tastes for price and for private label.
        keys: Keys of the draws.
        visit: Number of the visit.
    """
    # By the product, not its position: a visitor sees the same in it wherever it is shown.
    noise = behaviour.utility_sd * normal(keys.utility, visit, slate.products[n])
    return mean_utility(behaviour, slate, n, tastes[0], tastes[1]) + noise


@jit
def examine_chance(behaviour: BehaviourParameters, slate: Slate, query_type: int, n: int, satisfaction: float) -> float:
    """Return the chance that a position is examined.

    Args:
        behaviour: Biases by query type and position; the last position's stands for all further ones.
        slate: The products shown.
        query_type: Number of the query type.
        n: The position, from 0.
        satisfaction: The visitor's satisfaction before it.
    """
    bias = behaviour.bias[query_type, min(n, behaviour.bias.shape[1] - 1)] + slate.examination
    return sigmoid(bias + behaviour.examine_satisfaction * satisfaction)


@jit
def purchase_chance(behaviour: BehaviourParameters, slate: Slate, n: int, utility: float) -> float:
    """Return the chance that a product is bought once it is clicked.

    Args:
        behaviour: Coefficients of the log odds.
        slate: The products shown.
        n: Position of the product, from 0.
        utility: Its utility, with noise.
    """
    by_price = behaviour.purchase_price * slate.log_price[n]
    return sigmoid(behaviour.purchase_slope * utility + behaviour.purchase_bias + by_price + slate.purchase[n])


@jit
def react(
    behaviour: BehaviourParameters, keys: Keys, visit: int, product: int, utility: float, chance: float
) -> tuple[bool, bool, float]:
    """Draw what a visitor does with an examined product.

    Args:
        behaviour: What clicks and purchases do to satisfaction.
        keys: Keys of the draws.
        visit: Number of the visit.
        product: Index of the product.
        utility: Its utility, with noise.
        chance: Chance that it is bought once it is clicked.

    Returns:
        Whether it is clicked, whether it is bought, and the change in satisfaction.
    """
    if uniform(keys.clicks, visit, product) >= sigmoid(utility):
        return False, False, behaviour.skip_satisfaction
    change = behaviour.click_satisfaction * utility
    if uniform(keys.purchases, visit, product) >= chance:
        return True, False, change
    return True, True, change + behaviour.purchase_satisfaction


@jit
def behave(
    behaviour: BehaviourParameters,
    slate: Slate,
    query_type: int,
    tastes: tuple[float, float],
    keys: Keys,
    visit: int,
    out: RankingOutcome,
) -> None:
    """Simulate a visitor who goes through a ranking.

    Args:
        behaviour: How people behave.
        slate: The k products shown.
        query_type: Number of the query type.
        tastes: The visitor's tastes for price and for private label.
        keys: Keys of the draws.
        visit: Number of the visit.
        out: An empty outcome of k positions, which is filled.
    """
    satisfaction = 0.0
    bought = 0
    present = True
    for n, product in enumerate(slate.products):
        # Utilities are drawn for positions that nobody reaches too: the outcome holds all of them.
        utility = draw_utility(behaviour, slate, n, tastes, keys, visit)
        out.utilities[n] = utility
        if present:
            out.examine[n] = examine_chance(behaviour, slate, query_type, n, satisfaction)
            # Numbered by position, where clicks are numbered by product:
            # under another ranking each meets the same luck.
            present = uniform(keys.examination, visit, n) < out.examine[n]
            out.examined[n] = present
        if present:
            chance = purchase_chance(behaviour, slate, n, utility)
            out.click[n] = sigmoid(utility)
            out.clicks[n], out.purchases[n], change = react(behaviour, keys, visit, product, utility, chance)
            if out.clicks[n]:
                out.purchase[n] = chance
            satisfaction = satisfaction + change
            bought = bought + out.purchases[n]
            present = bought < behaviour.max_purchases and satisfaction >= behaviour.leave_below
        out.satisfaction[n] = satisfaction


@jit
def replicate_value(
    behaviour: BehaviourParameters,
    slate: Slate,
    query_type: int,
    tastes: tuple[float, float],
    keys: Keys,
    visit: int,
    values: FloatArray,
) -> float:
    """Return what a ranking earns in one replicate of a visit, clicks and purchases counted by their chances.

    How far the visitor gets is drawn; at each position reached, the chances of a click and a purchase take the place of
    draws. So the mean over replicates is the expected reward, and varies less than rewards do (Rao 1945, Blackwell
    1947).

    Args:
        behaviour: How people behave.
        slate: The k products shown.
        query_type: Number of the query type.
        tastes: The visitor's tastes for price and for private label.
        keys: Keys of the replicate's draws.
        visit: Number of the visit.
        values: Worth in EUR of a purchase at each position, and last that of a click, `(k + 1,)`.
    """
    satisfaction = 0.0
    bought = 0
    total = 0.0
    for n in range(slate.products.shape[0]):
        utility = draw_utility(behaviour, slate, n, tastes, keys, visit)
        examine = examine_chance(behaviour, slate, query_type, n, satisfaction)
        chance = purchase_chance(behaviour, slate, n, utility)
        # Before it is drawn whether the position is examined: its chance takes the place of that draw.
        total += examine * sigmoid(utility) * (values[-1] + chance * values[n])
        if uniform(keys.examination, visit, n) >= examine:
            break
        # Drawn all the same, as what was clicked and bought decides who looks further down.
        _, purchased, change = react(behaviour, keys, visit, slate.products[n], utility, chance)
        satisfaction = satisfaction + change
        bought = bought + purchased
        if bought >= behaviour.max_purchases or satisfaction < behaviour.leave_below:
            break
    return total
