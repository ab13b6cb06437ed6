"""Which products could be shown, row by row: a column of lists, or of words with a sign between them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from zoosim.core.types import BoolArray
from zoosim.schema.values import text_of


class CandidateLists(NamedTuple):
    """The different lists of a column, each with the `rows` that hold it, in the order in which they come."""

    names: list[list[str]]
    rows: list[np.ndarray]

    def all_names(self) -> set[str]:
        """Return every name that is listed."""
        return {name for names in self.names for name in names}


def read_lists(column: pl.Series, separator: str) -> CandidateLists:
    """Read lists, or words split by `separator`; what is missing is an empty list."""
    if isinstance(column.dtype, pl.List | pl.Array):
        lists = column.cast(pl.List(pl.String)).fill_null([])
    else:
        lists = column.cast(pl.String).fill_null("").str.split(separator)
    sets = pl.DataFrame({"listed": lists}).with_row_index("row").group_by("listed", maintain_order=True).agg("row")
    texts = [map(text_of, words) for words in sets["listed"].to_list()]
    names = [[text for text in listed if text is not None] for listed in texts]
    return CandidateLists(names, [rows.to_numpy() for rows in sets["row"]])


def unavailable(
    lists: CandidateLists, names: Sequence[str], n: int, *, are_candidates: bool
) -> tuple[pl.Series, BoolArray, BoolArray]:
    """Return the column `unavailable` of the Records, and where a list names what is no candidate or nothing at all.

    Lists name the row's candidates, or what could not be shown.
    """
    index = {name: action for action, name in enumerate(names)}
    gone: list[list[int]] = []
    list_of_row = np.zeros(n, np.int64)
    unknown_name, empty = np.zeros(n, bool), np.zeros(n, bool)
    for number, (words, rows) in enumerate(zip(lists.names, lists.rows, strict=True)):
        actions = {index[word] for word in words if word in index}
        gone.append(sorted(set(range(len(names))) - actions if are_candidates else actions))
        list_of_row[rows] = number
        unknown_name[rows] = any(word not in index for word in words)
        empty[rows] = not words
    column = pl.Series("unavailable", gone, dtype=pl.List(pl.Int64))[list_of_row]
    return column, unknown_name, empty & are_candidates
