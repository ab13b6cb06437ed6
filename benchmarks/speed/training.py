"""S13, second part: `zoosim train LOG --policy NAME` on logs of shops with thousands of products, as a command."""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import zoosim

ROWS, PRODUCTS = 100_000, (3_000, 30_000)
POLICIES = "adaptive", "mixed-effects"
TO_COMPILE = 2_000, 1_100
"""Rows and products of a first run, so that what takes long is compiled."""

COUNTRIES, DEVICES, CATEGORIES, BRANDS = 8, 4, 12, 40
START = 1_767_225_600
"""2026-01-01 00:00 UTC, in seconds."""

SCHEMA = {
    "columns": {"action": "sku", "propensity": "propensity", "time": "shown_at", "user_id": "customer"},
    "rewards": {"click": "clicked", "revenue": "revenue"},
    "features": {
        "country": "category", "age": "number", "device": "category", "member": "yes/no", "favourite": "category",
        "orders_before": "number",
    },
}  # fmt: skip


def train_large(rows: int = ROWS, products: tuple[int, ...] = PRODUCTS) -> None:
    """Print how long training and judging take, what was told beforehand, and the most memory."""
    with tempfile.TemporaryDirectory() as folder:
        print("S13 zoosim train: compiling", file=sys.stderr, flush=True)
        log = import_shop(Path(folder), *TO_COMPILE)
        for policy in POLICIES:
            run_train(log, policy)
        for n_products in products:
            print(f"S13 zoosim train: {n_products:,} products", file=sys.stderr, flush=True)
            log = import_shop(Path(folder), rows, n_products)
            size = f"{rows:,} rows of {n_products:,} products, visitors of 30 features, products of 55"
            for policy in POLICIES:
                seconds, cpu, gigabytes, progress = run_train(log, policy)
                forecast = re.search(r"about (\d+) s", progress)
                said = f"told beforehand: about {forecast[1]} s" if forecast else "told nothing beforehand"
                times = f"{seconds:.1f} s ({said}; {cpu:.1f} s of processor time)"
                print(f"S13 zoosim train --policy {policy}, {size}: {times}, {gigabytes:.2f} GB at most", flush=True)


def run_train(log: Path, policy: str) -> tuple[float, float, float, str]:
    """Train on a log in a process of its own; return seconds, those of processors, memory in GB, and its progress."""
    command = [sys.executable, "-m", "zoosim", "train", str(log), "--policy", policy]
    with (log.parent / "progress.txt").open("w+") as progress:
        began = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--out", str(log.parent / "m.zoosim")], stdout=subprocess.DEVNULL, stderr=progress
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        progress.seek(0)
        lines = progress.read()
    if process.returncode:
        sys.exit(f"zoosim train failed: {lines}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024**2, lines


def import_shop(folder: Path, rows: int, n_products: int, seed: int = 0) -> Path:
    """Write a shop's tables, import them, and return the log: 2 to 3% clicks, a third of these with an order."""
    rng = np.random.default_rng(seed)
    n_customers = max(1, rows // 3)
    favourite = rng.integers(CATEGORIES, size=n_customers)
    customers = pl.DataFrame(
        {
            "customer": np.arange(n_customers),
            "country": rng.integers(COUNTRIES, size=n_customers),
            "age": rng.normal(43.0, 15.0, n_customers).clip(16.0, 90.0).round(),
            "device": rng.integers(DEVICES, size=n_customers),
            "member": np.where(rng.random(n_customers) < 0.3, "yes", "no"),
            "favourite": favourite,
            "orders_before": rng.poisson(1.5, n_customers),
        }
    )
    category = rng.integers(CATEGORIES, size=n_products)
    price = np.exp(2.8 + rng.normal(0.0, 0.6, n_products)).round(2)
    table = {"sku": np.arange(n_products), "category": category, "brand": rng.integers(BRANDS, size=n_products)}
    pl.DataFrame({**table, "price": price}).write_csv(folder / "products.csv")

    popularity = np.exp(rng.normal(0.0, 0.6, n_products))
    chances = 0.5 / n_products + 0.5 * popularity / popularity.sum()
    customer = rng.integers(n_customers, size=rows)
    shown = rng.choice(n_products, size=rows, p=chances / chances.sum())
    logits = -3.9 + rng.normal(0.0, 0.35, n_products)[shown] + 0.8 * (favourite[customer] == category[shown])
    clicked = rng.random(rows) < 1.0 / (1.0 + np.exp(-logits))
    ordered = clicked & (rng.random(rows) < 0.33)
    seconds = START + np.sort(rng.integers(28 * 86_400, size=rows))
    visits = customers[customer].with_columns(
        pl.Series("sku", shown),
        pl.Series("propensity", chances[shown]),
        pl.Series("clicked", clicked.astype(np.int8)),
        pl.Series("revenue", np.where(ordered, price[shown], 0.0)),
        pl.Series("shown_at", seconds * 1_000_000).cast(pl.Datetime("us", "UTC")),
    )
    described = {
        "table": str(folder / "products.csv"),
        "id": "sku",
        "category": "category",
        "features": {"category": "category", "brand": "category", "price": "number"},
    }
    zoosim.import_log(visits, {**SCHEMA, "products": described}, folder / "log.parquet")
    return folder / "log.parquet"
