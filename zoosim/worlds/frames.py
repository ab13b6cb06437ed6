"""Read a table that a user names."""

import csv
from pathlib import Path

import polars as pl

from zoosim.core.csv_header import check_header
from zoosim.core.errors import DataError
from zoosim.core.files import place_of
from zoosim.core.parquet import UNREADABLE, read_parquet


def read_frame(path: Path) -> pl.DataFrame:
    """Read a CSV or Parquet file, or raise `DataError`."""
    path = place_of(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file; give a CSV or Parquet file")
    if path.suffix.lower() in (".parquet", ".pq"):
        return read_parquet(path)
    try:
        check_header(path)
        return pl.read_csv(path, glob=False, infer_schema_length=10_000, null_values=["nan", "NaN", "NAN", "-nan"])
    except DataError:
        raise
    except (*UNREADABLE, csv.Error) as error:
        raise DataError(f"{path}: cannot be read as a table: {str(error).splitlines()[0]}") from None
