"""What policies reach in drawn shops and on labelled tables: one figure per seed, and what a visit costs."""

import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median_low
from typing import Any, NamedTuple

import polars as pl
from sklearn.datasets import make_moons

import zoosim
from benchmarks.peers.rivals import RIVALS, entries
from zoosim.arena.store import RunFolder, TrialKey
from zoosim.arena.time_left import TrialEvent
from zoosim.core.parquet import read_meta

TAIL = 0.2
"""Share of a table's visits, the last, whose accuracy counts."""

MOONS, MOONS_NOISE = 2_000, 0.2
"""Rows of the two moons, and the standard deviation of what is added to each coordinate."""


class Contest(NamedTuple):
    """What each policy reached, by name and seed, the milliseconds of a visit, by name, and the least that is possible.

    The most is 1.
    """

    title: str
    reached: dict[str, dict[int, float]]
    milliseconds: dict[str, float]
    least: float = -math.inf


class Options(NamedTuple):
    """How a contest is run: who competes, in how many processes, and the folder that keeps and resumes it."""

    names: list[str]
    tune: bool
    jobs: int
    folder: Path


def in_shops(options: Options, seeds: Sequence[int], steps: int | None) -> Contest:
    """Return the share of the way from random choices to the oracle that policies come in the experiment `shops`."""
    names = [name for name in options.names if RIVALS[name].takes_amounts]
    left_out = [name for name in options.names if name not in names]
    if left_out:
        print(f"shops: {', '.join(left_out)} learn from rewards of 0 to 1 alone; left out", file=sys.stderr)
    path = _run("shops", options._replace(names=names), seeds, steps, [])
    sums = _rows(path).group_by("policy", "seed").agg(pl.col("true_probability", "best_probability").sum()).collect()
    random = {row["seed"]: row["true_probability"] for row in sums.filter(pl.col("policy") == "random").to_dicts()}
    reached: dict[str, dict[int, float]] = {}
    for row in sums.sort("policy", "seed").to_dicts():
        start = random[row["seed"]]
        share = (row["true_probability"] - start) / (row["best_probability"] - start)
        reached.setdefault(row["policy"], {})[row["seed"]] = share
    return Contest("shops", reached, _milliseconds(path))


def on_table(options: Options, title: str, table: list[str], seeds: Sequence[int]) -> Contest:
    """Return the accuracy in the last fifth of the visits to a table; `table` holds the settings that name it."""
    path = _run(f"labelled {title}", options, seeds, None, table)
    rows = _rows(path)
    n_visits = rows.select(pl.col("step").max()).collect().item() + 1
    tail = rows.filter(pl.col("step") >= n_visits - round(TAIL * n_visits))
    means = tail.group_by("policy", "seed").agg(pl.col("reward").mean()).sort("policy", "seed").collect()
    reached: dict[str, dict[int, float]] = {}
    for row in means.to_dicts():
        reached.setdefault(row["policy"], {})[row["seed"]] = row["reward"]
    return Contest(title, reached, _milliseconds(path), least=0.0)


def find_tables(folder: Path, labels: Sequence[str], made: Path) -> dict[str, list[str]]:
    """Return the settings of each table by its title: the digits, two moons, and those of a folder with a label.

    Args:
        folder: Where CSV and Parquet files are.
        labels: What the column with the classes may be called; files without one are left out, and told.
        made: Where the two moons are written to.
    """
    tables = {"digits": list[str](), "two moons": _table(_two_moons(made), "label")}
    for file in sorted([*folder.glob("*.parquet"), *folder.glob("*.csv")]):
        scan = pl.scan_parquet if file.suffix == ".parquet" else pl.scan_csv
        columns = scan(file).collect_schema().names()
        label = next((name for name in labels if name in columns), None)
        if label is None:
            print(f"{file.name}: no column {' or '.join(labels)}; left out", file=sys.stderr)
        else:
            tables[file.stem] = _table(file, label)
    return tables


def _table(file: Path, label: str) -> list[str]:
    return [f"env.data='{file}'", f"env.label='{label}'"]


def _two_moons(folder: Path) -> Path:
    """Write two half circles that no line tells apart, and return the file."""
    points, classes = make_moons(MOONS, noise=MOONS_NOISE, random_state=0)
    file = folder / "two-moons.csv"
    pl.DataFrame({"x": points[:, 0], "y": points[:, 1], "label": classes}).write_csv(file)
    return file


def _run(title: str, options: Options, seeds: Sequence[int], steps: int | None, changes: list[str]) -> Path:
    """Run what the folder lacks of a contest, and return where it is; exits where a policy fails."""
    path = options.folder / title.replace(" ", "-")
    config = {"policies": entries(options.names, tune=options.tune)}
    began = time.monotonic()

    def report(key: TrialKey, visits: int, line: str) -> None:
        if line == TrialEvent.SAVED:
            print(f"{title}: {key.policy}, seed {key.seed}, {time.monotonic() - began:.0f} s", file=sys.stderr)

    result = zoosim.run(
        title.partition(" ")[0],
        config=config,
        seeds=list(seeds),
        steps=steps,
        settings=changes,
        jobs=options.jobs,
        out=path,
        report=report,
    )
    if result.failures:
        sys.exit("\n".join(str(failure) for failure in result.failures))
    return path


def _rows(path: Path) -> pl.LazyFrame:
    return pl.scan_parquet(path / "rows.parquet")


def _milliseconds(path: Path) -> dict[str, float]:
    """Return what a visit of each policy takes, the world and learning included: the median over seeds."""
    store = RunFolder(path)
    times: dict[str, list[float]] = {}
    for key in store.trials():
        file = store.trial_path(key)
        n_visits: Any = pl.scan_parquet(file).select(pl.len()).collect().item()
        times.setdefault(key.policy, []).append(1_000 * read_meta(file)["seconds"] / n_visits)
    return {name: median_low(values) for name, values in times.items()}
