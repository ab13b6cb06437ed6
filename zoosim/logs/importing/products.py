"""A user's table of products: which category and which features each candidate has."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from zoosim.core.errors import DataError
from zoosim.core.parameters import shown, unknown
from zoosim.core.types import BoolArray, IntArray
from zoosim.logs.importing.candidates import DistinctCandidateLists
from zoosim.logs.importing.columns import checked_columns, list_column
from zoosim.logs.importing.tables import read_table
from zoosim.logs.importing.times import TimeNotation, read_times
from zoosim.schema.encoder import Encoder, fit_encoder
from zoosim.schema.schema import ProductColumns
from zoosim.schema.values import text_of, texts_of

FIRST, LAST = -(2**62), 2**62
"""Before and after all times, in microseconds since 1970."""


class ImportedProducts:
    """The rows of a product table, checked as far as candidates need them."""

    def __init__(self, mapped: ProductColumns) -> None:
        """Read the table; raises `DataError` for one that cannot be read or lacks a column."""
        self.mapped = mapped
        self.frame, source = read_table(mapped.table)
        self.source = "products" if source == "table" else source
        ids = [mapped.id, *([mapped.category] if mapped.category else [])]
        for name in [*ids, *mapped.features, *mapped.sale]:
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

    def for_sale(self, names: Sequence[str], times: pl.Series, notation: TimeNotation) -> DistinctCandidateLists:
        """Return which of the products called `names` were for sale at each time.

        Args:
            names: Products that the table describes.
            times: When the rows came, in UTC.
            notation: How the table writes times, in UTC where nothing is said.
        """
        place = {name: row for row, name in enumerate(self.ids)}
        rows = [place[name] for name in names]
        begins = self._sale_times(self.mapped.sold_from, rows, FIRST, notation)
        ends = self._sale_times(self.mapped.sold_until, rows, LAST, notation)
        # Between two changes the same products are for sale, so all rows that came then share one list.
        changes = np.unique(np.concatenate([begins, ends]))
        period_of_row = np.searchsorted(changes, times.dt.epoch("us").fill_null(0).to_numpy(), side="right")
        lists = []
        rows_of = []
        for period in np.unique(period_of_row):
            moment = changes[period - 1] if period else FIRST
            is_sold = (begins <= moment) & (moment < ends)
            lists.append([name for name, sold in zip(names, is_sold, strict=True) if sold])
            rows_of.append(np.flatnonzero(period_of_row == period))
        return DistinctCandidateLists(lists, rows_of)

    def _sale_times(self, column: str | None, rows: list[int], default: int, notation: TimeNotation) -> IntArray:
        """Return times of a column in microseconds since 1970, `default` where there is none."""
        if column is None:
            return np.full(len(rows), default)
        values = self.frame[column]
        if values.dtype == pl.String:
            values = pl.Series(column, [text_of(value) for value in values], pl.String)
        times = read_times(values, notation, self.source)
        self._refuse(
            column, "a time, or nothing", (times.is_null() & values.is_not_null()).to_numpy(), np.arange(len(times))
        )
        return np.asarray(times.dt.epoch("us").fill_null(default).to_numpy()[rows])

    def fit(self, names: list[str], **options: Any) -> Encoder:
        """Return an encoder of the features, fitted to the products called `names`."""
        return fit_encoder(self._rows(names), self.mapped.features, self.source, **options)

    def drift(self, names: list[str], encoder: Encoder) -> dict[str, str]:
        """Return what is new to an encoder among the products called `names`, by column."""
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

    def describe_others(self, names: list[str], encoder: Encoder) -> pl.DataFrame:
        """Return the same columns of the other products, as far as the table describes them, in its order.

        Rows without an id or a category, and later rows of an id, are left out: nobody was shown such a product.
        """
        is_other = self.ids.is_not_null() & self.ids.is_first_distinct() & ~self.ids.is_in(names).fill_null(True)
        if self.mapped.category:
            is_other &= self.frame[self.mapped.category].is_not_null()
        others = self.frame.filter(is_other)
        products = pl.DataFrame(
            {"product_id": self.ids.filter(is_other), "product": list_column("product", encoder.encode(others))}
        )
        if not self.mapped.category:
            return products
        return products.with_columns(category=others[self.mapped.category].cast(pl.String))

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
