"""The different sets of candidates of a log that is read in blocks, numbered in the order in which they come."""

from typing import Any

import numpy as np
import polars as pl

from zoosim.core.blocks import RowArray, StoredRows
from zoosim.core.errors import DataError
from zoosim.core.types import BoolArray
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.schema import LISTED

MOST_LISTED = 50_000_000
"""Products in all different lists together: with more, they would not fit in memory."""


class DistinctSets:
    """The lists of `n_rows` rows, each different one kept once, as `read_log` keeps them.

    Args:
        n_rows: How many rows there are.
        n_actions: How many products there are.
        source: What messages call the log.
    """

    def __init__(self, n_rows: int, n_actions: int, source: str) -> None:
        self._n_actions = n_actions
        self._source = source
        self._name = ""
        self._set_of_row = StoredRows((n_rows,), np.int64)
        self._number_of: dict[bytes | None, int] = {}
        self._lists: list[np.ndarray] = []
        self._size = 0

    def add(self, start: int, frame: pl.DataFrame, is_sound: BoolArray) -> None:
        """Take in the lists of rows from `start` on; raises `DataError` where they are too many."""
        listed = [name for name in LISTED if name in frame.columns]
        if not listed:
            return
        self._name = listed[0]
        numbers = np.zeros(frame.height, np.int64)
        lists = (
            frame.select(self._name)
            .with_row_index("row")
            .filter(is_sound)
            .with_columns(pl.col(self._name).cast(pl.List(pl.Int32)))
        )
        sets = lists.group_by(self._name, maintain_order=True).agg("row")
        for products, rows in zip(sets[self._name], sets["row"], strict=True):
            numbers[rows.to_numpy()] = self._number(products)
        self._set_of_row[start : start + frame.height] = numbers

    def _number(self, products: pl.Series | None) -> int:
        key = None if products is None else products.to_numpy().tobytes()
        if key not in self._number_of:
            self._number_of[key] = len(self._lists)
            if products is None:
                # A row that says nothing could show everything.
                unlisted = 0 if self._name == "unavailable" else self._n_actions
                self._lists.append(np.arange(unlisted, dtype=np.int32))
            else:
                self._lists.append(products.unique(maintain_order=True).to_numpy())
            self._size += len(self._lists[-1])
            if self._size > MOST_LISTED:
                raise DataError(
                    f"{self._source}: column {self._name} holds too many different lists to be read in blocks "
                    f"({len(self._lists):,}, with more than {MOST_LISTED:,} products); leave out --stream"
                )
        return self._number_of[key]

    def candidates(self, first_set: RowArray) -> tuple[CandidateSets, Any]:
        """Return the sets, and which of them each row has `(n,)`: `first_set` where there is one, of all products."""
        if not self._lists or (self._name == "unavailable" and not self._size):
            return CandidateSets.everything(self._n_actions), first_set
        starts = np.concatenate([[0], np.cumsum([len(products) for products in self._lists])])
        products = np.concatenate(self._lists)
        are_lacking = self._name == "unavailable"
        return CandidateSets(starts, products, self._n_actions, are_lacking=are_lacking), self._set_of_row
