"""A small shop, its model, and a service of it in the test's own process."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import zoosim
from tests.logs.own_searches import write_searches
from zoosim.serving.clock import Clock
from zoosim.serving.service import Service
from zoosim.serving.settings import Settings

PRODUCTS = [f"p{number}" for number in range(8)]
COUNTRIES = ("de", "fr", "it")


def make_model(folder: Path, policy: str = "adaptive", names: Sequence[str] = PRODUCTS, click_rates: Any = 0.3) -> Path:
    """Train a policy on a small table, of products with one click rate or with each its own; return its file."""
    rng = np.random.default_rng(1)
    rows = 400
    shown = rng.integers(len(names), size=rows)
    table = pl.DataFrame(
        {
            "item": np.array(names)[shown],
            "propensity": np.full(rows, 1 / len(names)),
            "click": (rng.random(rows) < np.broadcast_to(click_rates, len(names))[shown]).astype(int),
            "country": rng.choice(COUNTRIES, rows),
        }
    )
    products = pl.DataFrame({"item": names, "category": [f"c{number % 3}" for number in range(len(names))]})
    products.write_csv(folder / "products.csv")
    schema = folder / "schema.yaml"
    schema.write_text(
        "columns: {action: item, propensity: propensity}\nrewards: {click: click}\n"
        "features: {country: category}\n"
        "products: {table: products.csv, id: item, features: {category: category}}\n"
    )
    zoosim.import_log(table, schema, folder / "log.parquet")
    zoosim.train(folder / "log.parquet", [policy], folder / "model.zoosim")
    return folder / "model.zoosim"


def make_boost_model(folder: Path, policy: str = "item-critic") -> Path:
    """Train a policy of boosts on a few searches, and return its file."""
    zoosim.train(write_searches(folder, 400), [policy], folder / "boosts.zoosim")
    return folder / "boosts.zoosim"


@asynccontextmanager
async def running(
    folder: Path, model: Path | None, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[Service]:
    """Run a service without HTTP and without a learner; its log is in SQLite where `store` names no other place."""
    options = {"store": f"sqlite:{folder}", "wait": 1.0, **settings}
    service = Service(Settings(**options), model, asyncio.get_running_loop(), clock)
    try:
        yield service
    finally:
        service.close()
