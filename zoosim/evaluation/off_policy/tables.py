"""Read a user's table as it is: CSV as words, so that nothing is guessed; Parquet and data frames with their types."""

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from zoosim.core.errors import DataError

MISSING = ["", "nan", "NaN", "NAN", "null", "NULL", "None", "NA"]


def read_words(table: Any) -> tuple[pl.DataFrame, str]:
    """Return a CSV or Parquet file, or a data frame, as a frame, and what to call it in messages; or `DataError`."""
    if isinstance(table, pl.DataFrame):
        return table, "table"
    if isinstance(table, str | os.PathLike):
        return _read_file(Path(table)), str(table)
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):
        return pl.DataFrame({str(name): _column(np.asarray(table[name])) for name in table.columns}), "table"
    raise DataError(f"table: got a {type(table).__name__}, expected a CSV or Parquet file or a data frame")


def _column(values: np.ndarray) -> pl.Series:
    """Return a column of a foreign data frame; where it holds objects, words or lists, its NaN are missing values."""
    if values.dtype != object:
        return pl.Series(values)
    plain = [value.tolist() if isinstance(value, np.ndarray) else value for value in values]
    return pl.Series([None if value is None or value != value else value for value in plain], strict=False)


def _read_file(path: Path) -> pl.DataFrame:
    if not path.is_file():
        raise DataError(f"{path}: no such file; give a CSV or Parquet file")
    parquet = path.suffix.lower() in (".parquet", ".pq")
    try:
        if parquet:
            return pl.read_parquet(path)
        frame = pl.read_csv(path, infer_schema=False, null_values=MISSING)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: cannot be read as a table, perhaps truncated: {reason}") from None
    _check_last_line(path, frame)
    return frame


def _check_last_line(path: Path, frame: pl.DataFrame) -> None:
    """Refuse a CSV file whose last line ends before its last column: a copy that broke off."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 1_000_000))
        lines = file.read().decode("utf-8", "replace").splitlines()
    fields = next(csv.reader(lines[-1:]), [])
    if frame.width > 1 and len(fields) < frame.width:
        cut = f"row {frame.height - 1}, column {frame.columns[len(fields)]}: got nothing"
        raise DataError(
            f"{path}: {cut}, the last line has {len(fields)} of {frame.width} columns; the file is truncated"
        )
