"""Checks of frames for what makes a log bad, named by row and column. Rows count from 0."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.errors import DataError
from zoosim.core.parameters import shown
from zoosim.core.types import BoolArray, FloatArray
from zoosim.logs.schema import CANDIDATE_PROPENSITIES, LIFE, LISTED, REQUIRED, SOURCE, SOURCE_PRODUCTS

FIRST_YEAR, LAST_YEAR = 1, 9999
"""Years that times lie in: Python knows no others."""

LARGEST_REWARD = 1e15
LARGEST_FEATURE = 1e100
"""Beyond these, sums of fourth powers overflow."""
MAY_BE_EMPTY = ("decision_id", "time")
"""Columns that may hold nothing at all: the log then does not say. Single rows may lack a user."""

ADVICE = "mend the log, or have bad rows skipped (--skip-bad)"


class Fault(NamedTuple):
    """Fault of a column: `bad (n,)` marks the rows, `expected` says what should stand there."""

    column: str
    expected: str
    bad: BoolArray


def check_names(names: Sequence[str], source: str, required: Sequence[str]) -> None:
    """Refuse a table that lacks a `required` column with `DataError`."""
    missing = [name for name in required if name not in names]
    if missing:
        expected = f"a log has {', '.join(required)}; it has {', '.join(names)}"
        raise DataError(f"{source}: column {missing[0]} is missing, {expected}; zoosim import makes a log of a table")


def check_columns(frame: pl.DataFrame, source: str, required: Sequence[str], *, lists: bool = False) -> None:
    """Refuse a frame that is no log at all: no rows, a `required` column missing or one of a wrong type: `DataError`.

    Actions are whole numbers, or `lists` of numbers.
    """
    check_names(frame.columns, source, required)
    if not frame.height:
        raise DataError(f"{source}: got no rows, expected at least one interaction")
    lives = LIFE_TYPES if set(LIFE) <= set(frame.columns) else {}
    sources = SOURCE_TYPES if set(SOURCE) <= set(frame.columns) else {}
    types = {**TYPES, **lives, **sources, "action": "lists of numbers" if lists else "whole numbers"}
    for name, expected in types.items():
        if name in frame.columns and not _HOLDS[expected](frame.schema[name]):
            raise DataError(f"{source}: column {name} holds values of type {frame.schema[name]}, expected {expected}")
    if set(LISTED) <= set(frame.columns):
        raise DataError(f"{source}: got columns {' and '.join(LISTED)}, expected one of them; drop the other")
    if CANDIDATE_PROPENSITIES in frame.columns and "candidates" not in frame.columns:
        raise DataError(f"{source}: column candidates is missing, which {CANDIDATE_PROPENSITIES} belongs to")


TYPES = {
    "position": "whole numbers",
    "propensity": "numbers",
    "reward": "numbers",
    "time": "times with a time zone",
    "user_id": "whole numbers or words",
    "decision_id": "words or whole numbers",
    "user": "lists of numbers",
    **dict.fromkeys(LISTED, "lists of whole numbers"),
    CANDIDATE_PROPENSITIES: "lists of numbers",
}
"""Types of the columns of Records, in words, but for the action."""

LIFE_TYPES = {
    "visitor": "whole numbers or words",
    "visit": "whole numbers",
    "step": "whole numbers",
    "ended": "true or false",
    "censored": "true or false",
}
"""Those of a log of visitors who come back."""

SOURCE_TYPES = dict(
    zip((*SOURCE, SOURCE_PRODUCTS), ("words", "words or whole numbers", "numbers", "whole numbers"), strict=True)
)
"""Those of a log that says where candidates came from."""


def _is_time(dtype: pl.DataType) -> bool:
    return dtype == pl.Null or (isinstance(dtype, pl.Datetime) and dtype.time_zone is not None)


def _is_id(dtype: pl.DataType) -> bool:
    return dtype == pl.Null or dtype.is_integer() or isinstance(dtype, pl.String | pl.Categorical | pl.Enum)


_HOLDS: dict[str, Callable[[Any], bool]] = {
    "whole numbers": lambda dtype: dtype.is_integer(),
    "numbers": lambda dtype: dtype.is_numeric(),
    "times with a time zone": _is_time,
    "whole numbers or words": _is_id,
    "words": lambda dtype: isinstance(dtype, pl.String | pl.Categorical | pl.Enum),
    "true or false": lambda dtype: dtype == pl.Boolean,
    "words or whole numbers": lambda dtype: dtype != pl.Object,
    "lists of numbers": lambda dtype: isinstance(dtype, pl.List) and dtype.inner.is_numeric(),
    "lists of whole numbers": lambda dtype: isinstance(dtype, pl.List) and dtype.inner.is_integer(),
}


def check_numeric(frame: pl.DataFrame, columns: Iterable[str], source: str) -> None:
    """Refuse further `columns` of a log, such as target probabilities, that hold no numbers: `DataError`."""
    for name in columns:
        if name not in frame.columns or not frame[name].dtype.is_numeric():
            raise DataError(f"{source}: column {name} is no column of numbers; it has {', '.join(frame.columns)}")


def id_faults(frame: pl.DataFrame) -> Iterator[Fault]:
    """Yield the rows whose decision_id an earlier row has."""
    if "decision_id" in frame.columns:
        ids = frame["decision_id"]
        again = ids.is_duplicated() & ~ids.is_first_distinct() & ids.is_not_null()
        shows_positions = "position" in frame.columns and frame["position"].n_unique() > 1
        yield Fault("decision_id", expected_id(shows_positions=shows_positions), again.to_numpy())


def expected_id(*, shows_positions: bool) -> str:
    """Say what is expected of a decision_id, in a log whose rows stand at several positions or at one."""
    hint = " (unless visits show rankings: evaluate --rankings)" if shows_positions else ""
    return f"an id that no earlier row has{hint}"


def reward_faults(frame: pl.DataFrame, name: str = "reward") -> Iterator[Fault]:
    """Yield the rows whose reward, in the column `name`, no sum can hold; missing ones are none of these."""
    rewards = floats(frame[name])
    is_known = frame[name].is_not_null().to_numpy()
    yield Fault(name, "a finite number", ~np.isfinite(rewards) & is_known)
    huge = np.abs(rewards) > LARGEST_REWARD
    yield Fault(name, f"at most {LARGEST_REWARD:g} in size; scale rewards", huge)


def missing_faults(frame: pl.DataFrame) -> Iterator[Fault]:
    """Yield the rows where a value is missing; a column of `MAY_BE_EMPTY` may lack all of them."""
    for name in (*REQUIRED, "propensity", *MAY_BE_EMPTY, "position"):
        missing = frame[name].null_count() if name in frame.columns else 0
        if missing and not (name in MAY_BE_EMPTY and missing == frame.height):
            yield Fault(name, "a value", frame[name].is_null().to_numpy())


def is_in_calendar(times: pl.Series) -> pl.Series:
    """Return where times are of years that Python knows; null where there is none."""
    return times.dt.year().is_between(FIRST_YEAR, LAST_YEAR)


def time_faults(frame: pl.DataFrame) -> Iterator[Fault]:
    """Yield the rows whose time is none that a calendar has."""
    if "time" in frame.columns and frame["time"].dtype != pl.Null:
        beyond = ~is_in_calendar(frame["time"]).fill_null(True)
        yield Fault("time", f"a time of the years {FIRST_YEAR} to {LAST_YEAR}", beyond.to_numpy())


def list_faults(frame: pl.DataFrame, name: str) -> Iterator[Fault]:
    """Yield the rows whose list in a column is of another length than most, or holds what is not finite."""
    lengths = frame[name].list.len()
    width = int(str(lengths.drop_nulls().mode().min() or 0))
    yield Fault(name, f"a list of {width} numbers as in most rows", (lengths != width).fill_null(True).to_numpy())
    values = frame[name].list.explode().cast(pl.Float64)
    # In most logs no number is bad. Only where one is, lists are looked at one by one, which takes long.
    if (values.abs() <= LARGEST_FEATURE).all() and not values.null_count():
        return
    fine = (pl.element().cast(pl.Float64).abs() <= LARGEST_FEATURE).fill_null(False)
    finite = frame.select(pl.col(name).list.eval(fine).list.all()).to_series()
    yield Fault(name, f"finite numbers, {LARGEST_FEATURE:g} at most", (~finite.fill_null(True)).to_numpy())


def bad_probabilities(column: pl.Series) -> BoolArray:
    """Mark the values `(n,)` that are not above 0 and at most 1; `missing_faults` finds those that are missing."""
    values = floats(column)
    return np.asarray(~((values > 0.0) & (values <= 1.0)) & column.is_not_null().to_numpy())


def floats(column: pl.Series) -> FloatArray:
    """Return a column of numbers `(n,)`, NaN where one is missing."""
    return np.ascontiguousarray(column.cast(pl.Float64).to_numpy())


def sound_rows(
    frame: pl.DataFrame,
    faults: Iterable[Fault],
    source: str,
    skip_bad: bool,
    table: pl.DataFrame | None = None,
    together: str | None = None,
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Return the rows without faults, and how many were skipped for each reason.

    Args:
        frame: n rows.
        faults: What is wrong with them; a row counts for the first fault that it has.
        source: What messages call the log.
        skip_bad: Leave bad rows out instead of refusing them.
        table: The user's own table, row for row, whose columns the faults name; by default `frame`.
        together: The column whose value bad rows share with others that are left out with them.

    Raises:
        DataError: a row is bad, and `skip_bad` is off: the first one, its column and what it holds are named; or all
            rows are bad.
    """
    bad, skipped, first = bad_rows(frame.height, faults)
    if not bad.any():
        return frame, {}
    if not skip_bad:
        row, column, expected = first
        named = frame if table is None or column not in table.columns else table
        got = f"row {row}, column {column}: got {shown_value(named[column], row)}, expected {expected}"
        raise DataError(refusal(source, got, int(bad.sum()), named.height))

    if together is not None:
        # A ranking or a life without one of its rows is none any more.
        with_bad = frame[together].is_in(frame[together].filter(bad).implode())
        others = with_bad.fill_null(False).to_numpy() & ~bad
        if others.any():
            skipped[f"{together}: the same as that of a bad row"] = int(others.sum())
        bad |= others
    if bad.all():
        reasons = "; ".join(f"{count:,} x {reason}" for reason, count in skipped.items())
        raise DataError(f"{source}: every one of {frame.height:,} rows is bad; {reasons}")
    return frame.filter(~bad), skipped


def bad_rows(n: int, faults: Iterable[Fault]) -> tuple[BoolArray, dict[str, int], tuple[int, str, str]]:
    """Mark the bad ones of n rows, count them by reason, and return the first: its row, column and what was expected.

    A row counts for the first fault that it has.
    """
    bad = np.zeros(n, bool)
    counts: dict[str, int] = {}
    first = (n, "", "")
    for column, expected, marked in faults:
        new = marked & ~bad
        if new.any():
            counts[f"{column}: expected {expected}"] = int(new.sum())
            first = min(first, (int(new.argmax()), column, expected))
            bad |= marked
    return bad, counts, first


def shown_value(values: pl.Series, row: int) -> str:
    """Return what stands in a row of a column, for a message."""
    if values.dtype.is_temporal():  # Python knows no years beyond 9999
        values = values.cast(pl.String)
    value = values[row]
    if value is None:
        return "nothing"
    return shown(value.to_list() if isinstance(value, pl.Series) else value)


def refusal(source: str, got: str, n_bad: int, n_rows: int) -> str:
    """Say why a log is refused: what was `got` in its first bad row, how many rows are bad, and what to do."""
    rows = f"{n_bad:,} of {n_rows:,} rows {'is' if n_bad == 1 else 'are'} bad"
    return f"{source}: {got}; {rows}; {ADVICE}"
