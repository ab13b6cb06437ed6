"""Search shops with a known truth that no search world of this library can express, drawn by a seed.

They share no code with `zoosim.worlds`. Clicks follow a logit, probit or complementary log-log model; price counts by
its logarithm, by its root, above a budget, or with a best price; positions are looked at independently, down a cascade
that ends with a click, or a page at a time; segments differ in how much they click, how far they look, and which
categories they like; products in quality that no column tells; visitors among each other. Build and tune on seeds 0 to
99; report on seeds 1000 and up.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy import special

from zoosim.core.types import BoolArray, FloatArray, IntArray

SEARCHES = 6_000
PRODUCTS = 160
QUERIES = 40
SHOWN = 12
HIGHER = 0.10
"""By how much the price is higher whose effect is computed."""

SEGMENTS = ("families", "guests", "members")
CATEGORIES = ("balls", "boots", "packs", "ropes", "tents")
TYPES = ("broad", "exact", "gift")
LINKS = ("logit", "probit", "cloglog")
PRICES = ("logarithm", "root", "budget", "best price")
LOOKS = ("position", "until a click", "pages")


@dataclass(frozen=True)
class ForeignShop:
    """A shop's tables lie in a folder; here is what nobody sees of it.

    Attributes:
        form: Which link, effect of price and way of looking were drawn.
        price_responses: By segment, in the order of `SEGMENTS`: by which share clicks on a shown product change if its
            price is 10% higher, over the products that the log showed them.
        clicks: How many clicks each segment made.
        schema: What `zoosim.import_log` takes.
    """

    form: tuple[str, str, str]
    price_responses: FloatArray
    clicks: IntArray
    schema: dict[str, Any]


def write_foreign_shop(folder: Path, seed: int, searches: int = SEARCHES) -> ForeignShop:
    """Write `catalogue.csv`, `queries.csv`, `scores.csv` and `searches.csv`, and return the truth."""
    rng = np.random.default_rng([seed, 3])
    products = _draw_products(rng)
    queries = _draw_queries(rng, products)
    visits = _draw_visits(rng, searches, queries)
    shop = _Shop(rng, products)
    shown = _rank(rng, queries, visits.query)
    chance, dearer = shop.click_chances(visits, queries, shown)
    examined, clicked = shop.look(rng, visits, chance)
    bought = clicked & (rng.random(clicked.shape) < shop.purchase_chances(visits, queries, shown))
    of_segment = [visits.segment == number for number in range(len(SEGMENTS))]
    change = [(examined * (dearer - chance))[rows].sum() / (examined * chance)[rows].sum() for rows in of_segment]
    _write(folder, products, queries, visits, shown, clicked, bought)
    names = {"catalogue_file": "catalogue", "queries_file": "queries", "scores_file": "scores"}
    files = {key: str(folder / f"{name}.csv") for key, name in names.items()}
    columns = {name: name for name in ("search", "position", "product", "query", "segment", "user_id")}
    return ForeignShop(
        shop.form,
        np.array(change),
        np.array([int(clicked[rows].sum()) for rows in of_segment]),
        {
            "shop": {**files, "k": SHOWN, "a_max": 1.0},
            "columns": {**columns, "clicked": "clicked", "purchased": "purchased"},
        },
    )


@dataclass(frozen=True)
class _Products:
    category: IntArray
    log_price: FloatArray
    label: BoolArray
    quality: FloatArray


@dataclass(frozen=True)
class _Queries:
    """Of each query the type, the typing rate, and its candidates `(Q, M)` with scores and true relevance."""

    kind: IntArray
    weight: FloatArray
    candidates: IntArray
    score: FloatArray
    relevance: FloatArray


@dataclass(frozen=True)
class _Visits:
    user: IntArray
    segment: IntArray
    query: IntArray
    level: FloatArray
    taste: FloatArray


def _draw_products(rng: np.random.Generator) -> _Products:
    category = rng.permutation(np.arange(PRODUCTS) % len(CATEGORIES))
    level = rng.normal(3.0, 0.4, len(CATEGORIES))
    return _Products(
        category,
        level[category] + rng.normal(0.0, rng.uniform(0.4, 0.7), PRODUCTS),
        rng.random(PRODUCTS) < 0.3,
        rng.normal(0.0, rng.uniform(0.2, 0.6), PRODUCTS),
    )


def _draw_queries(rng: np.random.Generator, products: _Products) -> _Queries:
    candidates, scores, relevances = [], [], []
    for number in range(QUERIES):
        is_meant = products.category == number % len(CATEGORIES)
        others = rng.choice(np.flatnonzero(~is_meant), 8, replace=False)
        rows = np.concatenate([np.flatnonzero(is_meant), others])
        relevance = np.where(is_meant[rows], 0.8, -0.8) + rng.normal(0.0, 0.6, len(rows))
        candidates.append(rows)
        relevances.append(relevance)
        scores.append(np.round(0.7 * relevance + rng.normal(0.0, 0.4, len(rows)), 3))
    kind = rng.choice(len(TYPES), QUERIES, p=rng.dirichlet(np.full(len(TYPES), 5.0)))
    return _Queries(kind, rng.gamma(2.0, 1.0, QUERIES), np.array(candidates), np.array(scores), np.array(relevances))


def _draw_visits(rng: np.random.Generator, searches: int, queries: _Queries) -> _Visits:
    n_users = searches // 3
    segment = rng.choice(len(SEGMENTS), n_users, p=rng.dirichlet(np.full(len(SEGMENTS), 8.0)))
    user = rng.integers(n_users, size=searches)
    # Segments differ in what they type, so that what holds for a type of query looks like what holds for a segment.
    tilt = np.exp(rng.normal(0.0, 0.6, (len(SEGMENTS), QUERIES))) * queries.weight
    shares = np.cumsum(tilt / tilt.sum(axis=1, keepdims=True), axis=1)
    query = (rng.random(searches)[:, None] > shares[segment[user]]).sum(axis=1).clip(max=QUERIES - 1)
    level = rng.normal(0.0, rng.uniform(0.2, 0.6), n_users)
    taste = rng.normal(0.0, 0.15, n_users)
    return _Visits(user, segment[user], query, level[user], taste[user])


def _rank(rng: np.random.Generator, queries: _Queries, query: IntArray) -> IntArray:
    """Return the places `(n, SHOWN)` among the candidates of what each search shows: by score, and some chance."""
    noisy = queries.score[query] + rng.normal(0.0, rng.uniform(0.2, 0.8), (len(query), queries.score.shape[1]))
    return np.argsort(-noisy, axis=1)[:, :SHOWN]


class _Shop:
    """How visitors of one shop look, click and buy."""

    def __init__(self, rng: np.random.Generator, products: _Products) -> None:
        n_segments = len(SEGMENTS)
        self.products = products
        self.form = (str(rng.choice(LINKS)), str(rng.choice(PRICES)), str(rng.choice(LOOKS)))
        gaps = rng.uniform(0.35, 0.7, n_segments)
        self.slopes = rng.permutation(np.cumsum(gaps) - rng.uniform(1.2, 1.6))
        self.budgets = float(np.median(products.log_price)) + rng.normal(0.0, 0.3, n_segments)
        self.levels = rng.normal(0.0, 0.7, n_segments)
        self.by_category = rng.normal(0.0, 0.4, (n_segments, len(CATEGORIES)))
        self.by_type = rng.normal(0.0, 0.3, len(TYPES))
        self.by_pair = rng.normal(0.0, 0.2, (n_segments, len(TYPES)))
        self.by_label = rng.normal(0.0, 0.5, n_segments)
        self.relevance = float(rng.uniform(0.4, 1.0))
        self.target = float(rng.uniform(0.08, 0.25))
        self.attention = np.exp(rng.normal(0.0, 0.25, n_segments))
        self.decay = float(rng.uniform(0.12, 0.3))
        self.satisfied = float(rng.uniform(0.3, 0.8))
        self.purchase_slopes = rng.normal(-0.3, 0.3, n_segments)
        self.purchase_levels = rng.normal(-0.8, 0.3, n_segments)

    def price_effect(self, log_price: FloatArray, segment: IntArray, taste: FloatArray) -> FloatArray:
        """Return what a price adds to the utility of visitors of a segment; by log price the mean slope is theirs."""
        centre = float(np.median(self.products.log_price))
        x = log_price - centre
        slope = self.slopes[segment] + taste
        if self.form[1] == "root":
            return np.asarray(slope * 2.0 * (np.exp(0.5 * x) - 1.0))
        if self.form[1] == "budget":
            width = 0.5
            return np.asarray(2.0 * slope * width * np.logaddexp(0.0, (log_price - self.budgets[segment]) / width))
        if self.form[1] == "best price":
            return np.asarray(slope * x - 0.15 * x**2)
        return np.asarray(slope * x)

    def click_chances(self, visits: _Visits, queries: _Queries, shown: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the chance of a click `(n, SHOWN)` on what is looked at, and that at a price 10% higher."""
        query = visits.query[:, None]
        product = queries.candidates[query, shown]
        segment = np.broadcast_to(visits.segment[:, None], product.shape)
        category = self.products.category[product]
        kind = queries.kind[query]
        taste = visits.taste[:, None]
        log_price = self.products.log_price[product]
        utility = self.relevance * queries.relevance[query, shown] + self.products.quality[product]
        utility = utility + self.levels[segment] + visits.level[:, None] + self.by_category[segment, category]
        utility = utility + self.by_type[kind] + self.by_pair[segment, kind]
        utility = utility + self.by_label[segment] * self.products.label[product]
        with_price = utility + self.price_effect(log_price, segment, taste)
        dearer = utility + self.price_effect(log_price + np.log1p(HIGHER), segment, taste)
        low, high = -10.0, 10.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.chance(middle + with_price).mean() < self.target else (low, middle)
        return self.chance(low + with_price), self.chance(low + dearer)

    def chance(self, utility: FloatArray) -> FloatArray:
        """Return the chance of a click on what is looked at."""
        if self.form[0] == "probit":
            return np.asarray(special.ndtr(utility / 1.6))
        if self.form[0] == "cloglog":
            return np.asarray(-np.expm1(-np.exp(np.minimum(utility, 5.0))))
        return np.asarray(special.expit(utility))

    def look(self, rng: np.random.Generator, visits: _Visits, chance: FloatArray) -> tuple[BoolArray, BoolArray]:
        """Draw which positions are looked at `(n, SHOWN)`, and which are clicked."""
        n, length = chance.shape
        attention = self.attention[visits.segment][:, None]
        draws = rng.random((n, length))
        would = rng.random((n, length)) < chance
        places = np.arange(length)
        if self.form[2] == "position":
            examined = draws < (0.95 / (1.0 + places) ** (3.0 * self.decay / attention))
        elif self.form[2] == "pages":
            pages = places // 4
            stays = np.cumprod(rng.random((n, 3)) < np.array([1.0, 0.6, 0.4]) ** (1.0 / attention), axis=1) > 0
            examined = stays[:, pages] & (draws < 0.85)
        else:
            goes_on = draws < 1.0 - self.decay / attention
            ends = would & (rng.random((n, length)) < self.satisfied)
            before = np.roll(goes_on & ~ends, 1, axis=1)
            before[:, 0] = draws[:, 0] < 0.95
            examined = np.cumprod(before, axis=1) > 0
        return examined, examined & would

    def purchase_chances(self, visits: _Visits, queries: _Queries, shown: IntArray) -> FloatArray:
        """Return the chance `(n, SHOWN)` that a click ends in a purchase: by price, unlike clicks."""
        segment = visits.segment[:, None]
        log_price = self.products.log_price[queries.candidates[visits.query[:, None], shown]]
        odds = self.purchase_levels[segment] + self.purchase_slopes[segment] * (log_price - 3.0)
        return np.asarray(special.expit(odds))


def _write(
    folder: Path,
    products: _Products,
    queries: _Queries,
    visits: _Visits,
    shown: IntArray,
    clicked: BoolArray,
    bought: BoolArray,
) -> None:
    skus = np.array([f"A{number:03}" for number in range(PRODUCTS)])
    texts = np.array([f"{CATEGORIES[number % len(CATEGORIES)]} {number}" for number in range(QUERIES)])
    kinds = np.array(TYPES)[queries.kind]
    catalogue = {
        "id": skus,
        "category": np.array(CATEGORIES)[products.category],
        "price": np.exp(products.log_price).round(2),
        "private_label": products.label.astype(int),
    }
    pl.DataFrame(catalogue).write_csv(folder / "catalogue.csv")
    pl.DataFrame({"query": texts, "type": kinds, "weight": queries.weight}).write_csv(folder / "queries.csv")
    width = queries.candidates.shape[1]
    scores = {
        "query": np.repeat(texts, width),
        "product": skus[queries.candidates.ravel()],
        "score": queries.score.ravel(),
    }
    pl.DataFrame(scores).write_csv(folder / "scores.csv")
    n = len(visits.query)
    searches = {
        "search": np.repeat(np.arange(n), SHOWN),
        "position": np.tile(np.arange(SHOWN), n),
        "product": skus[queries.candidates[visits.query[:, None], shown].ravel()],
        "query": np.repeat(texts[visits.query], SHOWN),
        "segment": np.repeat(np.array(SEGMENTS)[visits.segment], SHOWN),
        "user_id": np.repeat([f"U{user}" for user in visits.user], SHOWN),
        "clicked": clicked.ravel().astype(int),
        "purchased": bought.ravel().astype(int),
    }
    pl.DataFrame(searches).write_csv(folder / "searches.csv")
