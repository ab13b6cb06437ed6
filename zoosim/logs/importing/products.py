"""A user's table of products: which category and which features each candidate has."""

from typing import Any

import numpy as np
import polars as pl

from zoosim.core.errors import DataError
from zoosim.core.parameters import shown, unknown
from zoosim.core.types import BoolArray
from zoosim.logs.importing.columns import checked_columns, list_column
from zoosim.logs.importing.tables import read_table
from zoosim.schema.encoder import Encoder, fit_encoder
from zoosim.schema.schema import ProductColumns
from zoosim.schema.values import texts_of


class ProductTable:
    """The rows of a product table, checked as far as candidates need them."""

    def __init__(self, mapped: ProductColumns) -> None:
        """Read the table; raises `DataError` for one that cannot be read or lacks a column."""
        self.mapped = mapped
        self.frame, source = read_table(mapped.table)
        self.source = "products" if source == "table" else source
        ids = [mapped.id, *([mapped.category] if mapped.category else [])]
        for name in [*ids, *mapped.features]:
            if name not in self.frame.columns:
                raise DataError(f"{self.source}: {unknown('no column', name, self.frame.columns)}; correct the schema")
        if not self.frame.height:
            raise DataError(f"{self.source}: got no rows, expected one for each product")
        self.frame = checked_columns(self.frame, ids, self.source, ids=ids)
        self.ids = texts_of(self.frame[mapped.id])

    @property
    def known(self) -> set[str]:
        """The ids that the table describes."""
        return set(self.ids.drop_nulls())

    def fit(self, names: list[str], **options: Any) -> Encoder:
        """Return an encoder of the features, fitted to the products called `names`."""
        return fit_encoder(self._rows(names), self.mapped.features, self.source, **options)

    def drift(self, names: list[str], encoder: Encoder) -> dict[str, str]:
        """Tell what is new to an encoder among the products called `names`, by column."""
        return {f"{column} (products)": note for column, note in encoder.drift(self._rows(names)).items()}

    def _rows(self, names: list[str]) -> pl.DataFrame:
        return self.frame.filter(self.ids.is_in(names).fill_null(False))

    def describe(self, names: list[str], encoder: Encoder) -> pl.DataFrame:
        """Return `product_id`, `product` (features) and, where the table has it, `category`, in the order of `names`.

        Other rows are not looked at. Raises `DataError` naming row and column for an id twice and a missing category,
        and naming the product for one without a row.
        """
        self._check_described(names)
        rows = np.flatnonzero(self.ids.is_in(names).fill_null(False).to_numpy())
        used = self.frame[rows]
        ids = self.ids[rows]
        self._refuse(self.mapped.id, "an id that no earlier row has", ~ids.is_first_distinct().to_numpy(), rows)
        place = {str(name): row for row, name in enumerate(ids)}
        order = [place[name] for name in names]
        features = encoder.encode(used)[order]
        products = pl.DataFrame({"product_id": names, "product": list_column("product", features)})
        if not self.mapped.category:
            return products
        self._refuse(self.mapped.category, "a value", used[self.mapped.category].is_null().to_numpy(), rows)
        return products.with_columns(category=used[self.mapped.category].cast(pl.String)[order])

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
