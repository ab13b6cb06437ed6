"""Make a shop with known truth: a log of 50,000 impressions, 6,000 visitors who come again, 300 products.

    python examples/shop/shop.py make FOLDER [--seed N]
    python examples/shop/shop.py judge MODEL [--seed N]

`make` writes products.csv, shop.csv (with the probability of each choice) and shop_without.csv (the same without).
Click rates follow from what a visitor likes by country, age and membership, from prices, and from each product itself.
About 4% of the impressions are clicked, 3% earn something, and some values are missing. `judge` tells what a model
would really earn.
"""

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

import zoosim
from zoosim.policies.model import Model

IMPRESSIONS, VISITORS, PRODUCTS = 50_000, 6_000, 300
CATEGORIES, BRANDS = 12, 40
COUNTRIES = ("de", "fr", "it", "nl")
DEVICES = ("phone", "tablet", "desktop")
CLICK_RATE = 0.04
BOUGHT = 0.75
"""Share of clicks that are followed by a purchase."""
PRICE_NOISE = 0.4
"""Standard deviation of the logarithm of what a purchase earns, around its price."""
DAYS = 28
VISITS = 2_000
"""Visits by which a model's true click rate is told."""


class Shop(NamedTuple):
    """A shop's visitors and products, and what the first like of the second.

    `visitors` has a row per visitor, `products` one per product; `logits (VISITORS, PRODUCTS)` are those of clicks,
    `category (PRODUCTS,)` the number of each product's category.
    """

    visitors: pl.DataFrame
    products: pl.DataFrame
    logits: np.ndarray
    category: np.ndarray

    @property
    def click_rates(self) -> np.ndarray:
        """The probability that a visitor clicks a product `(VISITORS, PRODUCTS)`."""
        return np.asarray(1.0 / (1.0 + np.exp(-self.logits)))


def make_shop(seed: int) -> Shop:
    """Return a shop: the same one for the same seed."""
    rng = np.random.default_rng([seed, 1])
    category = rng.integers(0, CATEGORIES, PRODUCTS)
    brand = category * BRANDS // CATEGORIES + rng.integers(0, BRANDS // CATEGORIES, PRODUCTS)
    price = np.exp(rng.normal(3.0, 0.6, PRODUCTS)).round(2)
    country = rng.choice(len(COUNTRIES), VISITORS, p=(0.5, 0.2, 0.2, 0.1))
    age = rng.normal(44.0, 14.0, VISITORS).clip(18, 90).round()
    is_member = rng.random(VISITORS) < 0.3
    device = rng.choice(len(DEVICES), VISITORS, p=(0.6, 0.1, 0.3))

    by_country = rng.normal(0.0, 0.7, (len(COUNTRIES), CATEGORIES))
    by_age = rng.normal(0.0, 0.4, CATEGORIES)
    by_member = rng.normal(0.0, 0.3, CATEGORIES)
    of_visitor = rng.normal(0.0, 0.3, (VISITORS, CATEGORIES))  # what no column tells
    of_product = rng.normal(0.0, 0.6, PRODUCTS)
    of_brand = rng.normal(0.0, 0.3, BRANDS)
    taste = by_country[country] + np.outer((age - 44.0) / 14.0, by_age) + np.outer(is_member, by_member) + of_visitor
    sensitivity = np.where(is_member, 0.1, 0.4)
    logits = taste[:, category] + of_product + of_brand[brand] - np.outer(sensitivity, np.log(price) - 3.0)

    products = {
        "item": [f"SKU-{k:03}" for k in range(PRODUCTS)],
        "category": [f"category {c}" for c in category],
        "brand": [f"brand {b}" for b in brand],
        "price": price,
    }
    visitors = {
        "customer": [f"c{i:04}" for i in range(VISITORS)],
        "country": np.array(COUNTRIES)[country],
        "age": age,
        "member": np.where(is_member, "yes", "no"),
        "device": np.array(DEVICES)[device],
    }
    shop = Shop(pl.DataFrame(visitors), pl.DataFrame(products), logits, category)
    return shop._replace(logits=logits + _level(shop))


def _level(shop: Shop) -> float:
    """Return what to add to logits so that `CLICK_RATE` of the logged impressions are clicked."""
    low, high = -10.0, 10.0
    chances = logging_policy(shop)
    for _ in range(40):
        middle = (low + high) / 2.0
        rate = (chances / (1.0 + np.exp(-(shop.logits + middle)))).sum(axis=1).mean()
        low, high = (middle, high) if rate < CLICK_RATE else (low, middle)
    return low


def logging_policy(shop: Shop) -> np.ndarray:
    """Return how likely the shop showed each product to each visitor `(VISITORS, PRODUCTS)`.

    Half of the time anything, else by a rule: cheap products of the categories that the visitor's country likes.
    """
    countries = shop.visitors["country"].to_numpy()
    prices = shop.products["price"].to_numpy()
    weights = np.empty((VISITORS, PRODUCTS))
    for number, country in enumerate(COUNTRIES):
        liked = (shop.category + number) % 3 == 0
        weights[countries == country] = np.where(liked, 2.0, 0.5) / np.sqrt(prices)
    return np.asarray(0.5 / PRODUCTS + 0.5 * weights / weights.sum(axis=1, keepdims=True))


def revenue_of_clicks(shop: Shop) -> np.ndarray:
    """Return what a click on each product earns in expectation `(PRODUCTS,)`."""
    return np.asarray(BOUGHT * shop.products["price"].to_numpy() * np.exp(PRICE_NOISE**2 / 2.0))


def make_log(shop: Shop, seed: int, n: int = IMPRESSIONS) -> pl.DataFrame:
    """Return what the shop logged: a row per impression."""
    rng = np.random.default_rng([seed, 2])
    activity = rng.pareto(2.0, VISITORS) + 0.2
    visitor = rng.choice(VISITORS, n, p=activity / activity.sum())
    chances = logging_policy(shop)
    borders = chances.cumsum(axis=1)[visitor]
    action = (borders < rng.random((n, 1)) * borders[:, -1:]).sum(axis=1)
    is_clicked = rng.random(n) < shop.click_rates[visitor, action]
    is_bought = is_clicked & (rng.random(n) < BOUGHT)
    revenue = np.where(
        is_bought, shop.products["price"].to_numpy()[action] * np.exp(rng.normal(0.0, PRICE_NOISE, n)), 0.0
    )
    at = np.sort(rng.random(n)) * DAYS * 86_400
    start = np.datetime64("2026-03-01T00:00:00")
    log = shop.visitors[visitor].with_columns(
        pl.Series("at", np.datetime_as_string(start + at.astype("timedelta64[s]"), timezone="UTC")),
        pl.Series("item", shop.products["item"].to_numpy()[action]),
        pl.Series("propensity", chances[visitor, action]),
        pl.Series("click", is_clicked.astype(int)),
        pl.Series("revenue", revenue.round(2)),
    )
    for name, share in (("age", 0.08), ("country", 0.03)):
        is_missing = pl.Series(rng.random(n) < share)
        log = log.with_columns(pl.when(~is_missing).then(pl.col(name)).alias(name))
    return log


def true_value(shop: Shop, model: Model, visits: int, seed: int = 0) -> float:
    """Return the click rate that a model's decisions would have, from the truth: no click is drawn.

    The visitors come as often as in the log, whose columns they have.
    """
    log = make_log(shop, seed + 1)[:visits]
    place = {name: row for row, name in enumerate(shop.visitors["customer"])}
    rates = shop.click_rates
    total = 0.0
    for row in log.to_dicts():
        visitor: Mapping[str, Any] = row
        chances = model.propensities(visitor)
        truth = dict(zip(shop.products["item"], rates[place[row["customer"]]], strict=True))
        total += math.fsum(chance * truth[product] for product, chance in chances.items())
    return total / visits


def make(folder: Path, seed: int) -> None:
    """Write a shop's tables to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    shop = make_shop(seed)
    log = make_log(shop, seed)
    shop.products.write_csv(folder / "products.csv")
    log.write_csv(folder / "shop.csv")
    log.drop("propensity").write_csv(folder / "shop_without.csv")
    clicks = (log["click"] > 0).sum() / log.height
    sold = (log["revenue"] > 0).sum() / log.height
    print(f"{log.height:,} impressions, {clicks:.2%} clicked, {sold:.2%} with revenue: {folder}/shop.csv")


def judge(file: Path, seed: int) -> None:
    """Print what a model decides for a visitor, and what its decisions would really earn."""
    model = zoosim.load(file)
    choice = model.decide({"country": "fr", "age": 31, "member": "yes", "device": "phone"})
    shop = make_shop(seed)
    logged = (logging_policy(shop) * shop.click_rates).sum(axis=1).mean()
    print(f"{choice.product}, shown with probability {choice.propensity:.3f}")
    print(f"true click rate {true_value(shop, model, VISITS):.2%}, of the logged choices {logged:.2%}")


def main() -> None:
    """Run one of both commands."""
    parser = argparse.ArgumentParser(description="A shop with known truth.")
    parser.add_argument("command", choices=("make", "judge"))
    parser.add_argument("path", type=Path, help="make: the folder to write; judge: a model of zoosim train")
    parser.add_argument("--seed", type=int, default=0, help="the shop's, 0 or more")
    options = parser.parse_args()
    {"make": make, "judge": judge}[options.command](options.path, options.seed)


if __name__ == "__main__":
    main()
