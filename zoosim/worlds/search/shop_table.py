"""A table of a search shop's own, whose columns are checked as they are read."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from zoosim.core.errors import DataError
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.schema.values import product_key
from zoosim.worlds.frames import read_frame

LARGEST = 1e9
"""The largest number in a table, in size."""

MAX_ID = 2**62
"""The largest id of a product."""


def read_columns(file: str, needed: tuple[str, ...], what: str) -> "ShopTable":
    """Read a table of a shop's own.

    Args:
        file: The file, CSV or Parquet.
        needed: Columns that it must have.
        what: What its rows are, for messages.

    Raises:
        DataError: a column is missing, or there is no row.
    """
    frame = read_frame(Path(file))
    missing = [name for name in needed if name not in frame.columns]
    if missing:
        raise DataError(f"{file}: no column {missing[0]}; expected {', '.join(needed)}")
    if not frame.height:
        raise DataError(f"{file}: holds no {what}; give at least one row")
    return ShopTable(file, frame)


@dataclass(frozen=True)
class ShopTable:
    """A table of a shop's own; its columns are checked as they are read, and refused with `DataError`."""

    file: str
    frame: pl.DataFrame

    def _bad_type(self, name: str, expected: str) -> DataError:
        return DataError(f"{self.file}: column {name} holds {self.frame[name].dtype}, expected {expected}")

    def numbers(self, name: str, low: float = -LARGEST, high: float = LARGEST) -> FloatArray:
        """Return a column of numbers `(n,)` from `low` to `high`, 0 where the file has no such column."""
        if name not in self.frame.columns:
            return np.zeros(self.frame.height)
        column = self.frame[name]
        if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
            raise self._bad_type(name, "numbers")
        values = column.cast(pl.Float64).fill_null(np.nan).to_numpy()
        bad_rows = np.flatnonzero(~((values >= low) & (values <= high)))  # NaN is neither
        if len(bad_rows):
            row = bad_rows[0]
            got = "nothing" if column[int(row)] is None else f"{values[row]:g}"
            expected = f"a number from {low:g} to {high:g}"
            raise DataError(f"{self.file}: row {row + 1}, column {name}: got {got}, expected {expected}")
        return np.array(values, np.float64)

    def flags(self, name: str) -> BoolArray:
        """Return a column of 0 and 1 `(n,)`, or of yes and no, as such; no where the file has no such column."""
        values = self.numbers(name)
        bad_rows = np.flatnonzero((values != 0.0) & (values != 1.0))
        if len(bad_rows):
            row = bad_rows[0]
            raise DataError(f"{self.file}: row {row + 1}, column {name}: got {values[row]:g}, expected 0 or 1")
        return np.asarray(values == 1.0)

    def ids(self) -> IntArray:
        """Return the numbers of the ids in the column `id`, `(n,)`: whole numbers or texts, each once."""
        column = self.frame["id"]
        if column.dtype.is_integer():
            bad = column.is_null() | (column < 0) | (column > MAX_ID)
            if bad.any():
                row = int(bad.arg_max() or 0)
                raise DataError(f"{self.file}: row {row + 1}, column id: got {column[row]}, expected 0 to 2^62")
        names = self.names("id")
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            raise DataError(f"{self.file}: id {min(repeated)} is there more than once; give each product its own")
        return np.array([product_key(name) for name in names], np.int64)

    def names(self, column: str) -> list[str]:
        """Return a column of products' ids, whole numbers or texts, as texts."""
        if not (self.frame[column].dtype.is_integer() or self.frame[column].dtype == pl.String):
            raise self._bad_type(column, "whole numbers or texts")
        return self.texts(column)

    def numbers_of_names(self, name: str, known: Mapping[str, Any]) -> IntArray:
        """Return a column of names as their numbers in `known`, `(n,)`."""
        numbers: dict[Any, int] = {word: number for number, word in enumerate(known)}
        words = self.texts(name)
        for row, word in enumerate(words):
            if word not in numbers:
                raise DataError(f"{self.file}: row {row + 1}: unknown {name} {word!r}; known: {', '.join(known)}")
        return np.array([numbers[word] for word in words], np.int64)

    def texts(self, name: str) -> list[str]:
        """Return a column of texts."""
        if self.frame[name].dtype.is_nested() or self.frame[name].dtype == pl.Binary:
            raise self._bad_type(name, "texts")
        words = self.frame[name].to_list()
        empty = next((row for row, word in enumerate(words) if word is None or not str(word).strip()), None)
        if empty is not None:
            raise DataError(f"{self.file}: row {empty + 1}, column {name}: is empty, expected a text")
        return [str(word) for word in words]

    def embeddings(self, dim: int, order: Sequence[int] | IntArray | None = None) -> FloatArray:
        """Return embeddings `(n, d)` in some `order` of the rows, or `(0, d)` where the file has none."""
        present = [name for name in self.frame.columns if name[:1] == "e" and name[1:].isdigit()]
        if not present:
            return np.zeros((0, dim))
        expected = [f"e{n}" for n in range(dim)]
        if sorted(present) != sorted(expected):
            came = f"got {len(present)} columns of embeddings"
            raise DataError(f"{self.file}: {came}, expected e0 to e{dim - 1} (embedding_dim)")
        embeddings = np.column_stack([self.numbers(name) for name in expected])
        return embeddings if order is None else embeddings[order]
