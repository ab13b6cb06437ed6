"""The laws of the search world in plain Python: a slow, literal reference, written from the document alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

# Base relevance.
COSINE_WEIGHT: Final = 0.7
TOKEN_WEIGHT: Final = 0.3
RELEVANCE_NOISE_SD: Final = 0.05

# Utility.
PRICE_TASTE_WEIGHT: Final = 0.8
LABEL_TASTE_WEIGHT: Final = 1.2
CATEGORY_TASTE_WEIGHT: Final = 0.6
UTILITY_NOISE_SD: Final = 0.8

# Visit. The last bias of a query type holds for every later position.
POSITION_BIAS: Final[Mapping[str, tuple[float, ...]]] = {
    "category": (1.2, 0.9, 0.7, 0.5, 0.3, 0.2),
    "brand": (1.5, 0.8, 0.5, 0.3, 0.2, 0.1),
    "generic": (1.0, 0.8, 0.6, 0.4, 0.2, 0.1),
}
START_SATISFACTION: Final = 0.0
EXAMINE_SATISFACTION_WEIGHT: Final = 0.2
CLICK_GAIN: Final = 0.5  # times the utility
NO_CLICK_LOSS: Final = 0.2
PURCHASE_LOSS: Final = 1.2
PURCHASE_UTILITY_WEIGHT: Final = 1.2
PURCHASE_CONSTANT: Final = 0.3
PURCHASE_PRICE_WEIGHT: Final = 0.01
MAX_PURCHASES: Final = 3
LOWEST_SATISFACTION: Final = -2.0

# Reward.
GMV_WEIGHT: Final = 1.0
CM2_WEIGHT: Final = 0.4
STRATEGIC_WEIGHT: Final = 2.0
CLICK_WEIGHT: Final = 0.1

# Templates.
AMPLITUDE: Final = 5.0
HIGH_CM2: Final = 0.4
PREMIUM_PERCENTILE: Final = 75.0
BUDGET_PERCENTILE: Final = 25.0
FULL_DISCOUNT: Final = 0.3

# Boost and context features.
LITTER: Final = "litter"
TOP_K: Final = 20
TASTE_SHRINKAGE: Final = 0.7
TASTE_STEP: Final = 0.5
TASTE_LIMIT: Final = 3.0


@dataclass(frozen=True)
class Product:
    """One product of the catalogue."""

    category: str
    price: float
    cm2: float
    discount: float
    private_label: bool
    bestseller: float
    strategic: bool
    embedding: tuple[float, ...]
    words: frozenset[str]


@dataclass(frozen=True)
class User:
    """One user with the true tastes."""

    price_taste: float
    label_taste: float
    category_tastes: dict[str, float]
    embedding: tuple[float, ...]


@dataclass(frozen=True)
class Query:
    """One query of a user."""

    kind: str
    specificity: float
    tokens: frozenset[str]
    embedding: tuple[float, ...]


@dataclass(frozen=True)
class Step:
    """One position the visit came to; probabilities that never came up are None, satisfaction is after the step."""

    position: int
    product: int
    examine_probability: float
    examined: bool
    click_probability: float | None
    clicked: bool
    purchase_probability: float | None
    purchased: bool
    satisfaction: float


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the dot product."""
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the cosine of the angle between two vectors, 0 if either is the zero vector."""
    norms = math.sqrt(_dot(a, a)) * math.sqrt(_dot(b, b))
    return _dot(a, b) / norms if norms > 0.0 else 0.0


def _sigmoid(x: float) -> float:
    """Return 1 / (1 + exp(-x)) without overflow."""
    if x >= 0.0:
        return 1.0 / (1.0 + math.exp(-x))
    return math.exp(x) / (1.0 + math.exp(x))


def _mean(values: Sequence[float]) -> float:
    """Return the mean."""
    return math.fsum(values) / len(values)


def _sd(values: Sequence[float]) -> float:
    """Return the population standard deviation, exactly 0 if all values are equal."""
    if min(values) == max(values):
        return 0.0
    mean = _mean(values)
    return math.sqrt(_mean([(value - mean) ** 2 for value in values]))


def _percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile by linear interpolation between the two closest ranks."""
    ordered = sorted(values)
    rank = percent / 100.0 * (len(ordered) - 1)
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (rank - low) * (ordered[high] - ordered[low])


def base_scores(products: Sequence[Product], query: Query, noise: Sequence[float]) -> list[float]:
    """Return the base relevance of every product, given a standard normal draw for each."""
    scores = []
    for i, product in enumerate(products):
        cosine = _cosine(query.embedding, product.embedding)
        shared = len(query.tokens & product.words)
        scores.append(COSINE_WEIGHT * cosine + TOKEN_WEIGHT * math.log(1.0 + shared) + RELEVANCE_NOISE_SD * noise[i])
    return scores


def boost_features(products: Sequence[Product], user: User, query: Query) -> list[list[float]]:
    """Return phi, one row of 10 for each product, standardised over the catalogue."""
    raw = []
    for product in products:
        label = 1.0 if product.private_label else 0.0
        raw.append(
            [
                product.cm2,
                product.discount,
                label,
                _dot(user.embedding, product.embedding),
                product.bestseller,
                product.price,
                product.cm2 if product.category == LITTER else 0.0,
                product.discount * user.price_taste,
                label * user.label_taste,
                query.specificity * product.bestseller,
            ]
        )
    phi: list[list[float]] = [[] for _ in products]
    for feature in range(10):
        column = [row[feature] for row in raw]
        mean, sd = _mean(column), _sd(column)
        for i, value in enumerate(column):
            phi[i].append((value - mean) / sd if sd > 0.0 else 0.0)
    return phi


def boosted(base: Sequence[float], phi: Sequence[Sequence[float]], weights: Sequence[float]) -> list[float]:
    """Return base + phi . weights for every product."""
    return [score + _dot(row, weights) for score, row in zip(base, phi, strict=True)]


def template_values(name: str, products: Sequence[Product]) -> list[float]:
    """Return what a template adds to every product, before the amplitude."""
    prices = [product.price for product in products]
    if name == "neutral":
        return [0.0 for _ in products]
    if name == "cm2":
        return [1.0 if product.cm2 > HIGH_CM2 else 0.0 for product in products]
    if name == "private-label":
        return [1.0 if product.private_label else 0.0 for product in products]
    if name == "popularity":
        largest = math.log(1.0 + max(product.bestseller for product in products))
        return [math.log(1.0 + product.bestseller) / largest if largest > 0.0 else 0.0 for product in products]
    if name == "premium":
        line = _percentile(prices, PREMIUM_PERCENTILE)
        return [1.0 if price > line else 0.0 for price in prices]
    if name == "budget":
        line = _percentile(prices, BUDGET_PERCENTILE)
        return [1.0 if price < line else 0.0 for price in prices]
    if name == "discount":
        return [min(product.discount / FULL_DISCOUNT, 1.0) for product in products]
    if name == "strategic":
        return [1.0 if product.strategic else 0.0 for product in products]
    raise ValueError(f"no template is called {name!r}")


def top(scores: Sequence[float], k: int) -> list[int]:
    """Return the indices of the k best scores, best first, ties to the lowest index."""
    return sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:k]


def utilities(
    products: Sequence[Product], shown: Sequence[int], user: User, query: Query, noise: Sequence[float]
) -> list[float]:
    """Return the utility of each shown item, in the order shown; noise is by product index."""
    values = []
    for i in shown:
        product = products[i]
        u = _cosine(query.embedding, product.embedding)
        u += PRICE_TASTE_WEIGHT * user.price_taste * math.log(1.0 + product.price)
        u += LABEL_TASTE_WEIGHT * user.label_taste * (1.0 if product.private_label else 0.0)
        u += CATEGORY_TASTE_WEIGHT * user.category_tastes[product.category]
        u += UTILITY_NOISE_SD * noise[i]
        values.append(u)
    return values


def visit(
    products: Sequence[Product],
    shown: Sequence[int],
    user: User,
    query: Query,
    utility_noise: Sequence[float],
    examine_draws: Sequence[float],
    click_draws: Sequence[float],
    purchase_draws: Sequence[float],
) -> list[Step]:
    """Return the steps of one visit, the one that was not examined (if any) included as the last."""
    biases = POSITION_BIAS[query.kind]
    satisfaction = START_SATISFACTION
    purchases = 0
    steps = []
    for position, (i, u) in enumerate(zip(shown, utilities(products, shown, user, query, utility_noise), strict=True)):
        bias = biases[min(position, len(biases) - 1)]
        examine = _sigmoid(bias + EXAMINE_SATISFACTION_WEIGHT * satisfaction)
        if not examine_draws[position] < examine:
            steps.append(Step(position, i, examine, False, None, False, None, False, satisfaction))
            break
        click = _sigmoid(u)
        clicked = click_draws[i] < click
        purchase: float | None = None
        purchased = False
        if clicked:
            satisfaction += CLICK_GAIN * u
            log_price = math.log(1.0 + products[i].price)
            purchase = _sigmoid(PURCHASE_UTILITY_WEIGHT * u + PURCHASE_CONSTANT - PURCHASE_PRICE_WEIGHT * log_price)
            purchased = purchase_draws[i] < purchase
            if purchased:
                satisfaction -= PURCHASE_LOSS
                purchases += 1
        else:
            satisfaction -= NO_CLICK_LOSS
        steps.append(Step(position, i, examine, True, click, clicked, purchase, purchased, satisfaction))
        if purchases >= MAX_PURCHASES or satisfaction < LOWEST_SATISFACTION:
            break
    return steps


def reward(products: Sequence[Product], steps: Sequence[Step]) -> dict[str, float]:
    """Return the parts of the reward of a visit and their weighted total."""
    gmv = cm2 = strategic = clicks = 0.0
    for step in steps:
        if step.clicked:
            clicks += 1.0
        if step.purchased:
            product = products[step.product]
            gmv += product.price
            cm2 += product.cm2
            if product.strategic:
                strategic += 1.0
    total = GMV_WEIGHT * gmv + CM2_WEIGHT * cm2 + STRATEGIC_WEIGHT * strategic + CLICK_WEIGHT * clicks
    return {"gmv": gmv, "cm2": cm2, "strategic": strategic, "clicks": clicks, "total": total}


def estimated(taste: float) -> float:
    """Return the taste as a shop would know it: shrunk, rounded (ties to even) and cut."""
    rounded = TASTE_STEP * round(TASTE_SHRINKAGE * taste / TASTE_STEP)
    return max(-TASTE_LIMIT, min(TASTE_LIMIT, rounded))


def rich_features(
    products: Sequence[Product],
    base: Sequence[float],
    user: User,
    query: Query,
    segment: str,
    segments: Sequence[str],
    kinds: Sequence[str],
    tastes: tuple[float, float],
) -> list[float]:
    """Return the 17 rich context features; the tastes (price, label) are those given, not those of the user."""
    features = [1.0 if name == segment else 0.0 for name in segments]
    features += [1.0 if kind == query.kind else 0.0 for kind in kinds]
    features += list(tastes)
    best = top(base, TOP_K)
    prices = [products[i].price for i in best]
    features.append(_mean(prices))
    features.append(_sd(prices))
    features.append(_mean([products[i].cm2 for i in best]))
    features.append(_mean([products[i].discount for i in best]))
    features.append(_mean([products[i].bestseller for i in best]))
    features.append(_mean([base[i] for i in best]))
    features.append(_mean([1.0 if products[i].private_label else 0.0 for i in best]))
    features.append(_mean([1.0 if products[i].strategic else 0.0 for i in best]))
    return features
