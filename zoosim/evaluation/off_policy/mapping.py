"""Map a user's own table onto Records, by a small YAML file.

    columns: {action: item, propensity: p, reward: click, time: at, user_id: customer}   # Record's name: theirs
    features: [age, country]      # what the shop knows of the visitor: numbers, or words, which become one column each
    keep: [p_new]                 # further numbers, such as target probabilities
    time_zone: Europe/Berlin      # of times that name none
    actions: [A1, B7]             # the candidates, in order; those that were shown when left out

`action`, `propensity` and `reward` are needed; `decision_id`, `time`, `user_id`, `position` are not.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from zoosim.core.config import Strict, build, read_yaml
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parameters import shown, unknown
from zoosim.evaluation.off_policy.checks import Fault, faults, sound_rows
from zoosim.evaluation.off_policy.reading import OWN
from zoosim.evaluation.off_policy.times import read_times

MAX_WORDS = 100


class Columns(Strict):
    """Which column of the table holds what."""

    action: str
    propensity: str
    reward: str
    decision_id: str | None = None
    time: str | None = None
    user_id: str | None = None
    position: str | None = None


class LogMapping(Strict):
    """How a table becomes Records."""

    columns: Columns
    features: list[str] = Field(default_factory=list)
    keep: list[str] = Field(default_factory=list)
    actions: Annotated[list[str | int], Field(min_length=1)] | None = None
    time_zone: str | None = None
    epoch: Literal["s", "ms", "us"] | None = None
    policy: str = "logged"


def read_mapping(path: str | os.PathLike[str]) -> LogMapping:
    """Read a mapping file; raises `ConfigError`."""
    mapping: LogMapping = build(LogMapping, read_yaml(Path(path)), str(path))
    return mapping


def to_records(
    table: pl.DataFrame, mapping: LogMapping, *, source: str = "table", skip_bad: bool = False
) -> tuple[pl.DataFrame, list[str], dict[str, int]]:
    """Return a table as Records, the products' names in the order of the actions, and what was skipped, by reason.

    Raises `DataError` for a column that is missing, and for a bad row, naming row and column, unless `skip_bad`.
    """
    _check_names(table, mapping, source)
    named = {own: theirs for own, theirs in mapping.columns.model_dump().items() if theirs}
    names = _action_names(table[named["action"]], mapping)
    frame = pl.DataFrame(list(_columns(table, mapping, named, names, source)))
    found = [*_lost(table, frame, mapping, names), *faults(frame.drop("user", strict=False), len(names))]
    found = [fault._replace(column=named.get(fault.column, fault.column)) for fault in found]
    sound, skipped = sound_rows(frame, found, source, skip_bad, given=table)
    return _complete(sound, mapping), names, skipped


def _check_names(table: pl.DataFrame, mapping: LogMapping, source: str) -> None:
    for part, given in (("actions", [str(name) for name in mapping.actions or ()]), ("keep", mapping.keep)):
        twice = [name for number, name in enumerate(given) if name in given[:number]]
        if twice:
            raise ConfigError(f"mapping.{part}: got {shown(twice[0])} twice, expected each once")
    own = [name for name in mapping.keep if name in OWN]
    if own:
        raise ConfigError(f"mapping.keep: got {shown(own[0])}, a name that Records use themselves; rename the column")
    wanted = [name for name in mapping.columns.model_dump().values() if name]
    for name in [*wanted, *mapping.features, *mapping.keep]:
        if name not in table.columns:
            raise DataError(f"{source}: {unknown('no column', name, table.columns)}; correct the mapping")
    if not table.height:
        raise DataError(f"{source}: got no rows, expected at least one interaction")


def _action_names(column: pl.Series, mapping: LogMapping) -> list[str]:
    """Return the candidates' names: those of the mapping, else those shown, numbers by size and words by letters."""
    if mapping.actions is not None:
        return [str(name) for name in mapping.actions]
    seen = column.drop_nulls().unique()
    numbers = seen.cast(pl.Int64, strict=False)
    ordered = seen.sort() if numbers.null_count() else seen.gather(numbers.arg_sort())
    return [str(name) for name in ordered.cast(pl.String)]


def _columns(
    table: pl.DataFrame, mapping: LogMapping, named: dict[str, str], names: Sequence[str], source: str
) -> Iterator[pl.Series]:
    """Yield the columns of the Records; what cannot be read is null."""
    index = pl.DataFrame({"name": list(names), "action": np.arange(len(names))})
    shown_names = table.select(pl.col(named["action"]).cast(pl.String).alias("name"))
    yield shown_names.join(index, on="name", how="left", maintain_order="left")["action"]
    for own in ("propensity", "reward"):
        yield numbers(table[named[own]]).alias(own)
    if "position" in named:
        yield table[named["position"]].cast(pl.Int32, strict=False).alias("position")
    for own in ("decision_id", "user_id"):
        if own in named:
            column = table[named[own]]
            keep = own == "user_id" and column.dtype.is_integer()
            yield (column if keep else column.cast(pl.String)).alias(own)
    if "time" in named:
        yield read_times(table[named["time"]], mapping.time_zone, mapping.epoch, source).alias("time")
    for name in mapping.keep:
        yield numbers(table[name])
    if mapping.features:
        parts = np.hstack([_feature(table[name], source) for name in mapping.features])
        yield pl.Series("user", parts).cast(pl.List(pl.Float64))


def numbers(column: pl.Series) -> pl.Series:
    """Return a column of numbers; what is none becomes null."""
    return column.cast(pl.Float64, strict=False)


def _feature(column: pl.Series, source: str) -> np.ndarray:
    """Return a feature as numbers `(n, 1)`, or `(n, words)` of 0 and 1."""
    if _is_numeric(column):
        return np.asarray(numbers(column).to_numpy(), float).reshape(-1, 1)
    words = column.cast(pl.String)
    known = sorted(words.drop_nulls().unique())
    if len(known) > MAX_WORDS:
        got = f"column {column.name} has {len(known)} different words"
        raise DataError(f"{source}: {got}, expected numbers or {MAX_WORDS} words at most; leave it out of the mapping")
    return np.asarray(words.to_numpy()[:, None] == np.array(known, dtype=object)[None, :], float)


def _is_numeric(column: pl.Series) -> bool:
    """Tell whether at least half of what a column holds can be read as numbers: the rest are faults, not words."""
    return 2 * int(numbers(column).is_not_null().sum()) >= int(column.is_not_null().sum())


def _lost(table: pl.DataFrame, frame: pl.DataFrame, mapping: LogMapping, names: Sequence[str]) -> Iterator[Fault]:
    """Yield the rows where a value stands in the table that cannot be read, and where a needed one is missing."""
    listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    expected = {"action": f"one of the {len(names)} candidates ({listed})", "time": "a time", "position": "a number"}
    for own, theirs in mapping.columns.model_dump(exclude_none=True).items():
        unread = (frame[own].is_null() & table[theirs].is_not_null()).to_numpy()
        yield Fault(own, expected.get(own, "a number"), unread)
        yield Fault(own, "a value", table[theirs].is_null().to_numpy())
    for name in mapping.features:
        readable = _is_numeric(table[name])
        values = numbers(table[name]) if readable else table[name]
        lost = ~values.is_finite().fill_null(False) if readable else values.is_null()
        yield Fault(name, "a finite number" if readable else "a value", lost.to_numpy())


def _complete(frame: pl.DataFrame, mapping: LogMapping) -> pl.DataFrame:
    """Fill in what Records have and the table does not: ids by the row, the position 0."""
    n = frame.height
    given: dict[str, Any] = {
        "decision_id": pl.Series([f"row-{row}" for row in range(n)], dtype=pl.String),
        "position": pl.Series(np.zeros(n, np.int32)),
        "user": pl.Series([[]] * n, dtype=pl.List(pl.Float64)),
        "policy": pl.Series([mapping.policy] * n),
    }
    return frame.with_columns(series.alias(name) for name, series in given.items() if name not in frame.columns)
