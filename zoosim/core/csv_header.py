"""The first line of a CSV file, checked before the rest is read."""

import csv
import io
import re
from pathlib import Path

from zoosim.core.errors import DataError
from zoosim.core.files import open_file
from zoosim.core.parameters import shown

LONGEST_HEADER = 1_000_000
"""Bytes in which the names of all columns have to stand."""

MOST_COLUMNS = 2_000
"""Columns of a table, of any format: each is examined, which takes seconds for so many."""

SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
"""Separators of tables that are not read."""

JSON_START = re.compile(r"\s*(\{|\[\s*[\[{])")


def check_header(path: Path) -> None:
    """Refuse what is no CSV file by its first line, has too many columns, or calls two columns the same.

    Raises:
        DataError: as said.
        OSError, ValueError, csv.Error: the file cannot be read.
    """
    with open_file(path) as file:
        start = file.read(LONGEST_HEADER).decode("utf-8-sig", "replace")
    if JSON_START.match(start):
        raise DataError(f"{path}: holds JSON, expected CSV or Parquet; convert it, such as by pandas or polars")
    names = [name.strip() for name in next(csv.reader(io.StringIO(start, newline="")), [])]
    separators = [what for separator, what in SEPARATORS.items() if len(names) == 1 and separator in names[0]]
    if separators:
        raise DataError(f"{path}: has {separators[0]} between its columns, expected commas; save it with commas")
    check_width(path, len(names))
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{path}: calls two columns {shown(name)}, expected each name once; rename one")
        seen.add(name)


def check_width(path: Path, n_columns: int) -> None:
    """Refuse a table of too many columns; raises `DataError`."""
    if n_columns > MOST_COLUMNS:
        raise DataError(f"{path}: has {n_columns:,} columns, expected at most {MOST_COLUMNS:,}; leave some out")
