"""S36: a log that is larger than memory: judged in blocks, beside what engines for tables take for the sums alone.

The engines are polars, and DuckDB and Daft where they are installed (`pip install '.[peers]'`).

The log has a time, a user, a product, its propensity, a click and a target's probability per row, three rows per user,
and is written by row groups of 1,000,000 rows. Each size is judged by a process of its own that does nothing else. A
small log is judged in memory, too, and must come out the same to the bit. `ZOOSIM_STREAMED_ROWS` names other sizes.

Memory is the most that was resident of a process, with what is mapped from files.
"""

import importlib.util
import multiprocessing
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

import zoosim

SIZES = tuple(map(int, os.environ.get("ZOOSIM_STREAMED_ROWS", "5000000,20000000").split(",")))
SAME, GROUP, ACTIONS = 300_000, 1_000_000, 80
ROWS_PER_USER = 3
START = 1_700_000_000_000_000

SCHEMA: dict[str, Any] = {
    "time": pl.Datetime("us", "UTC"),
    "user_id": pl.Int64,
    "action": pl.Int32,
    "propensity": pl.Float64,
    "reward": pl.Float64,
    "target": pl.Float64,
}


def main() -> None:
    """Print whether results are the same, then time and memory of each size, and how both grow."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small = _written(folder, SAME)
        streamed, in_memory = (_summary(small, stream) for stream in (True, False))
        assert streamed == in_memory
        print(f"S36 {SAME:,} rows: the same in blocks and in memory, to the bit", flush=True)
        by_size = {}
        for n_rows in SIZES:
            path = _written(folder, n_rows)
            size = path.stat().st_size / 1e9
            for what, work in {"zoosim": _judge, **_sums_by_engine()}.items():
                cpu, seconds, gigabytes = _alone(work, path)
                by_size[what, n_rows] = (cpu, gigabytes)
                took = f"{cpu:.1f} s of processor time ({seconds:.1f} s), at most {gigabytes:.2f} GB resident"
                print(f"S36 {n_rows:,} rows, {size:.2f} GB, {what}: {took}", flush=True)
            path.unlink()
        if len(SIZES) > 1:
            (cpu, memory), (more_cpu, more_memory) = (by_size["zoosim", n_rows] for n_rows in SIZES[:2])
            millions = (SIZES[1] - SIZES[0]) / 1e6
            slope = (more_cpu - cpu) / millions
            print(
                f"S36 per further 1,000,000 rows: {slope:.2f} s of processor time, "
                f"{1000.0 * (more_memory - memory) / millions:.1f} MB resident"
            )


def _alone(work: Callable[[Path], object], path: Path) -> tuple[float, float, float]:
    """Return processor time, seconds, and the largest resident memory in GB of a process that does no more."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measured, work, path).result()


def _measured(work: Callable[[Path], object], path: Path) -> tuple[float, float, float]:
    began, began_cpu = time.perf_counter(), time.process_time()
    work(path)
    seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    return cpu, seconds, _peak_gigabytes()


def _peak_gigabytes() -> float:
    """Return what the system says was resident of this process at most."""
    # Not `ru_maxrss`, which holds what the process was before it became another program.
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 / 1e9


def _judge(path: Path) -> object:
    return _summary(path, True)


def _summary(path: Path, stream: bool) -> object:
    return zoosim.evaluate(path, ["column:target"], stream=stream, progress=None).summary


def _sums_by_engine() -> dict[str, Callable[[Path], object]]:
    """Return what adds weighted rewards and weights up by groups of users, which is what IPS and SNIPS rest on."""
    engines = {"polars": _sums_by_polars, "duckdb": _sums_by_duckdb, "daft": _sums_by_daft}
    return {
        f"{name}, sums by user alone": sums
        for name, sums in engines.items()
        if importlib.util.find_spec(name) is not None
    }


def _sums_by_polars(path: Path) -> object:
    weight = pl.col("target") / pl.col("propensity")
    by_group = pl.scan_parquet(path).group_by(pl.col("user_id") % 20_000)
    sums = (pl.len(), weight.sum().alias("weights"), (weight * pl.col("reward")).sum().alias("weighted"))
    return by_group.agg(sums).collect(engine="streaming")


def _sums_by_duckdb(path: Path) -> object:
    import duckdb

    weight = "target / propensity"
    sums = f"count(*), sum({weight}), sum({weight} * reward)"
    return duckdb.sql(f"SELECT user_id % 20000 AS block, {sums} FROM '{path}' GROUP BY block").fetchnumpy()


def _sums_by_daft(path: Path) -> object:
    import daft

    weight = daft.col("target") / daft.col("propensity")
    columns = daft.read_parquet(str(path)).select(
        (daft.col("user_id") % 20_000).alias("block"),
        weight.alias("weight"),
        (weight * daft.col("reward")).alias("weighted"),
    )
    sums = (daft.col("weight").count(), daft.col("weight").sum().alias("weights"), daft.col("weighted").sum())
    return columns.groupby("block").agg(*sums).collect()


def _written(folder: Path, n_rows: int) -> Path:
    """Write a log of so many rows, of which one group is in memory at a time."""
    path = folder / f"{n_rows}.parquet"

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, limit: int | None, batch: int | None
    ) -> Iterator[pl.DataFrame]:
        for start in range(0, n_rows, GROUP):
            frame = _group(start, min(GROUP, n_rows - start))
            yield frame if columns is None else frame.select(columns)

    register_io_source(read, schema=SCHEMA).sink_parquet(path, row_group_size=GROUP)
    return path


def _group(start: int, n: int) -> pl.DataFrame:
    """Return rows from `start` on."""
    rng = np.random.default_rng([0, start])
    users = (start + np.arange(n)) // ROWS_PER_USER * 2_654_435_761 % 2**40
    laws = np.random.default_rng(0).dirichlet(np.ones(ACTIONS), size=2)
    logging = 0.5 * laws[0] + 0.5 / ACTIONS
    actions = rng.choice(ACTIONS, size=n, p=logging).astype(np.int32)
    columns = {
        "time": pl.Series(START + 1_000 * (start + np.arange(n))).cast(SCHEMA["time"]),
        "user_id": users,
        "action": actions,
        "propensity": logging[actions],
        "reward": (rng.random(n) < 0.05 + 0.05 * (actions % 7 == 0)).astype(np.float64),
        "target": laws[1][actions],
    }
    return pl.DataFrame(columns, schema=SCHEMA)
