"""Columns of a user's table as numbers: numbers as they are, words as a column each."""

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import polars as pl

from zoosim.core.errors import DataError
from zoosim.core.types import BoolArray, FloatArray

MAX_WORDS = 100


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
        checked.append(_whole(column) if name in ids else column)
    return frame.with_columns(checked)


def _whole(column: pl.Series) -> pl.Series:
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


def is_numeric(column: pl.Series) -> bool:
    """Whether at least half of what a column holds can be read as numbers: the rest are faults, not words."""
    return 2 * int(numbers(column).is_not_null().sum()) >= int(column.is_not_null().sum())


def encoded(column: pl.Series, source: str) -> FloatArray:
    """Return a feature as numbers `(n, 1)`, or `(n, words)` of 0 and 1; raises `DataError` for too many words."""
    if is_numeric(column):
        return np.asarray(numbers(column).to_numpy(), float).reshape(-1, 1)
    words = column.cast(pl.String)
    known = sorted(words.drop_nulls().unique())
    if len(known) > MAX_WORDS:
        got = f"column {column.name} has {len(known)} different words"
        raise DataError(f"{source}: {got}, expected numbers or {MAX_WORDS} words at most; leave it out of the mapping")
    return np.asarray(words.to_numpy()[:, None] == np.array(known, dtype=object)[None, :], float)


def unusable(column: pl.Series) -> tuple[str, BoolArray]:
    """Say what a feature should hold, and mark the rows `(n,)` where it does not."""
    if is_numeric(column):
        return "a finite number", (~numbers(column).is_finite().fill_null(False)).to_numpy()
    return "a value", column.is_null().to_numpy()
