"""A run's folder: finished (policy, seed) trials, each written at once and whole, so that any run can go on.

config.yaml   the resolved configuration, readable by --config
cells/        POLICY/SEED.parquet, with what made it in the file's metadata
rows.parquet  all trials, sorted by policy, seed, step
log/          POLICY/SEED.parquet Records, when asked for
damaged/      what `zoosim run` found damaged, and computed again
summary.json, report.html
manifest.jsonl

The manifest lists configuration, trials, rows and summary with their digests; a trial counts once it is listed. Workers
return the files of trials, and their parent alone writes and lists them. Logs carry digests in themselves, as they may
leave the folder.
"""

import itertools
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.arena.metrics import FIGURES, TrialRows
from zoosim.arena.older_runs import CONFIG_KEYS, MALFORMED, OLDER, has_figures, is_summary, older_digests
from zoosim.arena.plan import FORMAT
from zoosim.core.digests import content_digest, file_digest
from zoosim.core.errors import ConfigError, DataError, printable
from zoosim.core.files import atomic, check_writable, read_content, remove_leftovers, temporary_folder
from zoosim.core.manifest import NAME as MANIFEST
from zoosim.core.manifest import Manifest
from zoosim.core.parquet import decode_parquet, naming_full_disks, sink_parquet
from zoosim.core.seal import KEY
from zoosim.core.types import IntArray
from zoosim.core.yaml_text import parse_yaml, write_yaml

PART = 64
"""Trials that are put together at a time."""

CONFIG, SUMMARY, ROWS_FILE = "config.yaml", "summary.json", "rows.parquet"
OURS = {CONFIG, "cells", ROWS_FILE, "rows.csv", "log", "damaged", SUMMARY, "report.html", MANIFEST}

DAMAGED = "is damaged or was changed"

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

BOOSTS = "boosts"
"""The column of boosts (list of float), in the rows of policies that choose them; it is there if any does."""


SEED = re.compile(r"[0-9]{1,10}")
"""The name of a trial's file, without its suffix."""


class TrialKey(NamedTuple):
    """The key of a trial: a policy's name and a seed."""

    policy: str
    seed: int


class Trial(NamedTuple):
    """What one policy did in the world of one seed.

    `rows` and `parts`, what rewards are made of, by visitor; no parts where rewards are clicks. `actions` are the
    candidates shown at each visit, `(steps,)`, None in files that do not tell; `columns` are those of the file.
    """

    rows: TrialRows
    parts: dict[str, np.ndarray]
    actions: IntArray | None
    columns: frozenset[str]


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
        # Both are asked: a file that is not listed does not count yet, and what is listed may have been moved away.
        files = [path for path in self.path.glob("cells/*/*.parquet") if SEED.fullmatch(path.stem)]
        return sorted(
            TrialKey(path.parent.name, int(path.stem)) for path in files if self._name(path) in self._manifest
        )

    @cached_property
    def _manifest(self) -> Manifest:
        return Manifest(self.path, lambda: older_digests(self.path))

    def _name(self, path: Path) -> str:
        """Return what the manifest calls a file."""
        return path.relative_to(self.path).as_posix()

    def check(self) -> None:
        """Refuse a folder of foreign files, one whose config.yaml is damaged, and one that cannot be written."""
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"--out: {self.path} is a file, expected a folder")
        if not self.path.exists():
            check_writable(next(parent for parent in self.path.absolute().parents if parent.exists()))
            return
        check_writable(self.path)
        held = {item.name for item in self.path.iterdir() if not item.name.startswith(".")}
        if CONFIG not in held and held - OURS:
            raise ConfigError(f"--out: {self.path} holds {min(held - OURS)}, not a run; name an empty or a new folder")
        if held - {MANIFEST}:  # which is written first
            self.read_config()

    def read_config(self) -> dict[str, Any]:
        """Read config.yaml; raises `ConfigError` when it is missing or broken."""
        try:
            content = read_content(self.path / CONFIG)
        except FileNotFoundError:
            raise ConfigError(f"{self.path} holds no config.yaml; give the folder of a run") from None
        except OSError:
            content = b""
        damaged = ConfigError(f"{self.path / CONFIG} {DAMAGED}; delete the folder or name another")
        try:
            values = dict(parse_yaml(content.decode()))
        except MALFORMED:
            raise damaged from None
        if values.get("format") == FORMAT and not (self.path / MANIFEST).exists():
            raise ConfigError(
                f"{self.path} lacks {MANIFEST}, by which its files are checked; put it back, or name another"
            )
        if not self._manifest.lists(CONFIG, content_digest(content)) or not values.keys() >= CONFIG_KEYS:
            raise damaged
        return {name: value for name, value in values.items() if name not in (KEY, OLDER)}

    def write_config(self, values: Mapping[str, Any]) -> None:
        """Write config.yaml."""
        self.path.mkdir(parents=True, exist_ok=True)
        head = printable(f"# zoosim run {values['experiment']} --config config.yaml")
        with self._replaced(CONFIG) as temporary:
            temporary.write_text(head + "\n" + write_yaml(values), encoding="utf-8")

    @contextmanager
    def _replaced(self, name: str) -> Iterator[Path]:
        """Yield a temporary file, which is listed under a name and moved there when the block ends well."""
        with atomic(self.path / name) as temporary, naming_full_disks():
            yield temporary
            # Listed before it is moved there: if the process is killed in between, the old file still stands, and its
            # digest is still listed. The other way round, a file that is not listed would count as damaged.
            self._manifest.add(name, file_digest(temporary))

    def old_summary(self) -> dict[str, Any]:
        """Read summary.json, empty when there is none; raises `ConfigError` when it is damaged, or of another run."""
        path = self.path / SUMMARY
        try:
            content = read_content(path)
        except FileNotFoundError:
            return {}
        except OSError:
            content = b""
        is_listed = self._manifest.lists(SUMMARY, content_digest(content))
        with suppress(*MALFORMED):
            summary = json.loads(content)
            if is_listed and is_summary(summary):
                return dict(summary)
        raise ConfigError(f"{path} {DAMAGED}; delete it and run again")

    def write_summary(self, values: Mapping[str, Any]) -> None:
        """Write summary.json."""
        with self._replaced(SUMMARY) as temporary:
            temporary.write_text(json.dumps(values, indent=2, allow_nan=False) + "\n", encoding="utf-8")

    def write_trial(self, key: TrialKey, columns: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
        """Write a finished trial, whole or not at all; of a column `(n, d)` each row is a list."""
        frame = pl.DataFrame({name: column.tolist() if column.ndim > 1 else column for name, column in columns.items()})
        path = self.trial_path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic(path) as temporary:
            # Not sealed, as the manifest has its digest; and not listed here, as this may be a worker's folder.
            sink_parquet(frame, temporary, {**key._asdict(), **meta}, sealed=False)

    def files_of(self, key: TrialKey) -> tuple[tuple[str, bytes], ...]:
        """Return a trial's file, and before it its log and the tables beside that, by their names in the folder."""
        log = sorted(self.log_path(key).parent.glob("[!.]*"))
        return tuple((self._name(path), path.read_bytes()) for path in (*log, self.trial_path(key)))

    def save_trial(self, key: TrialKey, files: Iterable[tuple[str, bytes]]) -> None:
        """Write the files of a trial, each whole or not at all, and list it: from now on it is finished."""
        # The trial's own comes last, and counts once it is listed: a run that is killed in between computes it again.
        log_folder = PurePosixPath(self._name(self.log_path(key).parent))
        for name, content in files:
            beside_log = PurePosixPath(name).parent == log_folder and not PurePosixPath(name).name.startswith(".")
            if name != self._name(self.trial_path(key)) and not beside_log:
                raise ConfigError(f"a worker answered {key} with a file {name!r}, which no trial has; check its zoosim")
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic(path) as temporary:
                temporary.write_bytes(content)
        self.list_trial(key)

    def list_trial(self, key: TrialKey) -> None:
        """List a trial that was written: from now on it is finished."""
        path = self.trial_path(key)
        with suppress(FileNotFoundError):  # another run in the folder has moved it away
            self._manifest.add(self._name(path), file_digest(path))

    def fault(self, key: TrialKey) -> str:
        """Say what keeps a trial from being what its place says; empty where nothing does."""
        try:
            return "" if self._manifest.holds(self._name(self.trial_path(key))) else DAMAGED
        except OSError as error:
            return f"cannot be read ({error.strerror})"

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

    def read_trial(self, key: TrialKey) -> TrialRows:
        """Read the figures of a trial; raises `DataError` for a file that is damaged, or of another trial."""
        return self.read_whole_trial(key).rows

    def read_whole_trial(self, key: TrialKey) -> Trial:
        """Read all of a trial that figures are made of; raises `DataError` as `read_trial` does."""
        rows = self._frame(key)
        frame = _by_visitor(rows)
        parts = {name: frame[name].to_numpy() for name in frame.columns if name not in (*ROWS, BOOSTS)}
        actions = rows["action"].cast(pl.Int64).to_numpy() if "action" in rows.columns else None
        return Trial(TrialRows(*(frame[name].to_numpy() for name in FIGURES)), parts, actions, frozenset(rows.columns))

    def _frame(self, key: TrialKey) -> pl.DataFrame:
        """Read the rows of a trial; raises `DataError` for a file that is damaged or not ours."""
        path = self.trial_path(key)
        fault = self.fault(key)
        with suppress(*MALFORMED):
            rows = pl.DataFrame() if fault else decode_parquet(path)
            if has_figures(rows):
                return rows
        raise DataError(f"{path} {fault or DAMAGED}; delete it and run again")

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
        with self._replaced(ROWS_FILE) as temporary:
            _write_all(frames or [pl.LazyFrame(schema=ROWS)], temporary)

    def read_rows(self) -> pl.DataFrame:
        """Read rows.parquet; raises `DataError` where it is damaged."""
        path = self.path / ROWS_FILE
        with suppress(OSError):
            if self._manifest.holds(ROWS_FILE):
                return pl.read_parquet(path, glob=False)
        raise DataError(f"{path} {DAMAGED}; zoosim report {self.path} writes it again")

    def write_csv(self) -> None:
        """Write rows.csv from rows.parquet."""
        with atomic(self.path / "rows.csv") as temporary, naming_full_disks():
            rows = pl.scan_parquet(self.path / ROWS_FILE, glob=False)
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
        pl.concat(frames, how="diagonal").sink_parquet(path, maintain_order=True)
        return
    with temporary_folder(path.parent, "rows") as folder:
        parts = [folder / f"{start}.parquet" for start in range(0, len(frames), PART)]
        for number, part in enumerate(parts):
            _write_all(frames[number * PART : (number + 1) * PART], part)
        _write_all([pl.scan_parquet(part, glob=False) for part in parts], path)
