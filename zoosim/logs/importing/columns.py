"""Columns of a user's table that hold ids, numbers and times."""

from collections.abc import Collection, Iterable
from typing import Any

import polars as pl

from zoosim.core.errors import DataError
from zoosim.core.types import FloatArray
from zoosim.schema.values import BLANK, NO, YES

TRUTHS = {**dict.fromkeys(YES, 1.0), **dict.fromkeys(NO, 0.0)}


def checked_columns(
    frame: pl.DataFrame, names: Iterable[str], source: str, *, ids: Collection[str] = (), lists: str | None = None
) -> pl.DataFrame:
    """Return a table whose columns `names` hold numbers, times or words; that of `lists` may hold lists of them.

    Numbers in `ids` that other libraries write as 2.0 and NaN, as soon as one is missing, are whole numbers and
    nothing. Raises `DataError` for columns of another kind.
    """
    checked = []
    for name in dict.fromkeys(names):
        column = frame[name]
        inner: Any = column.dtype
        if name == lists and isinstance(column.dtype, pl.List | pl.Array):
            inner = column.dtype.inner
        if inner.is_nested() or inner in (pl.Object, pl.Binary):
            expected = "numbers or words" + (", or lists of them" if name == lists else "")
            raise DataError(f"{source}: column {name} holds values of type {column.dtype}, expected {expected}")
        if column.dtype in (pl.Categorical, pl.Enum):
            column = column.cast(pl.String)
        checked.append(whole_numbers(column) if name in ids else column)
    return frame.with_columns(checked)


def whole_numbers(column: pl.Series) -> pl.Series:
    """Return whole numbers as such however they are written, all else as it is; NaN is nothing."""
    if column.dtype == pl.List(pl.Float64):
        lists = column.cast(pl.List(pl.Int64), strict=False)
        return lists if lists.cast(column.dtype).equals(column) else column
    if not column.dtype.is_float():
        return column
    known = column.fill_nan(None)
    whole = known.cast(pl.Int64, strict=False)
    return whole if whole.cast(column.dtype).equals(known) else known


def numbers(column: pl.Series) -> pl.Series:
    """Return a column of numbers; what is none becomes null."""
    return column.cast(pl.Float64, strict=False)


def rewards(column: pl.Series) -> pl.Series:
    """Return a column of rewards as numbers, 1 and 0 where it holds yes and no in words; what is neither is null."""
    read = numbers(column)
    if column.dtype != pl.String or read.null_count() < read.len():
        return read
    return numbers(column.str.strip_chars(BLANK).str.to_lowercase().replace_strict(TRUTHS, default=None))


def list_column(name: str, rows: FloatArray) -> pl.Series:
    """Return the rows of an array `(n, d)` as a column of lists of numbers."""
    if not rows.shape[1]:
        return pl.Series(name, [[]], dtype=pl.List(pl.Float64)).new_from_index(0, len(rows))
    return pl.Series(name, rows).cast(pl.List(pl.Float64))
