"""S4, S5 and S22: what the command line costs: --help, a whole gauntlet, and each command on a shop of 50,000 rows."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from benchmarks.quality.retail_shops import schema, write_shop

COMMAND = [sys.executable, "-m", "zoosim"]

ROWS = 50_000

COMMANDS = (
    ("schema", "shop.csv", "--products", "products.csv", "--out", "guessed.yaml"),
    ("import", "shop.csv", "described.yaml", "shop.parquet"),
    ("train", "shop.parquet", "--policy", "mixed-effects", "--out", "mixed.zoosim"),
    ("train", "shop.parquet", "--policy", "adaptive", "--out", "adaptive.zoosim"),
    ("evaluate", "shop.parquet", "--policy", "mixed.zoosim", "--out", "judged"),
    ("fit-world", "shop.parquet", "--out", "world"),
    ("run", "world/shop.world", "--seeds", "2", "--steps", "20000", "--out", "run"),
    ("report", "run"),
    ("describe", "recommendation", "--out", "described"),
    ("log", "log.parquet", "--n", "50000"),
    ("recommend", "shop.parquet", "--seeds", "2", "--out", "recommended"),
)
"""What is timed, in the order of the way through the product; the later use what the earlier have written."""


def help_time() -> None:
    """Print the processor time of `zoosim --help`, the median of 5 calls."""
    times = []
    for _ in range(5):
        before = _children()
        subprocess.run([*COMMAND, "--help"], check=True, capture_output=True)
        times.append(_children() - before)
    print(f"S4 zoosim --help: {sorted(times)[2]:.2f} s of processor time")


def whole_run() -> None:
    """Print wall time and the largest process of `zoosim run gauntlet`, with an empty cache and again."""
    with tempfile.TemporaryDirectory() as folder:
        for label in ("first, all compiled and trained", "again"):
            began = time.monotonic()
            arguments = ["run", "gauntlet", "--seeds", "10", "--out", f"{folder}/{label[:5]}"]
            environment = {**os.environ, "ZOOSIM_CACHE": f"{folder}/cache"}
            subprocess.run([*COMMAND, *arguments], check=True, capture_output=True, env=environment)
            print(f"S5 zoosim run gauntlet, 10 seeds, all policies ({label}): {time.monotonic() - began:.1f} s")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(f"S5 zoosim run gauntlet: largest process {peak / 1e6:,.0f} MB")


def each_command(rows: int = ROWS, seed: int = 1000) -> None:
    """Print how long each command takes on a shop of so many rows: nothing is compiled before the first one that is."""
    with tempfile.TemporaryDirectory() as folder:
        print(f"drawing a shop of {rows:,} rows", file=sys.stderr)
        write_shop(Path(folder), seed, visits=rows)
        (Path(folder) / "described.yaml").write_text(yaml.safe_dump(schema(Path(folder))), encoding="utf-8")
        for arguments in COMMANDS:
            print(f"zoosim {' '.join(arguments)}", file=sys.stderr)
            began = time.monotonic()
            before = _children()
            subprocess.run([*COMMAND, *arguments], check=True, capture_output=True, cwd=folder)
            took = f"{time.monotonic() - began:.1f} s, {_children() - before:.1f} s of processor time"
            print(f"S22 zoosim {' '.join(arguments)}: {took}", flush=True)


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
