"""S16: `zoosim import` of a shop's table of 1,000,000 rows and 20 columns of all types, its schema inferred."""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

ROWS, PRODUCTS, VISITORS = 1_000_000, 300, 200_000


def main() -> None:
    """Print how long it takes, reading and writing included, and the most memory of its process."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "shop.csv"
        make_table().write_csv(table)
        command = [sys.executable, "-m", "zoosim", "import", str(table), f"{folder}/log.parquet"]
        began = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        seconds = time.monotonic() - began
        began = time.monotonic()
        pl.read_csv(table)
        reading = time.monotonic() - began
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e9
        size = table.stat().st_size / 1e6
    print(
        f"S16 zoosim import, {ROWS:,} rows of 20 columns ({size:.0f} MB): "
        f"{seconds:.1f} s, {processor:.1f} s of processor time, {peak:.2f} GB at most; "
        f"polars reads the table in {reading:.2f} s: {seconds / reading:.0f} times"
    )


def make_table() -> pl.DataFrame:
    """Return a table of 20 columns: product, probability, time, visitor, two rewards, and 14 features."""
    rng = np.random.default_rng(0)
    seconds = np.sort(rng.integers(0, 28 * 86_400, ROWS)).astype("timedelta64[s]")
    click = rng.random(ROWS) < 0.04
    columns = {
        "item": [f"SKU-{k:03}" for k in rng.integers(0, PRODUCTS, ROWS)],
        "propensity": np.full(ROWS, 1 / PRODUCTS),
        "at": np.datetime_as_string(np.datetime64("2026-03-01T00:00:00") + seconds, timezone="UTC"),
        "customer": [f"c{k}" for k in rng.integers(0, VISITORS, ROWS)],
        "click": click.astype(int),
        "revenue": np.where(click, np.exp(rng.normal(3.0, 0.6, ROWS)), 0.0).round(2),
        "country": rng.choice(["de", "fr", "it", "nl"], ROWS),
        "device": rng.choice(["phone", "tablet", "desktop"], ROWS),
        "campaign": [f"campaign {k}" for k in rng.integers(0, 400, ROWS)],
        "member": rng.choice(["yes", "no"], ROWS),
        "likes": rng.choice(["shoes|bags", "bags", "hats|shoes|coats", "coats"], ROWS),
        "signed_up": np.datetime_as_string(np.datetime64("2020-01-01") + rng.integers(0, 2_000, ROWS)),
    }
    frame = pl.DataFrame(columns)
    numbers = {f"number_{k}": rng.normal(10.0 * k, 5.0, ROWS).round(3) for k in range(8)}
    frame = frame.with_columns(**{name: pl.Series(values) for name, values in numbers.items()})
    is_missing = pl.Series(rng.random(ROWS) < 0.08)
    return frame.with_columns(pl.when(~is_missing).then(pl.col("country")).alias("country"))
