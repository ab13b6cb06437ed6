"""A user's table of products: which category and which features each candidate has."""

from typing import Any

import numpy as np
import polars as pl
from pydantic import Field

from zoosim.core.config import Strict
from zoosim.core.errors import DataError
from zoosim.core.parameters import shown, unknown
from zoosim.core.types import BoolArray
from zoosim.logs.importing.encoding import checked_columns, encoded, unusable
from zoosim.logs.importing.tables import read_table


class Products(Strict):
    """Where products are described: a CSV or Parquet file or a data frame, and its columns."""

    table: Any
    id: str
    category: str | None = None
    features: list[str] = Field(default_factory=list)


class ProductTable:
    """The rows of a product table, checked as far as candidates need them."""

    def __init__(self, mapped: Products) -> None:
        """Read the table; raises `DataError` for one that cannot be read or lacks a column."""
        self.mapped = mapped
        self.frame, source = read_table(mapped.table)
        self.source = "products" if source == "table" else source
        ids = [mapped.id, *([mapped.category] if mapped.category else [])]
        for name in [*ids, *mapped.features]:
            if name not in self.frame.columns:
                raise DataError(f"{self.source}: {unknown('no column', name, self.frame.columns)}; correct the mapping")
        if not self.frame.height:
            raise DataError(f"{self.source}: got no rows, expected one for each product")
        self.frame = checked_columns(self.frame, [*ids, *mapped.features], self.source, ids=ids)
        self.ids = self.frame[mapped.id].cast(pl.String)

    @property
    def known(self) -> set[str]:
        """The ids that the table describes."""
        return set(self.ids.drop_nulls())

    def describe(self, names: list[str]) -> pl.DataFrame:
        """Return `product_id`, `product` (features) and, where the table has it, `category`, in the order of `names`.

        Other rows are not looked at. Raises `DataError` naming row and column for an id twice, and for what is missing
        or not finite; and naming the product for one without a row.
        """
        self._check_described(names)
        rows = np.flatnonzero(self.ids.is_in(names).fill_null(False).to_numpy())
        used = self.frame[rows]
        ids = self.ids[rows]
        self._refuse(self.mapped.id, "an id that no earlier row has", ~ids.is_first_distinct().to_numpy(), rows)
        parts = [np.zeros((len(names), 0))]
        for name in self.mapped.features:
            self._refuse(name, *unusable(used[name]), rows)
            parts.append(encoded(used[name], self.source))
        place = {str(name): row for row, name in enumerate(ids)}
        order = [place[name] for name in names]
        columns = {"product_id": names, "product": pl.Series(np.hstack(parts)[order]).cast(pl.List(pl.Float64))}
        if not self.mapped.category:
            return pl.DataFrame(columns)
        self._refuse(self.mapped.category, "a value", used[self.mapped.category].is_null().to_numpy(), rows)
        return pl.DataFrame(columns).with_columns(category=used[self.mapped.category].cast(pl.String)[order])

    def _check_described(self, names: list[str]) -> None:
        known = self.known
        lacking = [name for name in names if name not in known]
        if lacking:
            some = ", ".join(lacking[:5]) + (", ..." if len(lacking) > 5 else "")
            raise DataError(f"{self.source}: column {self.mapped.id} has no row for {some}; describe every candidate")

    def _refuse(self, column: str, expected: str, bad: BoolArray, rows: np.ndarray) -> None:
        if bad.any():
            row = int(rows[bad.argmax()])
            value = self.frame[column][row]
            got = "nothing" if value is None else shown(value)
            place = f"row {row}, column {column}"
            raise DataError(f"{self.source}: {place}: got {got}, expected {expected}; mend the table of products")
