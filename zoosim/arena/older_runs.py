"""Folders of runs without a manifest, which earlier releases wrote: their files are checked by the seals in them.

The first releases sealed nothing: their files are taken as they are, if they have the right form. Later ones sealed
config.yaml, summary.json and each trial; where they went on with a run of the first, config.yaml lists its trials.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from zoosim.arena.metrics import FIGURES
from zoosim.core.digests import file_digest
from zoosim.core.errors import DataError
from zoosim.core.files import read_text
from zoosim.core.parquet import UNREADABLE, decode_parquet, read_meta
from zoosim.core.seal import KEY, file_seal_holds
from zoosim.core.yaml_text import parse_yaml

CONFIG_KEYS = {"experiment", "config_hash", "env", "run", "policies"}

FORMATS = (1, 2)
"""Formats of config.yaml in folders without a manifest; the first does not name itself."""

OLDER = "older_trials"
"""The key of config.yaml that lists the trials without a seal, as POLICY/SEED."""

MALFORMED = (DataError, *UNREADABLE, yaml.YAMLError, LookupError, TypeError, AttributeError, RecursionError)


def older_digests(folder: Path) -> dict[str, str]:
    """Return the digests of a run's files by name, empty for those that are damaged, edited or of another run."""
    config_file = folder / "config.yaml"
    summary_file = folder / "summary.json"
    trials = sorted(folder.glob("cells/*/*.parquet"))
    seals = {path: file_seal_holds(path) for path in (config_file, summary_file, *trials) if path.is_file()}
    config = {} if seals.get(config_file) is False else _read_config(config_file)
    has_sealed_trials = any(seals.get(path) is not None for path in trials)
    # Once anything is sealed, a file without a seal may be one whose seal was cut off: it must be listed as older.
    if has_sealed_trials or KEY in config or config.get("format", 1) not in FORMATS:
        unsealed = {folder / "cells" / f"{label}.parquet" for label in config.get(OLDER, ())}
        unsealed |= {summary_file} if OLDER in config else set()
    else:
        unsealed = set(seals)
    digests = {}
    for path, seal in seals.items():
        is_sound = path in unsealed and _has_form(path) if seal is None else seal
        is_sound = is_sound and (seal is None or path not in trials or _is_at_home(path, config))
        digests[path.relative_to(folder).as_posix()] = file_digest(path) if is_sound else ""
    return digests


def _read_config(path: Path) -> dict[str, Any]:
    """Return what a config.yaml holds, nothing where it is damaged."""
    try:
        config = dict(parse_yaml(read_text(path)))
    except MALFORMED:
        return {}
    return config if config.keys() >= CONFIG_KEYS else {}


def is_summary(values: Mapping[str, Any]) -> bool:
    """Return whether values of a summary.json have the form that is read of it; raises one of `MALFORMED` or not."""
    failures = [failure for figures in values["policies"].values() for failure in figures["failed"]]
    kinds = {"seed": int, "step": int, "error": str, "place": str}
    are_whole = all(isinstance(failure[name], kind) for failure in failures for name, kind in kinds.items())
    return are_whole and bool(values["wall_seconds"] >= 0.0)


def _has_form(path: Path) -> bool:
    """Return whether a file without a seal holds what is read of it: configuration, summary or trial, by its suffix."""
    try:
        if path.suffix == ".yaml":
            return bool(_read_config(path))
        if path.suffix == ".json":
            summary = json.loads(read_text(path))
            return KEY not in summary and is_summary(summary)
        read_meta(path)
        return has_figures(decode_parquet(path))
    except MALFORMED:
        return False


def has_figures(rows: pl.DataFrame) -> bool:
    """Return whether rows of a trial have the columns that figures are made of, all of them finite."""
    if not rows.schema.keys() >= set(FIGURES):
        return False
    figures = rows.select(FIGURES)
    are_finite = figures.select((pl.all().is_finite() & pl.all().is_not_null()).all())
    return set(figures.dtypes) == {pl.Float64} and all(are_finite.row(0))


def _is_at_home(path: Path, config: Mapping[str, Any]) -> bool:
    """Return whether a sealed trial is, by its own words, the one that its place and config.yaml say."""
    try:
        return _says_where(path, config)
    except MALFORMED:
        return False


def _says_where(path: Path, config: Mapping[str, Any]) -> bool:
    meta = read_meta(path)
    policy = path.parent.name
    seed = meta.get("seed")
    if not config:
        return pl.read_parquet_schema(path).keys() >= set(FIGURES)
    listed = {item["name"]: item for item in config["policies"]}.get(policy, {"": "no such policy"})
    expected = {"policy": policy, "config_hash": config["config_hash"]}
    expected["params"] = {name: value for name, value in listed.items() if name not in ("name", "type")}
    is_expected = all(meta.get(name) == value for name, value in expected.items())
    return is_expected and str(seed) == path.stem and seed in config["run"]["seeds"]
