"""A log of searches in a shop of own tables, for tests."""

from pathlib import Path

from benchmarks.quality.own_search_shop import write_shop
from zoosim.api.runs import write_log


def write_searches(folder: Path, n: int, *, policy: str = "random-boosts", seed: int = 0) -> Path:
    """Write the tables of a shop and a log of `n` searches; return the log's path."""
    values = write_shop(folder, products=60, queries=12, seed=seed)
    write_log(folder / "log.parquet", n=n, policy=policy, seed=seed, config={"env": values})
    return folder / "log.parquet"
