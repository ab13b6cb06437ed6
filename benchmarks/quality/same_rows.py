"""Q5: does this version decide as an older one? Each policy's rows, visit by visit, and what it reached.

Set `ZOOSIM_BEFORE` to a checkout of the older version; both run with this interpreter, over the same seeds.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

SEEDS = "1000:1004"
EXPERIMENTS = ("gauntlet", "template-bandits")


def main() -> None:
    """Print for each policy the share of equal actions, and the % of oracle before and now."""
    before = os.environ.get("ZOOSIM_BEFORE")
    if not before:
        print("Q5 same rows: set ZOOSIM_BEFORE to a checkout of an older version")
        return
    here = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory() as folder:
        for experiment in EXPERIMENTS:
            old, new = (
                _rows(Path(checkout), experiment, Path(folder) / f"{experiment}-{age}")
                for checkout, age in ((before, "before"), (here, "now"))
            )
            for (policy,), theirs in old.group_by("policy", maintain_order=True):
                _compare(experiment, str(policy), theirs, new.filter(pl.col("policy") == policy))


def _rows(checkout: Path, experiment: str, out: Path) -> pl.DataFrame:
    """Run an experiment with the package of a checkout, and return its rows."""
    command = [sys.executable, "-m", "zoosim", "run", experiment, "--seeds", SEEDS, "--out", str(out)]
    subprocess.run(command, cwd=checkout, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return pl.read_parquet(out / "rows.parquet")


def _compare(experiment: str, policy: str, old: pl.DataFrame, new: pl.DataFrame) -> None:
    if not len(new):
        print(f"Q5 {experiment}: {policy}: not there any more")
        return
    equal = float((old["action"].to_numpy() == new["action"].to_numpy()).mean())
    reached = [
        100 * rows["true_probability"].to_numpy().sum() / rows["best_probability"].to_numpy().sum()
        for rows in (old, new)
    ]
    same = "all rows equal" if equal == 1.0 else f"{100 * equal:.1f}% of actions equal"
    print(f"Q5 {experiment}: {policy}: {same}; % of oracle {reached[0]:.2f} before, {reached[1]:.2f} now")
