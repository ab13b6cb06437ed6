"""Read a user's table as it is: CSV as words, so that nothing is guessed; Parquet and data frames with their types."""

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from zoosim.core.csv_header import check_header
from zoosim.core.errors import DataError
from zoosim.core.parquet import UNREADABLE, read_parquet
from zoosim.schema.values import MISSING


def read_table(table: Any) -> tuple[pl.DataFrame, str]:
    """Return a CSV or Parquet file, or a data frame, as a frame, and what to call it in messages; or `DataError`."""
    if isinstance(table, pl.DataFrame):
        return table, "table"
    if isinstance(table, str | os.PathLike):
        return _read_file(Path(table)), str(table)
    if not isinstance(table, pl.LazyFrame) and hasattr(table, "columns") and hasattr(table, "__getitem__"):
        return pl.DataFrame({str(name): _column(table[name]) for name in table.columns}), "table"
    raise DataError(f"table: got a {type(table).__name__}, expected a CSV or Parquet file or a data frame")


def _column(values: Any) -> pl.Series:
    """Return the column of a data frame of another library; lists keep to one kind, what is mixed objects."""
    array = np.asarray(values)
    if array.dtype != object:
        return pl.Series(array)
    held = [None if _is_missing(value) else value for value in array]
    first = next((value for value in held if value is not None), None)
    try:
        if isinstance(first, list | tuple | np.ndarray):
            return _lists([None if value is None else np.asarray(value).tolist() for value in held])
        return pl.Series(held)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series(held, dtype=pl.Object)


def _lists(held: list[Any]) -> pl.Series:
    """Return lists of words, or of numbers, which polars would cut to the first list's kind."""
    parts = [part for value in held if value is not None for part in value]
    words = any(isinstance(part, str) for part in parts)
    numbers = [None if value is None else np.asarray(value, float).tolist() for value in held] if not words else held
    return pl.Series(numbers, dtype=pl.List(pl.String if words else pl.Float64))


def _is_missing(value: Any) -> bool:
    return type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


def _read_file(path: Path) -> pl.DataFrame:
    if not path.is_file():
        raise DataError(f"{path}: no such file; give a CSV or Parquet file")
    if path.suffix.lower() in (".parquet", ".pq"):
        return read_parquet(path)
    try:
        check_header(path)
        frame = pl.read_csv(path, glob=False, infer_schema=False, null_values=sorted(MISSING))
        return _checked_end(path, frame)
    except DataError:
        raise
    except (*UNREADABLE, csv.Error) as error:
        reason = str(error).splitlines()[0]
        hint = "save it as UTF-8" if "utf-8" in reason.lower() else "perhaps truncated"
        raise DataError(f"{path}: cannot be read as a table, {hint}: {reason}") from None


def _checked_end(path: Path, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a CSV file's rows without blank lines at its end; refuse one whose last line ends before its last column.

    That is a copy that broke off.
    """
    with path.open("rb") as file:
        # polars fills up a last line that is cut short with nulls, as if it had ended there; only the text tells.
        file.seek(max(0, path.stat().st_size - 1_000_000))
        lines = file.read().decode("utf-8", "replace").splitlines()
    while frame.width > 1 and frame.height and lines and not lines[-1].strip():
        lines.pop()
        if all(value is None for value in frame.row(-1)):
            frame = frame.head(-1)
    fields = next(csv.reader(lines[-1:]), [])
    if frame.height and frame[-1, -1] is None and len(fields) < frame.width:
        cut = f"row {frame.height - 1}, column {frame.columns[len(fields)]}: got nothing"
        raise DataError(
            f"{path}: {cut}, the last line has {len(fields)} of {frame.width} columns; the file is truncated"
        )
    return frame
