"""Q27: how much of what visitors would like best do retrievers hold that were trained on a log?

A shop of 100,000 products of `zoosim.worlds.catalogue`, half of whose tastes and appeal no feature shows, showed
2,500,000 of them at random by popularity, and 5,000 never. Of each visitor's truly best 100 products, printed is the
share that is among the 500 that a way to retrieve holds, of all and of those that were never shown; how often the 500
are clicked on average, and how many of them were never shown. Beside the retriever stand its towers alone, the rule of
categories and segments, and popularity, which learn from the same rows.
"""

import sys
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy import special

from zoosim.core.rng import stream_key
from zoosim.core.statistics import mean_interval
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.off_policy.retrievers.rules import category_rule, popularity
from zoosim.retrieval.towers.fitting import Settings, fit_vectors
from zoosim.retrieval.towers.rows import ShownRows
from zoosim.worlds.catalogue.products import draw_tastes
from zoosim.worlds.catalogue.world import Catalogue

SEEDS = range(1000, 1005)
PRODUCTS, NEVER, USERS, ROWS = 100_000, 5_000, 20_000, 2_500_000
SHOP = {"n_categories": 200, "hidden": 0.5, "taste": 1.8}
POPULARITY = 1.2
"""Standard deviation of the logarithm of how often a product is shown."""

HELD, BEST, JUDGED = 500, 100, 200
"""Products that are retrieved, those that are truly best, and visitors by whom retrieval is judged."""


class Shop(NamedTuple):
    """A shop and what it showed.

    Attributes:
        rows: What was shown to whom; visits are users.
        categories: Of each product `(K,)`.
        effects: What clicks follow, of each product `(K, d)`.
        truth: Queries of users, whose inner products with effects are log odds but for `base` `(U, d)`.
        base: The log odds of a click on the mean product.
        never: Which products were never shown `(K,)`.
    """

    rows: ShownRows
    categories: IntArray
    effects: FloatArray
    truth: FloatArray
    base: float
    never: BoolArray


class Held(NamedTuple):
    """What 500 products hold, each the mean over visitors: see the module."""

    best: float
    never_best: float
    clicks: float
    never_share: float


def main() -> None:
    """Print a line per way to retrieve, and how much more the retriever holds than the rule of categories."""
    print(report(SEEDS, PRODUCTS, NEVER, USERS, ROWS))


def report(seeds: Iterable[int], products: int, never: int, users: int, n_rows: int) -> str:
    """Return what ways to retrieve hold in the shops of some seeds."""
    of_way: dict[str, list[Held]] = {}
    for seed in seeds:
        for way, held in measure(draw_shop(seed, products, never, users, n_rows), seed).items():
            of_way.setdefault(way, []).append(held)
            print(f"Q27 seed {seed}, {way}: {_words([held])}", file=sys.stderr, flush=True)
    lines = [f"Q27 {way}: {_words(held)}" for way, held in of_way.items()]
    ratios = [a.best / b.best for a, b in zip(of_way["retriever"], of_way["category rule"], strict=True)]
    ratio = mean_interval(ratios)
    interval = "" if ratio.low is None else f" ({ratio.low:.2f} to {ratio.high:.2f}; least {min(ratios):.2f})"
    return "\n".join([*lines, f"Q27 retriever / category rule: {ratio.mean:.2f}{interval}"])


def _words(held: list[Held]) -> str:
    best, never_best, clicks, never_share = (mean_interval(values).mean for values in zip(*held, strict=True))
    return (
        f"{best:.3f} of the best {BEST}, {never_best:.3f} of those never shown; clicks {clicks:.3f}; "
        f"{never_share:.1%} never shown"
    )


def draw_shop(seed: int, products: int, never: int, users: int, n_rows: int) -> Shop:
    """Draw a shop, and let it show products at random by popularity, all but `never`."""
    world = Catalogue(seed, 1, n_products=products, n_users=users, **SHOP)
    key = stream_key(seed, "catalogue", "tastes")
    tastes = np.stack([draw_tastes(key, user, world.config.n_tastes) for user in range(users)])
    weight = world.config.taste / np.sqrt(world.config.n_tastes)
    truth = np.column_stack([weight * tastes, np.full(users, world.config.appeal)])
    effects = world.products.effects.astype(float)
    rng = np.random.default_rng([seed, 27])
    is_never = np.zeros(products, bool)
    is_never[rng.choice(products, never, replace=False)] = True
    weights = np.where(is_never, 0.0, np.exp(POPULARITY * rng.normal(size=products)))
    shown = rng.choice(products, n_rows, p=weights / weights.sum())
    visit = rng.integers(0, users, n_rows)
    log_odds = world.config.base + np.einsum("ij,ij->i", truth[visit], effects[shown])
    clicked = (rng.random(n_rows) < special.expit(log_odds)).astype(float)
    features = world.products.features.astype(float)
    rows = ShownRows(tastes, features, visit, shown, np.zeros(n_rows, np.int64), clicked)
    categories = world.products.categories.astype(np.int64)
    return Shop(rows, categories, effects, truth, world.config.base, is_never)


def measure(shop: Shop, seed: int) -> dict[str, Held]:
    """Return what each way to retrieve holds."""
    rows = shop.rows
    fitted = fit_vectors(rows, Settings(), seed=seed, progress=lambda line: None)
    users = np.arange(min(JUDGED, len(rows.visitors)))
    visitors = fitted.towers.visitors.vectors(rows.visitors[users])
    queries = np.column_stack([visitors, np.ones(len(visitors))])
    towers = fitted.towers.products.vectors(rows.products)
    ways = {"retriever": queries @ fitted.vectors.T.astype(float), "towers alone": queries @ towers.T.astype(float)}
    for rule in (category_rule(rows, shop.categories), popularity(rows)):
        segments = rule.segments.assign(rows.visitors[users])
        ways[rule.name] = np.stack([rule.scores(segment) for segment in segments])
    log_odds = shop.base + shop.truth[users] @ shop.effects.T
    best = _largest(log_odds, BEST)
    return {way: _held(_largest(scores, HELD), best, log_odds, shop.never) for way, scores in ways.items()}


def _largest(scores: FloatArray, k: int) -> IntArray:
    """Return the k products of each visitor with the largest scores, the first of equal ones."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def _held(held: IntArray, best: IntArray, log_odds: FloatArray, never: BoolArray) -> Held:
    hits = np.stack([np.isin(truly, those) for truly, those in zip(best, held, strict=True)])
    of_never = never[best]
    clicks = special.expit(np.take_along_axis(log_odds, held, axis=1))
    share = hits[of_never].mean() if of_never.any() else 0.0
    return Held(float(hits.mean()), float(share), float(clicks.mean()), float(never[held].mean()))
