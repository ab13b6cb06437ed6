"""Q5: does this version decide as an older one? Each policy's rows, visit by visit, and what it reached.

Set `ZOOSIM_BEFORE` to a checkout of the older version; both run with this interpreter, over the same seeds. The
difference is paired by seed, in points of % of oracle, with its 95% interval. `ZOOSIM_EXPERIMENTS` chooses others,
`ZOOSIM_OPTIONS`, such as "--policies mlp --seeds 1000:1032", changes the runs, and `ZOOSIM_RUNS` names a folder where
they are kept and go on.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

from zoosim.core.statistics import mean_interval
from zoosim.core.types import FloatArray

SEEDS = "1000:1004"
EXPERIMENTS = "gauntlet,template-bandits"


def main() -> None:
    """Print for each policy the share of equal actions, and the % of oracle before and now."""
    before = os.environ.get("ZOOSIM_BEFORE")
    if not before:
        print("Q5 same rows: set ZOOSIM_BEFORE to a checkout of an older version")
        return
    here = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(os.environ.get("ZOOSIM_RUNS", temporary)).absolute()
        for experiment in os.environ.get("ZOOSIM_EXPERIMENTS", EXPERIMENTS).split(","):
            old, new = (
                _rows(Path(checkout), experiment, folder / f"{experiment}-{age}")
                for checkout, age in ((before, "before"), (here, "now"))
            )
            for (policy,), theirs in old.group_by("policy", maintain_order=True):
                _compare(experiment, str(policy), theirs, new.filter(pl.col("policy") == policy))


def _rows(checkout: Path, experiment: str, out: Path) -> pl.DataFrame:
    """Run an experiment with the package of a checkout, and return its rows."""
    command = [sys.executable, "-m", "zoosim", "run", experiment, "--seeds", SEEDS, "--out", str(out)]
    command += shlex.split(os.environ.get("ZOOSIM_OPTIONS", ""))
    subprocess.run(command, cwd=checkout, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return pl.read_parquet(out / "rows.parquet")


def _compare(experiment: str, policy: str, old: pl.DataFrame, new: pl.DataFrame) -> None:
    if not len(new):
        print(f"Q5 {experiment}: {policy}: not there any more")
        return
    equal = float((old["action"].to_numpy() == new["action"].to_numpy()).mean())
    before, now = (_reached(rows) for rows in (old, new))
    same = "all rows equal" if equal == 1.0 else f"{100 * equal:.1f}% of actions equal"
    difference, low, high = mean_interval(now - before)
    interval = "" if low is None else f" ({low:+.2f} to {high:+.2f})"
    print(
        f"Q5 {experiment}: {policy}: {same}; % of oracle {before.mean():.2f} before, {now.mean():.2f} now, "
        f"{difference:+.2f}{interval} over {len(now)} seeds"
    )


def _reached(rows: pl.DataFrame) -> FloatArray:
    """Return what a policy reached of the oracle's clicks with each seed, in %."""
    share = pl.col("true_probability").sum() / pl.col("best_probability").sum()
    return rows.group_by("seed").agg(100.0 * share).sort("seed").to_numpy()[:, 1]
