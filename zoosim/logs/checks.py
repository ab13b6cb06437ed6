"""What makes a log bad, and where: checks of frames, which name row and column. Rows count from 0."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.errors import DataError
from zoosim.core.parameters import shown
from zoosim.core.types import BoolArray

REQUIRED = ("action", "propensity", "reward")
LEAST_PROPENSITY, LARGEST_REWARD, LARGEST_FEATURE = 1e-30, 1e15, 1e100
"""Beyond these, sums of fourth powers overflow."""
MOST_ACTIONS = 1_000_000
ADVICE = "mend the log, or have bad rows skipped (--skip-bad)"


class Fault(NamedTuple):
    """What is wrong in a column: `bad (n,)` marks the rows, `expected` says what should stand there."""

    column: str
    expected: str
    bad: BoolArray


def check_columns(frame: pl.DataFrame, source: str, *, boosts: bool = False) -> None:
    """Refuse a frame that is no log at all: no rows, a column missing or of a wrong type. Raises `DataError`.

    Actions are whole numbers, those of `boosts` lists of numbers.
    """
    missing = [name for name in REQUIRED if name not in frame.columns]
    if missing:
        have = ", ".join(frame.columns)
        raise DataError(f"{source}: column {missing[0]} is missing, a log has {', '.join(REQUIRED)}; it has {have}")
    if not frame.height:
        raise DataError(f"{source}: got no rows, expected at least one interaction")
    for name, dtype in frame.schema.items():
        wanted = _wanted(name, dtype, boosts)
        if wanted:
            raise DataError(f"{source}: column {name} holds values of type {dtype}, expected {wanted}")


def _wanted(name: str, dtype: pl.DataType, boosts: bool) -> str:
    """Say what a column of the log should hold where `dtype` is something else, or nothing."""
    if name in ("action", "position")[boosts:] and not dtype.is_integer():
        return "whole numbers"
    if name in ("propensity", "reward") and not dtype.is_numeric():
        return "numbers"
    if name == "time" and not (isinstance(dtype, pl.Datetime) and dtype.time_zone) and dtype != pl.Null:
        return "times with a time zone"
    words = isinstance(dtype, pl.String | pl.Categorical | pl.Enum)
    if name == "user_id" and not (dtype.is_integer() or words or dtype == pl.Null):
        return "whole numbers or words"
    if name == "decision_id" and dtype == pl.Object:
        return "words or whole numbers"
    inner = dtype.inner if isinstance(dtype, pl.List) else pl.String()
    if (name == "user" or (name == "action" and boosts)) and not inner.is_numeric():
        return "lists of numbers"
    if name == "unavailable" and not inner.is_integer():
        return "lists of whole numbers"
    return ""


def check_kept(frame: pl.DataFrame, columns: Iterable[str], source: str) -> None:
    """Refuse further `columns` of a log, such as target probabilities, that hold no numbers: `DataError`."""
    for name in columns:
        if name not in frame.columns or not frame[name].dtype.is_numeric():
            raise DataError(f"{source}: column {name} is no column of numbers; it has {', '.join(frame.columns)}")


def faults(frame: pl.DataFrame, n_actions: int, *, rankings: bool = False) -> Iterator[Fault]:
    """Yield what is wrong in the rows of a log with `n_actions` actions; those of `rankings` may share an id."""
    yield from missing_faults(frame)
    yield Fault("propensity", "above 0 and at most 1", bad_probabilities(frame["propensity"]))
    tiny = _numbers(frame["propensity"]) < LEAST_PROPENSITY
    yield Fault("propensity", f"at least {LEAST_PROPENSITY:g}, since what is less likely is never drawn", tiny)
    yield from reward_faults(frame)
    actions = _numbers(frame["action"])
    yield Fault("action", f"0 to {n_actions - 1}", ~((actions >= 0) & (actions < n_actions)))
    if not rankings:
        yield from id_faults(frame)
    if "unavailable" in frame.columns:
        outside = pl.element().is_null() | (pl.element() < 0) | (pl.element() >= n_actions)
        stray = frame.select(pl.col("unavailable").list.eval(outside).list.any().fill_null(False)).to_series()
        yield Fault("unavailable", f"actions from 0 to {n_actions - 1}", stray.to_numpy())
        gone = frame.select(pl.col("unavailable").list.contains(pl.col("action")).fill_null(False)).to_series()
        yield Fault("action", "one of the row's candidates (it is listed as unavailable)", gone.to_numpy())
    if "user" in frame.columns:
        yield from list_faults(frame, "user")


def id_faults(frame: pl.DataFrame) -> Iterator[Fault]:
    """Yield the rows whose decision_id an earlier row has."""
    if "decision_id" in frame.columns:
        ids = frame["decision_id"]
        again = ids.is_duplicated() & ~ids.is_first_distinct() & ids.is_not_null()
        ranked = "position" in frame.columns and frame["position"].n_unique() > 1
        hint = " (unless visits show rankings: --rankings)" if ranked else ""
        yield Fault("decision_id", f"an id that no earlier row has{hint}", again.to_numpy())


def reward_faults(frame: pl.DataFrame) -> Iterator[Fault]:
    """Yield the rows whose reward no sum can hold."""
    yield Fault("reward", "a finite number", not_finite(frame["reward"]))
    huge = np.abs(_numbers(frame["reward"])) > LARGEST_REWARD
    yield Fault("reward", f"at most {LARGEST_REWARD:g} in size; scale rewards", huge)


def missing_faults(frame: pl.DataFrame) -> Iterator[Fault]:
    """Yield the rows where a value is missing."""
    for name in ("propensity", "reward", "action", "decision_id", "time", "user_id", "position"):
        if name in frame.columns and frame[name].null_count() not in (0, _may_lack(name) * frame.height):
            yield Fault(name, "a value", frame[name].is_null().to_numpy())


def _may_lack(name: str) -> int:
    """Tell, as 0 or 1, whether a whole column may be empty: the log then does not say."""
    return int(name in ("time", "user_id", "decision_id"))


def list_faults(frame: pl.DataFrame, name: str) -> Iterator[Fault]:
    """Yield the rows whose list in a column is of another length than most, or holds what is not finite."""
    lengths = frame[name].list.len()
    width = int(str(lengths.drop_nulls().mode().min() or 0))
    yield Fault(name, f"a list of {width} numbers as in most rows", (lengths != width).fill_null(True).to_numpy())
    values = frame[name].list.explode().cast(pl.Float64)
    if (values.abs() <= LARGEST_FEATURE).all() and not values.null_count():
        return
    fine = (pl.element().cast(pl.Float64).abs() <= LARGEST_FEATURE).fill_null(False)
    finite = frame.select(pl.col(name).list.eval(fine).list.all()).to_series()
    yield Fault(name, f"finite numbers, {LARGEST_FEATURE:g} at most", (~finite.fill_null(True)).to_numpy())


def bad_probabilities(column: pl.Series) -> BoolArray:
    """Tell which values `(n,)` are not above 0 and at most 1; missing ones are told elsewhere."""
    values = _numbers(column)
    return np.asarray(~((values > 0.0) & (values <= 1.0)) & column.is_not_null().to_numpy())


def not_finite(column: pl.Series) -> BoolArray:
    """Tell which values `(n,)` are no finite numbers; missing ones are told elsewhere."""
    return np.asarray(~np.isfinite(_numbers(column)) & column.is_not_null().to_numpy())


def _numbers(column: pl.Series) -> np.ndarray:
    return np.asarray(column.cast(pl.Float64).to_numpy())


def sound_rows(
    frame: pl.DataFrame,
    found: Iterable[Fault],
    source: str,
    skip_bad: bool,
    given: pl.DataFrame | None = None,
    together: str | None = None,
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Return the rows without faults, and how many were skipped for each; raises `DataError` unless `skip_bad`.

    The error names the first bad row, its column, what it holds in the frame `given` by the user, and how many rows are
    bad. Rows that share what the column `together` holds go with a bad one.
    """
    bad, skipped, first = np.zeros(frame.height, bool), {}, (frame.height, "", "")
    for column, expected, mask in found:
        new = mask & ~bad
        if new.any():
            skipped[f"{column}: expected {expected}"] = int(new.sum())
            first = min(first, (int(new.argmax()), column, expected))
            bad |= mask
    if not bad.any():
        return frame, {}
    if not skip_bad:
        raise DataError(_refusal(frame if given is None else given, first, int(bad.sum()), source))
    if together is not None:
        mates = frame[together].is_in(frame[together].filter(bad).implode()).fill_null(False).to_numpy() & ~bad
        skipped |= {f"{together}: rows of a visit with a bad one": int(mates.sum())} if mates.any() else {}
        bad |= mates
    if bad.all():
        raise DataError(f"{source}: every one of {frame.height:,} rows is bad; {_counted(skipped)}")
    return frame.filter(~bad), skipped


def _refusal(frame: pl.DataFrame, first: tuple[int, str, str], count: int, source: str) -> str:
    row, column, expected = first
    value = frame[column][row]
    got = "nothing" if value is None else shown(value.to_list() if isinstance(value, pl.Series) else value)
    rows = f"{count:,} of {frame.height:,} rows {'is' if count == 1 else 'are'} bad"
    return f"{source}: row {row}, column {column}: got {got}, expected {expected}; {rows}; {ADVICE}"


def _counted(skipped: Mapping[str, Any]) -> str:
    return "; ".join(f"{count:,} x {reason}" for reason, count in skipped.items())
