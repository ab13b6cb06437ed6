"""S26: a log of 100,000 rows that each list 500 candidates of 1,000,000 products: its size, and to be judged by it.

`ZOOSIM_LISTED_ROWS` names another number of rows, which are then judged in blocks alone.
"""

import multiprocessing
import os
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from zoosim.core.parquet import write_parquet
from zoosim.core.types import FloatArray
from zoosim.logs.log import Log
from zoosim.logs.schema import SCHEMA_VERSION
from zoosim.logs.stream import stream_log
from zoosim.off_policy import evaluate, read_log, spec_of
from zoosim.policies.registry import find_class

ROWS = int(os.environ.get("ZOOSIM_LISTED_ROWS", "100000"))
PRODUCTS, CANDIDATES, FEATURES = 1_000_000, 500, 8
ROWS_AT_ONCE, TAUGHT = 5_000, 2_000
ESTIMATORS = ("snips", "dr", "dm")


def main() -> None:
    """Print bytes a row, and how long each policy takes and how much memory, in a process of its own."""
    in_memory = "ZOOSIM_LISTED_ROWS" not in os.environ
    with tempfile.TemporaryDirectory() as folder:
        for is_whole in (False, True) if in_memory else (False,):
            path = Path(folder) / "log.parquet"
            size = write_log(path, is_whole)
            what = "the whole distribution" if is_whole else "the propensity of what was shown"
            print(f"S26 {CANDIDATES} of {PRODUCTS:,} candidates a row, with {what}: {size / 1000:.2f} kB", flush=True)
            for policy in ("function", "shared-linucb", *(["column:candidate_propensities"] if is_whole else [])):
                if in_memory:
                    _report(policy, path)
            if not is_whole:
                _report("shared-linucb", path, in_blocks=True)


def _report(policy: str, path: Path, in_blocks: bool = False) -> None:
    """Print what judging a policy takes in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = pool.submit(judge, path, policy, in_blocks).result()
    print(f"S26 {policy}, {ROWS:,} rows{' in blocks' if in_blocks else ''}: {found}", flush=True)


def write_log(
    path: Path, is_whole: bool, rows: int = ROWS, n_products: int = PRODUCTS, n_candidates: int = CANDIDATES
) -> float:
    """Write a log, with the `whole` distribution of each row or not, and its catalogue; return its bytes a row.

    Candidates are a random part of the catalogue, whose lists are the hardest to pack.
    """
    rng = np.random.default_rng(0)
    products = rng.normal(size=(n_products, FEATURES)).round(3)
    digest = "large"
    names = pl.Series(range(n_products)).cast(pl.String)
    table = pl.DataFrame({"product_id": names, "product": pl.Series(products).cast(pl.List(pl.Float64))})
    meta = {"schema_version": SCHEMA_VERSION}
    write_parquet(table, path.parent / f"catalogue-{digest}.parquet", {"catalogue": digest, **meta})
    frames = []
    for start in range(0, rows, ROWS_AT_ONCE):
        m = min(ROWS_AT_ONCE, rows - start)
        candidates = np.stack([rng.choice(n_products, n_candidates, replace=False, shuffle=False) for _ in range(m)])
        candidates = np.sort(candidates, axis=1).astype(np.int32)
        users = rng.normal(size=(m, FEATURES)).round(3)
        scores = np.einsum("ncd,nd->nc", products[candidates], users) / FEATURES
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        places = (chances.cumsum(axis=1) <= rng.random((m, 1))).sum(axis=1).clip(max=n_candidates - 1)
        here = np.arange(m), places
        columns: dict[str, Any] = {
            "decision_id": [f"{number:x}" for number in range(start, start + m)],
            "user": pl.Series(users).cast(pl.List(pl.Float64)),
            "candidates": pl.Series(candidates).cast(pl.List(pl.Int32)),
            "source": ["nearest"] * m,
            "source_version": ["1"] * m,
            "source_propensity": np.full(m, 0.9),
            "action": candidates[here],
            "propensity": chances[here],
            "reward": (rng.random(m) < 0.05 + 0.1 * (scores[here] > 0.0)).astype(float),
            "catalogue": [digest] * m,
        }
        if is_whole:
            columns["candidate_propensities"] = pl.Series(chances.astype(np.float32)).cast(pl.List(pl.Float32))
        frames.append(pl.DataFrame(columns))
    write_parquet(pl.concat(frames), path, {"schema": "record", **meta})
    return path.stat().st_size / rows


def judge(path: Path, name: str, in_blocks: bool = False) -> str:
    """Read a log and judge a policy; say what it earns, in how many seconds and how much memory of this process."""
    began = time.monotonic()
    log = stream_log(path) if in_blocks else read_log(path)
    read = time.monotonic()
    found = evaluate(log, {name: policy_of(log, name)}, estimators=ESTIMATORS)
    ended = time.monotonic()
    values = ", ".join(f"{row.estimator} {row.value:.4f}" for row in found.results)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return f"{values}; read in {read - began:.0f} s, judged in {ended - read:.0f} s, {peak:.2f} GB at most"


def policy_of(log: Log, name: str) -> Any:
    """Return a policy by name, which has learned from the log's first rows, or a function of its rows."""
    if name.startswith("column:"):
        return name
    if name == "function":
        return _by_likeness
    policy = find_class(name)(spec_of(log), np.random.default_rng(0))
    policy.fit(log.rows(np.arange(min(TAUGHT, len(log)))))
    return policy


def _by_likeness(log: Log, start: int, stop: int) -> FloatArray:
    """Return the probabilities of a policy that goes by a product's first feature, of all candidates in the rows."""
    owner, products = log.candidate_lists(start, stop).flat()
    weights = np.exp(log.products[products, 0])
    return np.asarray(weights / np.bincount(owner, weights)[owner])
