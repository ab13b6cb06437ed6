"""Retail shops with a known truth, drawn by a seed: tables with brands and missing values, 2 to 3% clicks.

They share no code with `examples/shop` or `zoosim.worlds`, and no formula: clicks follow a complementary log-log model
with hump-shaped tastes, pairs of traits that only matter together, and customers who differ by more than their columns
tell. Build and tune on seeds 0 to 99; report on seeds 1000 and up.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from zoosim.core.types import FloatArray, IntArray

VISITS = 60_000
VISITS_PER_CUSTOMER = 3.0
DAYS = 28
START = 1_767_225_600  # 2026-01-01 00:00 UTC, in seconds

COUNTRIES = ("AT", "BE", "CH", "DE", "FR", "IT", "NL", "PL")
DEVICES = ("app", "desktop", "phone", "tablet")
CATEGORIES = (
    "aquarium", "bedding", "bird", "cat food", "collars", "dog food",
    "grooming", "hay", "health", "snacks", "toys", "travel",
)  # fmt: skip

REWARDS = ("click", "revenue")
"""What a visit earns: a click or none, and what the order is worth that may follow the click, in EUR."""

SCHEMA: dict[str, Any] = {
    "columns": {"action": "sku", "propensity": "propensity", "time": "shown_at", "user_id": "customer"},
    "rewards": {"click": "clicked", "revenue": "revenue"},
    "features": {
        "country": "category",
        "age": "number",
        "device": "category",
        "member": "yes/no",
        "favourite": "category",
        "orders_before": "number",
    },
}
"""What the columns of `shop.csv` are, for `zoosim.import_log`; `schema(folder)` adds the table of products."""


@dataclass(frozen=True)
class RetailShop:
    """A shop's customers and products, and what nobody sees: the true rates of each pair.

    Attributes:
        customers: n rows: `customer` and the columns that the log shows, with missing values.
        products: K rows: `sku`, `category`, `brand` (some missing), `price` in EUR, `margin` (share of the price).
        click_rates: Probability of a click `(n, K)` when a customer is shown a product.
        revenues: Expected revenue `(n, K)` in EUR of showing it.
        order_values: Mean value `(K,)` in EUR of an order.
        propensities: Probability `(n, K)` with which the shop shows each product today; rows add up to 1.
    """

    seed: int
    customers: pl.DataFrame
    products: pl.DataFrame
    click_rates: FloatArray
    revenues: FloatArray
    order_values: FloatArray
    propensities: FloatArray

    def values(self, reward: str) -> FloatArray:
        """Return what showing each product to each customer earns in expectation `(n, K)`: "click" or "revenue"."""
        return self.click_rates if reward == "click" else self.revenues


def draw_shop(seed: int, visits: int = VISITS) -> RetailShop:
    """Draw a shop: 150 to 600 products of 12 to 40 brands, and enough customers for so many visits."""
    rng = np.random.default_rng([seed, 1])
    n_customers = round(visits / VISITS_PER_CUSTOMER)
    traits, customers = _draw_customers(rng, n_customers)
    products = _draw_products(rng)
    utility = _utility(rng, traits, products)
    frailty = rng.gamma(4.0, 0.25, n_customers)  # what no column tells of a customer; mean 1
    propensities = _propensities(rng, utility)
    target = rng.uniform(0.021, 0.029)
    intercept = _intercept(utility, frailty, propensities, target)
    click_rates = 1.0 - np.exp(-frailty[:, None] * np.exp(intercept + utility))
    price = products["price"].to_numpy()
    order_values = price * rng.uniform(1.0, 1.6, len(products))
    budget = traits["budget"][:, None]
    order_given_click = 1.0 / (1.0 + np.exp(0.9 + 0.7 * (np.log(price / np.median(price)) - budget)))
    revenues = click_rates * order_given_click * order_values
    return RetailShop(seed, customers, products, click_rates, revenues, order_values, propensities)


def draw_visits(shop: RetailShop, visits: int = VISITS, *, seed: int = 0) -> tuple[pl.DataFrame, IntArray, IntArray]:
    """Draw visits over 28 days, in order of time, and what came of them.

    Returns:
        The table with a row per visit, the columns of `SCHEMA`; the customer's row `(visits,)` and the row of the
        product shown `(visits,)` in the shop's tables.
    """
    rng = np.random.default_rng([shop.seed, 2, seed])
    customer = rng.integers(len(shop.customers), size=visits)
    seconds = np.sort(rng.integers(DAYS * 86_400, size=visits))
    shown = _choose(shop.propensities, customer, rng)
    busy = 1.0 + 0.15 * np.sin(2.0 * np.pi * seconds / (7 * 86_400))  # clicks rise and fall through the week
    clicked = rng.random(visits) < np.minimum(shop.click_rates[customer, shown] * busy, 1.0)
    order_given_click = shop.revenues[customer, shown] / (shop.click_rates[customer, shown] * shop.order_values[shown])
    ordered = clicked & (rng.random(visits) < order_given_click)
    value = shop.order_values[shown] * rng.gamma(3.0, 1.0 / 3.0, visits)
    table = shop.customers[customer].with_columns(
        pl.Series("shown_at", (START + seconds) * 1_000_000).cast(pl.Datetime("us", "UTC")),
        pl.Series("sku", shop.products["sku"].to_numpy()[shown]),
        pl.Series("propensity", shop.propensities[customer, shown]),
        pl.Series("clicked", clicked.astype(np.int8)),
        pl.Series("revenue", np.where(ordered, np.round(value, 2), 0.0)),
    )
    return table, customer, shown


def write_shop(folder: Path, seed: int, visits: int = VISITS) -> RetailShop:
    """Write `shop.csv` (a row per visit) and `products.csv` into a folder, and return the shop behind them."""
    shop = draw_shop(seed, visits)
    table, _, _ = draw_visits(shop, visits)
    table.with_columns(pl.col("shown_at").dt.to_string("%Y-%m-%dT%H:%M:%S%.6fZ")).write_csv(folder / "shop.csv")
    shop.products.write_csv(folder / "products.csv")
    return shop


def schema(folder: Path) -> dict[str, Any]:
    """Return what the columns of both tables in a folder are, for `zoosim.import_log`."""
    products = {
        "table": str(folder / "products.csv"),
        "id": "sku",
        "category": "category",
        "features": ["category", "brand", "price"],
    }
    return {**SCHEMA, "products": products}


def _draw_customers(rng: np.random.Generator, n: int) -> tuple[dict[str, Any], pl.DataFrame]:
    """Return what drives customers, and the columns that the shop has of it: coarser, and partly missing."""
    age = np.clip(rng.normal(43.0, 15.0, n), 16.0, 90.0)
    country = rng.choice(len(COUNTRIES), n, p=rng.dirichlet(np.full(len(COUNTRIES), 3.0)))
    device = rng.choice(len(DEVICES), n, p=rng.dirichlet(np.full(len(DEVICES), 4.0)))
    member = rng.random(n) < rng.uniform(0.15, 0.5)
    favourite = rng.integers(len(CATEGORIES), size=n)
    budget = rng.normal(0.0, 0.6, n) + 0.4 * member + (age - 43.0) / 60.0
    orders_before = rng.poisson(np.exp(0.2 + 0.8 * member + 0.3 * budget))
    told = rng.random(n) < 0.8  # who says which category they like best; a tenth of them wrongly
    stated = np.where(rng.random(n) < 0.9, favourite, rng.integers(len(CATEGORIES), size=n))
    customers = pl.DataFrame(
        {
            "customer": [f"C{number:06}" for number in rng.permutation(n)],
            "country": np.array(COUNTRIES)[country],
            "age": np.where(rng.random(n) < 0.12, np.nan, np.round(age)),
            "device": np.array(DEVICES)[device],
            "member": np.where(member, "yes", "no"),
            "favourite": np.where(told, np.array(CATEGORIES)[stated], ""),
            "orders_before": orders_before,
        }
    ).with_columns(pl.col("age").fill_nan(None), pl.col("favourite").replace("", None))
    traits = {
        "age": age, "country": country, "device": device, "member": member, "favourite": favourite, "budget": budget,
    }  # fmt: skip
    return traits, customers


def _draw_products(rng: np.random.Generator) -> pl.DataFrame:
    n = int(rng.integers(150, 601))
    n_brands = int(rng.integers(12, 41))
    category = rng.choice(len(CATEGORIES), n, p=rng.dirichlet(np.full(len(CATEGORIES), 3.0)))
    brand = rng.choice(n_brands, n, p=rng.dirichlet(np.full(n_brands, 1.5)))
    brand_level = rng.normal(0.0, 0.5, n_brands)
    price = np.round(np.exp(2.8 + brand_level[brand] + rng.normal(0.0, 0.6, n)), 2)
    brands = np.array([f"brand {number:02}" for number in range(n_brands)])[brand]
    return pl.DataFrame(
        {
            "sku": [f"P{number:05}" for number in rng.permutation(n)],
            "category": np.array(CATEGORIES)[category],
            "brand": np.where(rng.random(n) < 0.05, "", brands),
            "price": price,
            "margin": np.round(rng.uniform(0.08, 0.45, n), 3),
        }
    ).with_columns(pl.col("brand").replace("", None))


def _utility(rng: np.random.Generator, traits: dict[str, Any], products: pl.DataFrame) -> FloatArray:
    """Return the logarithm of how much likelier than usual each customer clicks each product `(n, K)`."""
    category = np.array([CATEGORIES.index(name) for name in products["category"]])
    brands = products["brand"].fill_null("none").to_numpy()
    names, brand = np.unique(brands, return_inverse=True)
    log_price = np.log(products["price"].to_numpy())
    log_price = log_price - log_price.mean()
    n_categories = len(CATEGORIES)

    utility = rng.normal(0.0, 0.35, len(products)) + rng.normal(0.0, 0.25, len(names))[brand]
    # Tastes for a category rise and fall with age: a hump somewhere between 20 and 70.
    peak, height = rng.uniform(20.0, 70.0, n_categories), rng.normal(0.7, 0.3, n_categories)
    hump = height * np.exp(-(((traits["age"][:, None] - peak) / 14.0) ** 2))
    by_country = rng.normal(0.0, 0.3, (len(COUNTRIES), n_categories))[traits["country"]]
    by_favourite = rng.uniform(0.6, 1.1) * (traits["favourite"][:, None] == np.arange(n_categories))
    # Some categories suit members on some device only.
    pair = rng.normal(0.0, 0.4, (2, len(DEVICES), n_categories))[traits["member"].astype(int), traits["device"]]
    utility = utility[None, :] + (hump + by_country + by_favourite + pair)[:, category]
    by_brand = rng.normal(0.0, 0.3, (len(COUNTRIES), len(names)))[traits["country"]]
    utility += by_brand[:, brand]
    utility += -rng.uniform(0.2, 0.5) * (log_price[None, :] - 0.8 * traits["budget"][:, None]) ** 2
    return np.asarray(utility)


def _propensities(rng: np.random.Generator, utility: FloatArray) -> FloatArray:
    """Return what the shop shows today `(n, K)`: what sold somewhere, half at random, a tenth of it uniformly."""
    popularity = utility.mean(axis=0) + rng.normal(0.0, 0.5, utility.shape[1])
    opinion = 0.8 * popularity[None, :] + rng.uniform(0.0, 0.4) * (utility - utility.mean(axis=0))
    chance = np.exp(opinion - opinion.max(axis=1, keepdims=True))
    chance /= chance.sum(axis=1, keepdims=True)
    uniform = rng.uniform(0.1, 0.5)
    return np.asarray((1.0 - uniform) * chance + uniform / utility.shape[1])


def _intercept(utility: FloatArray, frailty: FloatArray, propensities: FloatArray, target: float) -> float:
    """Return the intercept at which a share `target` of today's visits is clicked, by bisection."""
    low, high = -12.0, 2.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        rates = 1.0 - np.exp(-frailty[:, None] * np.exp(middle + utility))
        if float((propensities * rates).sum(axis=1).mean()) < target:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _choose(chances: FloatArray, rows: IntArray, rng: np.random.Generator) -> IntArray:
    """Draw one column of `chances` for each of `rows`."""
    cumulative = np.cumsum(chances, axis=1)
    draws = rng.random(len(rows))
    chosen = [np.searchsorted(cumulative[row], draw) for row, draw in zip(rows, draws, strict=True)]
    return np.asarray(np.minimum(chosen, chances.shape[1] - 1), dtype=np.int64)
