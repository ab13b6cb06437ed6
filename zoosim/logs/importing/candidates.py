"""Products that could be shown, row by row: a column of lists, or of words with a sign between them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from zoosim.core.types import BoolArray, FloatArray
from zoosim.schema.values import text_of


class DistinctCandidateLists(NamedTuple):
    """The different lists of a column, each with the `rows` that hold it, in the order in which they come."""

    names: list[list[str]]
    rows: list[np.ndarray]

    def all_names(self) -> set[str]:
        """Return every name that is listed."""
        return {name for names in self.names for name in names}


def read_lists(column: pl.Series, separator: str) -> DistinctCandidateLists:
    """Read lists, or words split by `separator`; what is missing is an empty list."""
    if isinstance(column.dtype, pl.List | pl.Array):
        lists = column.cast(pl.List(pl.String)).fill_null([])
    else:
        lists = column.cast(pl.String).fill_null("").str.split(separator)
    # Most rows share their list with others, so each different one is read once.
    sets = pl.DataFrame({"listed": lists}).with_row_index("row").group_by("listed", maintain_order=True).agg("row")
    texts = [map(text_of, words) for words in sets["listed"].to_list()]
    names = [[text for text in listed if text is not None] for listed in texts]
    return DistinctCandidateLists(names, [rows.to_numpy() for rows in sets["row"]])


def listed_column(
    name: str, lists: DistinctCandidateLists, names: Sequence[str], n: int
) -> tuple[pl.Series, BoolArray, BoolArray]:
    """Return a column of the Records, `candidates` or `unavailable`, and where a list names no product or none at all.

    Args:
        name: The column, and what the lists hold.
        lists: Names of products, by row.
        names: The products.
        n: How many rows there are.
    """
    index = {product: action for action, product in enumerate(names)}
    listed: list[list[int]] = []
    list_of_row = np.zeros(n, np.int64)
    unknown_name = np.zeros(n, bool)
    empty = np.zeros(n, bool)
    for number, (words, rows) in enumerate(zip(lists.names, lists.rows, strict=True)):
        listed.append(sorted({index[word] for word in words if word in index}))
        list_of_row[rows] = number
        unknown_name[rows] = any(word not in index for word in words)
        empty[rows] = not words
    return pl.Series(name, listed, dtype=pl.List(pl.Int64))[list_of_row], unknown_name, empty


def n_candidates(records: pl.DataFrame, n_products: int) -> FloatArray:
    """Return how many products could be shown in each row `(n,)`."""
    for name, sign in (("candidates", 1), ("unavailable", -1)):
        if name in records.columns:
            lengths = records[name].list.len().fill_null(0).to_numpy().astype(float)
            return lengths if sign == 1 else n_products - lengths
    return np.full(records.height, float(n_products))
