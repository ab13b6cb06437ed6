"""A small shop with string ids: a log of impressions, a table of products, and the truth behind both."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

COUNTRIES = ("de", "fr", "it")
BRANDS = ("acme", "zen", "other")
N_PRODUCTS = 12
START = datetime(2026, 1, 1, 0, 0, 0, 500_000, UTC)
MONTH = timedelta(days=28)
SCHEMA: dict[str, Any] = {
    "columns": {"action": "item", "propensity": "p", "time": "at", "user_id": "customer"},
    "rewards": {"click": "click", "revenue": "gmv"},
    "features": {"country": "category", "age": "number", "member": "yes/no"},
    "products": {"table": "items.csv", "id": "item", "category": "brand", "features": ["brand", "price"]},
}


def click_rate(country: int, product: int) -> float:
    """Visitors of a country click products of one brand at 50%, all others at 10%."""
    return 0.5 if product % 3 == country else 0.1


BEST = 0.5
LOGGED = (0.5 + 0.1 + 0.1) / 3
"""The click rate of products that are shown at random."""


def product_name(product: int) -> str:
    """Return what the shop calls a product."""
    return f"SKU-{product:02}"


def write_shop(folder: Path, n: int = 3_000, seed: int = 0) -> pl.DataFrame:
    """Write `shop.csv`, a uniform log with missing values, and `items.csv`; return the log."""
    rng = np.random.default_rng(seed)
    country = rng.integers(3, size=n)
    product = rng.integers(N_PRODUCTS, size=n)
    click = rng.random(n) < [click_rate(*pair) for pair in zip(country, product, strict=True)]
    age = rng.integers(18, 90, n).astype(str)
    log = pl.DataFrame(
        {
            "item": [product_name(k) for k in product],
            "p": np.full(n, 1.0 / N_PRODUCTS),
            "click": click.astype(int),
            "gmv": np.where(click, 2.5, 0.0),
            "customer": [f"c{i}" for i in rng.integers(n // 2, size=n)],
            "at": [(START + i * MONTH / n).isoformat(timespec="milliseconds") for i in range(n)],
            "country": np.array(COUNTRIES)[country],
            "age": np.where(rng.random(n) < 0.05, "", age),
            "member": rng.choice(["yes", "no"], n),
        }
    )
    log.write_csv(folder / "shop.csv")
    products = range(N_PRODUCTS)
    items = {
        "item": [product_name(k) for k in products],
        "brand": [BRANDS[k % 3] for k in products],
        "price": rng.uniform(1.0, 9.0, N_PRODUCTS).round(2),
    }
    pl.DataFrame(items).write_csv(folder / "items.csv")
    return log


def schema(folder: Path, **changes: Any) -> dict[str, Any]:
    """Return what the columns of the shop's tables are, with other values for some keys."""
    products = {**SCHEMA["products"], "table": str(folder / "items.csv")}
    return {**SCHEMA, "products": products, **changes}
