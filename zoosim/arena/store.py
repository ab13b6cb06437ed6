"""A run's folder: finished (policy, seed) trials, each written at once and whole, so that any run can go on.

config.yaml   the resolved configuration, readable by --config
cells/        POLICY/SEED.parquet, with what made it in the file's metadata
rows.parquet  all trials, sorted by policy, seed, step
log/          POLICY/SEED.parquet Records, when asked for
damaged/      what `zoosim run` found damaged, and computed again
summary.json, report.html

Configuration, trials, rows and summary are sealed. Those of older releases are not: a folder that such a release began
lists its trials in config.yaml when it goes on, so that no other may lack a seal.
"""

import itertools
import json
import re
import shutil
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import yaml
from pydantic import BaseModel, FiniteFloat

from zoosim.arena.metrics import Rows
from zoosim.core.errors import ConfigError, DataError, printable
from zoosim.core.files import atomic, check_writable, read_content, remove_leftovers, temporary_folder, write_text
from zoosim.core.parameters import shown
from zoosim.core.parquet import UNREADABLE, decode_parquet, naming_full_disks, read_meta, write_parquet
from zoosim.core.seal import BLANK, KEY, SealState, file_seal_state, seal_file, seal_state, sealed
from zoosim.core.yaml_text import parse_yaml, write_yaml
from zoosim.logs.schema import LIFE

PART = 64
"""Trials that are put together at a time."""

OURS = {"config.yaml", "cells", "rows.parquet", "rows.csv", "log", "damaged", "summary.json", "report.html"}

OLDER = "older_trials"
"""The key of config.yaml that lists the trials without a seal, as POLICY/SEED."""

DAMAGED = "is damaged or truncated"

ROWS = {
    "seed": pl.Int64,
    "step": pl.Int32,
    "policy": pl.String,
    "action": pl.Int32,
    "reward": pl.Float64,
    "true_probability": pl.Float64,
    "best_probability": pl.Float64,
    "visitor": pl.Int32,
    "visit": pl.Int32,
    "ended": pl.Boolean,
    "censored": pl.Boolean,
}
"""The columns of rows.parquet; those of a search shop have what a reward is made of, too.

Where visitors come back, `step` counts a visitor's decisions, else the visits of the run.
"""

FIGURES = ["reward", "true_probability", "best_probability"]
"""The columns that figures are computed from."""

BOOSTS = "boosts"
"""The column of boosts (list of float), in the rows of policies that choose them; it is there if any does."""


SEED = re.compile(r"[0-9]{1,10}")
"""The name of a trial's file, without its suffix."""


class TrialKey(NamedTuple):
    """The key of a trial: a policy's name and a seed."""

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
        """Refuse a folder of foreign files, one whose config.yaml is damaged, and one that cannot be written."""
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"--out: {self.path} is a file, expected a folder")
        if not self.path.exists():
            check_writable(next(parent for parent in self.path.absolute().parents if parent.exists()))
            return
        check_writable(self.path)
        held = {item.name for item in self.path.iterdir() if not item.name.startswith(".")}
        if "config.yaml" not in held and held - OURS:
            raise ConfigError(f"--out: {self.path} holds {min(held - OURS)}, not a run; name an empty or a new folder")
        if held:
            self.read_config()

    def read_config(self) -> dict[str, Any]:
        """Read config.yaml; raises `ConfigError` when it is missing or broken.

        Of a folder that an older release made, without a seal, `OLDER` lists all trials.
        """
        path = self.path / "config.yaml"
        damaged = ConfigError(f"{path} {DAMAGED}; delete the folder or name another")
        try:
            content = read_content(path)
            state = seal_state(content)
            values: Any = None if state == SealState.BROKEN else parse_yaml(content.decode())
        except FileNotFoundError:
            raise ConfigError(f"{self.path} holds no config.yaml; give the folder of a run") from None
        except (OSError, ValueError, RecursionError, yaml.YAMLError):
            raise damaged from None
        if not _is_config(values) or (state == SealState.NONE and KEY in values):
            raise damaged
        values.pop(KEY, None)
        if state == SealState.NONE:
            values[OLDER] = self._unsealed(self.trials())
            if len(values[OLDER]) < len(self.trials()):  # a release that seals trials had sealed this, too
                raise damaged
        return dict(values)

    def _unsealed(self, keys: Iterable[TrialKey]) -> list[str]:
        """List the trials without a seal, as POLICY/SEED."""
        return [_label(key) for key in keys if _file_seal(self.trial_path(key)) == SealState.NONE]

    def write_config(self, values: Mapping[str, Any]) -> None:
        """Write config.yaml, with its seal in front: a file that was cut short still says that it had one."""
        self.path.mkdir(parents=True, exist_ok=True)
        head = printable(f"# zoosim run {values['experiment']} --config config.yaml")
        text = head + "\n" + write_yaml({KEY: BLANK, **values})
        write_text(self.path / "config.yaml", sealed(text.encode()).decode())
        self.__dict__.pop("_config", None)

    @cached_property
    def _config(self) -> dict[str, Any] | None:
        """Return the content of config.yaml; None where there is none."""
        return self.read_config() if (self.path / "config.yaml").exists() else None

    def old_summary(self) -> dict[str, Any]:
        """Read summary.json, empty when there is none; raises `ConfigError` when it is damaged, or of another run."""
        path = self.path / "summary.json"
        damaged = ConfigError(f"{path} {DAMAGED}; delete it and run again")
        try:
            content = read_content(path)
            state = seal_state(content)
            values: Any = None if state == SealState.BROKEN else json.loads(content)
            summary = _Summary.model_validate(values)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError):  # a ValidationError is a ValueError
            raise damaged from None
        if state == SealState.NONE and (KEY in values or OLDER not in (self._config or {OLDER: []})):
            raise damaged
        if state == SealState.WHOLE and self._config is not None and not summary.fits(self._config):
            raise ConfigError(f"{path} is of another run; delete it and run again")
        return dict(values)

    def write_summary(self, values: Mapping[str, Any]) -> None:
        """Write summary.json."""
        text = json.dumps({**values, KEY: BLANK}, indent=2, allow_nan=False) + "\n"
        write_text(self.path / "summary.json", sealed(text.encode()).decode())

    def write_trial(self, key: TrialKey, columns: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
        """Write a finished trial, whole or not at all; of a column `(n, d)` each row is a list."""
        frame = pl.DataFrame({name: column.tolist() if column.ndim > 1 else column for name, column in columns.items()})
        write_parquet(frame, self.trial_path(key), {**key._asdict(), **meta})

    def fault(self, key: TrialKey) -> str:
        """Say what keeps a trial from being what its place says; empty where nothing does."""
        path = self.trial_path(key)
        config = self._config
        is_older = config is None or _label(key) in config.get(OLDER, [])
        try:
            state = file_seal_state(path)
            if state == SealState.BROKEN or (state == SealState.NONE and not is_older):
                return DAMAGED
            meta = read_meta(path)
        except OSError as error:
            return f"cannot be read ({error.strerror})"
        except DataError:
            return DAMAGED
        return "" if state == SealState.NONE else _identity_fault(key, meta, config)

    def set_aside(self, path: Path) -> Path:
        """Move a damaged file of this folder to damaged/, and return its new path."""
        folder = self.path / "damaged"
        folder.mkdir(exist_ok=True)
        name = "-".join(path.relative_to(self.path).parts)
        numbered = (folder / f"{number}-{name}" for number in itertools.count(1))
        place = next(place for place in numbered if not place.exists())
        path.replace(place)
        return place

    def remove_leftovers(self) -> None:
        """Remove what killed processes left half written."""
        for folder in (self.path, *self.path.glob("cells/*/"), *self.path.glob("log/*/")):
            remove_leftovers(folder)

    def read_trial(self, key: TrialKey) -> Rows:
        """Read the figures of a trial; raises `DataError` for a file that is damaged, or of another trial."""
        return self.read_whole_trial(key)[0]

    def read_whole_trial(self, key: TrialKey) -> tuple[Rows, dict[str, np.ndarray]]:
        """Read the figures of a trial by visitor, and what rewards are made of: nothing where they are clicks."""
        frame = _by_visitor(self._frame(key))
        parts = {name: frame[name].to_numpy() for name in frame.columns if name not in (*ROWS, BOOSTS)}
        return Rows(*(frame[name].to_numpy() for name in FIGURES)), parts

    def columns(self, key: TrialKey) -> list[str]:
        """List the columns of a trial; raises `DataError` for a file that is damaged or not ours."""
        return self._frame(key).columns

    def _frame(self, key: TrialKey) -> pl.DataFrame:
        """Read the rows of a trial; raises `DataError` for a file that is damaged or not ours."""
        path = self.trial_path(key)
        fault = self.fault(key)
        if fault:
            raise DataError(f"{path} {fault}; delete it and run again")
        try:
            frame = decode_parquet(path)
            numbers = frame.select(pl.col(FIGURES).cast(pl.Float64).is_finite().all())
            types = all(frame[name].dtype == pl.Float64 for name in FIGURES)
            if "visitor" in frame.columns:  # trials of visitors who come once lack it
                types = types and all(frame[name].dtype == ROWS[name] for name in LIFE)
            whole = types and all(numbers.row(0)) and not any(frame[name].null_count() for name in FIGURES)
        except (DataError, *UNREADABLE):
            whole = False
        if not whole:
            raise DataError(f"{path} {DAMAGED}; delete it and run again")
        return frame

    def write_rows(self, keys: Iterable[TrialKey]) -> None:
        """Put the trials together into rows.parquet, sorted by policy, seed and step, without holding them all."""
        frames = [
            _with_lives(pl.scan_parquet(self.trial_path(key), glob=False)).select(
                pl.lit(key.seed, pl.Int64).alias("seed"),
                pl.col("step"),
                pl.lit(key.policy).alias("policy"),
                pl.all().exclude("step"),
            )
            for key in sorted(keys)
        ]
        with atomic(self.path / "rows.parquet") as temporary, naming_full_disks():
            _write_all(frames or [pl.LazyFrame(schema=ROWS)], temporary)
            seal_file(temporary)

    def read_rows(self) -> pl.DataFrame:
        """Read rows.parquet; raises `DataError` where it is damaged."""
        path = self.path / "rows.parquet"
        if _file_seal(path) == SealState.WHOLE:
            return pl.read_parquet(path, glob=False)
        raise DataError(f"{path} {DAMAGED}; zoosim report {self.path} writes it again")

    def write_csv(self) -> None:
        """Write rows.csv from rows.parquet."""
        with atomic(self.path / "rows.csv") as temporary, naming_full_disks():
            rows = pl.scan_parquet(self.path / "rows.parquet", glob=False)
            if BOOSTS in rows.collect_schema():
                rows = rows.with_columns(pl.col(BOOSTS).cast(pl.List(pl.String)).list.join(" "))
            rows.sink_csv(temporary, maintain_order=True)

    def drop_trials(self, policy: str) -> None:
        """Remove the trials and the log of a policy whose code has changed."""
        for name in ("cells", "log"):
            shutil.rmtree(self.path / name / policy, ignore_errors=True)


def _by_visitor(frame: pl.DataFrame) -> pl.DataFrame:
    """Sum the rows of each visitor: figures are of returns, what a visitor brings from the first decision to the last.

    What a policy's choices were worth is the expected return of its first action, less what later ones gave away: its
    mean is that of the returns (the performance difference of Kakade & Langford 2002, lemma 6.1).
    """
    if "visitor" not in frame.columns:
        return frame
    parts = [name for name in frame.columns if name not in (*ROWS, BOOSTS, "segment")]
    given_away = (pl.col("best_probability") - pl.col("true_probability")).slice(1).sum()
    return frame.group_by("visitor", maintain_order=True).agg(
        pl.col("reward", *parts).sum(),
        pl.col("best_probability", *(["segment"] if "segment" in frame.columns else [])).first(),
        (pl.col("true_probability").first() - given_away).alias("true_probability"),
    )


def _with_lives(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return rows of a trial that tell where in a visitor's life each decision stands."""
    if "visitor" in rows.collect_schema():
        return rows
    number = pl.int_range(pl.len(), dtype=pl.Int32)
    once = {"visit": pl.lit(0, pl.Int32), "ended": pl.lit(True), "censored": pl.lit(False)}
    return rows.with_columns(step=number, visitor=number, **once)


def _write_all(frames: list[pl.LazyFrame], path: Path) -> None:
    """Write frames one below the other, by way of part files where there are many: polars hangs on a thousand files."""
    if len(frames) <= PART:
        # Of policies that choose boosts the column `action` is empty, of others the column of boosts.
        pl.concat(frames, how="diagonal").sink_parquet(path, maintain_order=True, metadata={KEY: BLANK})
        return
    with temporary_folder(path.parent, "rows") as folder:
        parts = [folder / f"{start}.parquet" for start in range(0, len(frames), PART)]
        for number, part in enumerate(parts):
            _write_all(frames[number * PART : (number + 1) * PART], part)
        _write_all([pl.scan_parquet(part, glob=False) for part in parts], path)


def _label(key: TrialKey) -> str:
    """Return what a trial is called in config.yaml."""
    return f"{key.policy}/{key.seed}"


def _file_seal(path: Path) -> SealState:
    """Say what a file's seal says: that of one that cannot be read is broken."""
    try:
        return file_seal_state(path)
    except OSError:
        return SealState.BROKEN


def _identity_fault(key: TrialKey, meta: Mapping[str, Any], config: Mapping[str, Any] | None) -> str:
    """Say in what a trial, by its own words, differs from what its place and config.yaml say; empty where it agrees."""
    expected: dict[str, Any] = key._asdict()
    if config is not None:
        listed = {str(item.get("name")): item for item in config["policies"] if isinstance(item, dict)}
        if key.policy not in listed:
            return "is of a policy that config.yaml does not name"
        expected["config_hash"] = config["config_hash"]
        expected["params"] = {name: value for name, value in listed[key.policy].items() if name not in ("name", "type")}
    differing = [name for name, value in expected.items() if meta.get(name) != value]
    if not differing:
        is_listed = config is None or key.seed in config["run"]["seeds"]
        return "" if is_listed else "is of a seed that config.yaml does not name"
    name = differing[0]
    what = {"config_hash": "a world or steps of hash", "params": "parameters"}.get(name, name)
    return f"is another trial, with {what} {shown(meta.get(name))}, expected {shown(expected[name])}"


def _is_config(config: Any) -> bool:
    """Return whether a config.yaml has what every one has."""
    whole = isinstance(config, dict) and {"experiment", "config_hash", "env", "run", "policies"} <= set(config)
    if not whole or not isinstance(config["policies"], list) or not isinstance(config["run"], dict):
        return False
    seeds = config["run"].get("seeds")
    return isinstance(seeds, list) and all(isinstance(seed, int) for seed in seeds)


class _Failure(BaseModel, strict=True):
    """The parts of a failure in summary.json that are read again."""

    seed: int
    step: int
    error: str
    place: str


class _PolicyFigures(BaseModel, strict=True):
    """The parts of a policy in summary.json that are read again."""

    failed: list[_Failure]


class _Summary(BaseModel, strict=True):
    """The parts of summary.json that are read again: its time and its failures, and of which run it is."""

    wall_seconds: FiniteFloat
    policies: dict[str, _PolicyFigures]
    config_hash: str = ""
    seeds: list[int] = []

    def fits(self, config: Mapping[str, Any]) -> bool:
        """Return whether a summary may be that of a run: it covers policies and seeds of it, in its world."""
        names = {str(item.get("name")) for item in config["policies"] if isinstance(item, dict)}
        is_part = self.policies.keys() <= names and set(self.seeds) <= set(config["run"]["seeds"])
        return is_part and self.config_hash == config["config_hash"]
