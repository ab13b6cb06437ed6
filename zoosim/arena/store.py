"""A run's folder: finished (policy, seed) trials, each written at once and whole, so that any run can go on.

config.yaml   the resolved configuration, readable by --config
cells/        POLICY/SEED.parquet, with what made it in the file's metadata
rows.parquet  all trials, sorted by policy, seed, step
log/          POLICY/SEED.parquet Records, when asked for
summary.json, report.html
"""

import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import yaml
from pydantic import BaseModel, FiniteFloat

from zoosim.arena.metrics import Rows
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.files import atomic, check_writable, write_text
from zoosim.core.parquet import read_meta, write_parquet

PART = 64
"""Trials that are put together at a time."""

OURS = {"config.yaml", "cells", "rows.parquet", "rows.csv", "log", "summary.json", "report.html"}


ROWS = {
    "seed": pl.Int64,
    "step": pl.Int32,
    "policy": pl.String,
    "action": pl.Int32,
    "reward": pl.Float64,
    "true_probability": pl.Float64,
    "best_probability": pl.Float64,
}
"""The columns of rows.parquet; those of a search shop have what a reward is made of, too."""


FIGURES = ["reward", "true_probability", "best_probability"]
"""The columns that figures are computed from."""

BOOSTS = "boosts"
"""The column of boosts (list of float), in the rows of policies that choose them; it is there if any does."""


SEED = re.compile(r"[0-9]{1,10}")
"""The name of a trial's file, without its suffix."""


class TrialKey(NamedTuple):
    """Which trial: a policy's name and a seed."""

    policy: str
    seed: int


class RunFolder:
    """Read and write the folder of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def trial_path(self, key: TrialKey) -> Path:
        """Say where a trial lies."""
        return self.path / "cells" / key.policy / f"{key.seed}.parquet"

    def log_path(self, key: TrialKey) -> Path:
        """Say where a trial's Records lie."""
        return self.path / "log" / key.policy / f"{key.seed}.parquet"

    def trials(self) -> list[TrialKey]:
        """List the finished trials, sorted."""
        files = (self.path / "cells").glob("*/*.parquet")
        return sorted(TrialKey(path.parent.name, int(path.stem)) for path in files if SEED.fullmatch(path.stem))

    def check(self) -> None:
        """Refuse a folder that holds foreign files or a truncated file, or that cannot be written."""
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"--out: {self.path} is a file, expected a folder")
        if not self.path.exists():
            check_writable(next(parent for parent in self.path.absolute().parents if parent.exists()))
            return
        check_writable(self.path)
        held = {item.name for item in self.path.iterdir() if not item.name.startswith(".")}
        if held - OURS:
            raise ConfigError(f"--out: {self.path} holds {min(held - OURS)}, not a run; name an empty or a new folder")
        if held:
            self.read_config()
        for pattern in ("cells/*/*.parquet", "log/*/*.parquet", "rows.parquet"):
            for path in self.path.glob(pattern):
                read_meta(path)
        self.old_summary()

    def read_config(self) -> dict[str, Any]:
        """Read config.yaml; raises `ConfigError` when it is missing or broken."""
        path = self.path / "config.yaml"
        try:
            values = yaml.safe_load(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigError(f"{self.path} holds no config.yaml; give the folder of a run") from None
        except (OSError, ValueError, RecursionError, yaml.YAMLError):
            values = None
        names = _policy_names(values)
        if names is None or not {key.policy for key in self.trials()} <= names:
            raise ConfigError(f"{path} is damaged or truncated; delete the folder or name another")
        return dict(values)

    def write_config(self, values: Mapping[str, Any]) -> None:
        """Write config.yaml."""
        self.path.mkdir(parents=True, exist_ok=True)
        head = f"# zoosim run {values['experiment']} --config config.yaml\n"
        write_text(self.path / "config.yaml", head + yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True))

    def old_summary(self) -> dict[str, Any]:
        """Read summary.json, empty when there is none; raises `ConfigError` when it is damaged."""
        path = self.path / "summary.json"
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            _Summary.model_validate(values)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError):  # a ValidationError is a ValueError
            raise ConfigError(f"{path} is damaged or truncated; delete it and run again") from None
        return dict(values)

    def write_trial(self, key: TrialKey, columns: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
        """Write a finished trial, whole or not at all; of a column `(n, d)` each row is a list."""
        frame = pl.DataFrame({name: column.tolist() if column.ndim > 1 else column for name, column in columns.items()})
        write_parquet(frame, self.trial_path(key), meta)

    def read_trial(self, key: TrialKey) -> Rows:
        """Read the figures of a trial."""
        frame = self._frame(key)
        return Rows(*(frame[name].to_numpy() for name in FIGURES))

    def read_parts(self, key: TrialKey) -> dict[str, np.ndarray]:
        """Read what the rewards of a trial are made of, empty where they are clicks."""
        frame = self._frame(key)
        return {name: frame[name].to_numpy() for name in frame.columns if name not in (*ROWS, BOOSTS)}

    def _frame(self, key: TrialKey) -> pl.DataFrame:
        """Read the rows of a trial; raises `DataError` for a file that is damaged or not ours."""
        path = self.trial_path(key)
        try:
            frame = pl.read_parquet(path)
            numbers = frame.select(pl.col(FIGURES).cast(pl.Float64).is_finite().all())
            types = all(frame[name].dtype == pl.Float64 for name in FIGURES)
            whole = types and all(numbers.row(0)) and not any(frame[name].null_count() for name in FIGURES)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError):
            whole = False
        if not whole:
            raise DataError(f"{path} is damaged or truncated; delete it and run again")
        return frame

    def write_rows(self, keys: Iterable[TrialKey]) -> None:
        """Put the trials together into rows.parquet, sorted by policy, seed and step, without holding them all.

        An older rows.csv goes, since it would be of other rows.
        """
        frames = [
            pl.scan_parquet(self.trial_path(key)).select(
                pl.lit(key.seed, pl.Int64).alias("seed"),
                pl.int_range(pl.len(), dtype=pl.Int32).alias("step"),
                pl.lit(key.policy).alias("policy"),
                pl.all(),
            )
            for key in sorted(keys)
        ]
        with atomic(self.path / "rows.parquet") as temporary:
            _write_all(frames or [pl.LazyFrame(schema=ROWS)], temporary)
        (self.path / "rows.csv").unlink(missing_ok=True)

    def write_csv(self) -> None:
        """Write rows.csv from rows.parquet."""
        with atomic(self.path / "rows.csv") as temporary:
            rows = pl.scan_parquet(self.path / "rows.parquet")
            if BOOSTS in rows.collect_schema():
                rows = rows.with_columns(pl.col(BOOSTS).cast(pl.List(pl.String)).list.join(" "))
            rows.sink_csv(temporary, maintain_order=True)

    def drop_trials(self, policy: str) -> None:
        """Remove the trials and the log of a policy whose code has changed."""
        for name in ("cells", "log"):
            shutil.rmtree(self.path / name / policy, ignore_errors=True)


def _write_all(frames: list[pl.LazyFrame], path: Path) -> None:
    """Write frames one below the other, by way of part files where there are many: polars hangs on a thousand files."""
    if len(frames) <= PART:
        # Of policies that choose boosts the column `action` is empty, of others the column of boosts.
        pl.concat(frames, how="diagonal").sink_parquet(path, maintain_order=True)
        return
    with tempfile.TemporaryDirectory(prefix=".rows.", suffix=".parts", dir=path.parent) as folder:
        parts = [Path(folder) / f"{start}.parquet" for start in range(0, len(frames), PART)]
        for number, part in enumerate(parts):
            _write_all(frames[number * PART : (number + 1) * PART], part)
        _write_all([pl.scan_parquet(part) for part in parts], path)


def _policy_names(config: Any) -> set[str] | None:
    """Return the policies that a config.yaml lists, None when it is not whole."""
    whole = isinstance(config, dict) and {"experiment", "config_hash", "env", "run", "policies"} <= set(config)
    if not whole or not isinstance(config["policies"], list) or not isinstance(config["run"], dict):
        return None
    seeds = config["run"].get("seeds")
    if not isinstance(seeds, list) or not all(isinstance(seed, int) for seed in seeds):
        return None
    return {str(item.get("name")) for item in config["policies"] if isinstance(item, dict)}


class _Failure(BaseModel, strict=True):
    """What is read again of a failure in summary.json."""

    seed: int
    step: int
    error: str
    place: str


class _PolicyFigures(BaseModel, strict=True):
    """What is read again of a policy in summary.json."""

    failed: list[_Failure]


class _Summary(BaseModel, strict=True):
    """What is read again of summary.json: its time and its failures."""

    wall_seconds: FiniteFloat
    policies: dict[str, _PolicyFigures]
