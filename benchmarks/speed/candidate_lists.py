"""S18: read 1,000,000 visits, each with 50 of 10,000 products to choose from: Records, and a service's folder."""

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl

import zoosim
from zoosim.core.types import IntArray
from zoosim.logs.log import Log
from zoosim.logs.parse import read_log
from zoosim.serving.events import Kind, NewRow, ProductDecision, Start, decision_key, pack, pack_floats, pack_whole
from zoosim.serving.folder import MODELS
from zoosim.serving.rules import Rules
from zoosim.serving.served_log import read_served_log
from zoosim.serving.store.address import LOG
from zoosim.serving.store.sqlite import SqliteStore

ROWS, PRODUCTS, CANDIDATES, FEATURES = 1_000_000, 10_000, 50, 10
ROWS_AT_ONCE = 10_000
SECOND = 1_000_000


def main() -> None:
    """Print how long each takes, and the most memory of its process."""
    with tempfile.TemporaryDirectory() as folder:
        records, service = Path(folder) / "log.parquet", Path(folder) / "service"
        write_records(records, ROWS)
        print(f"S18 Records, {size_of(records):.0f} MB: {reading(read_log, records)}", flush=True)
        write_service(service, ROWS)
        print(f"S18 folder of a service, {size_of(service / LOG):.0f} MB: {reading(read_service, service)}", flush=True)


def reading(read: Callable[[Path], Log], path: Path) -> str:
    """Read a log in a process of its own; say how it went."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        rows, sets, seconds, peak = pool.submit(measure, read, path).result()
    return f"{rows:,} visits, {sets:,} sets of candidates, {seconds:.1f} s, {peak:.2f} GB at most"


def measure(read: Callable[[Path], Log], path: Path) -> tuple[int, int, float, float]:
    """Return visits, different sets, seconds, and the largest resident set of this process in GB."""
    began = time.monotonic()
    log = read(path)
    seconds = time.monotonic() - began
    return len(log), len(log.candidates), seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def read_service(folder: Path) -> Log:
    """Return the log of a service."""
    return read_served_log(folder).log


def size_of(path: Path) -> float:
    """Return the size of a file in MB."""
    return path.stat().st_size / 1e6


def draw_candidates(rng: np.random.Generator, rows: int) -> IntArray:
    """Return different products `(rows, CANDIDATES)`."""
    width = PRODUCTS // CANDIDATES
    return rng.integers(width, size=(rows, CANDIDATES)) + width * np.arange(CANDIDATES)


def write_records(path: Path, rows: int) -> None:
    """Write a log of uniform choices."""
    rng = np.random.default_rng(0)
    candidates = draw_candidates(rng, rows)
    columns = {
        "candidates": pl.Series(candidates.astype(np.int32)).arr.to_list(),
        "action": candidates[np.arange(rows), rng.integers(CANDIDATES, size=rows)],
        "propensity": np.full(rows, 1 / CANDIDATES),
        "reward": (rng.random(rows) < 0.1).astype(float),
        "user": pl.Series(rng.normal(size=(rows, FEATURES))).arr.to_list(),
    }
    pl.DataFrame(columns).write_parquet(path)


def write_service(folder: Path, rows: int) -> None:
    """Write the log that a service would write of uniform choices, a thousand decisions a second."""
    (folder / MODELS).mkdir(parents=True)
    write_model(folder / MODELS / "m1.zoosim")
    rng = np.random.default_rng(0)
    store = SqliteStore(folder / LOG)
    store.append([NewRow(0, Kind.START, None, pack(Start("m1", Rules().model_dump_json().encode())))])
    uniform = pack_floats(np.full(CANDIDATES, 1 / CANDIDATES))
    for start in range(0, rows, ROWS_AT_ONCE):
        count = min(ROWS_AT_ONCE, rows - start)
        candidates = draw_candidates(rng, count)
        visitors = rng.normal(size=(count, FEATURES))
        shown = rng.integers(CANDIDATES, size=count).tolist()
        batch = []
        for i in range(count):
            decision = ProductDecision(
                request=bytes(16),
                model="m1",
                state=0,
                visitor_id=f"visitor {(start + i) // 3}",
                visitor=pack_floats(visitors[i]),
                versions=pack_whole(-1 - candidates[i]),
                propensities=uniform,
                shown=[shown[i]],
                chances=[1 / CANDIDATES],
                deferred=False,
            )
            at = (start + i) * SECOND // 1_000
            batch.append(NewRow(at, Kind.DECISION, decision_key(f"decision {start + i}"), pack(decision)))
        store.append(batch)
    store.append([NewRow(rows * SECOND, Kind.TICK, None, b"")])
    store.close()


def write_model(path: Path) -> None:
    """Train a policy on a small log of all products, and save it."""
    rng = np.random.default_rng(1)
    rows = 2_000
    features = {f"x{k}": rng.normal(size=rows) for k in range(FEATURES)}
    items = [f"p{number}" for number in range(PRODUCTS)]
    table = pl.DataFrame({"item": rng.choice(items, rows), "click": (rng.random(rows) < 0.1).astype(int), **features})
    schema = {
        "columns": {"action": "item"},
        "rewards": {"click": "click"},
        "features": dict.fromkeys(features, "number"),
        "actions": items,
    }
    with tempfile.TemporaryDirectory() as folder:
        zoosim.import_log(table, schema, f"{folder}/log.parquet")
        zoosim.train(f"{folder}/log.parquet", ["greedy"], path)
