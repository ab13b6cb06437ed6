"""The different sets of candidates of a log that is read in blocks, numbered in the order in which they come."""

from typing import Any

import numpy as np
import polars as pl

from zoosim.core.blocks import RowArray, RowSpan, StoredRows
from zoosim.core.digests import short_hash
from zoosim.core.errors import DataError
from zoosim.core.types import BoolArray
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.schema import LISTED

MOST_IN_MEMORY = 20_000_000
"""Products in all different lists together; of more, the lists stay in a file."""

MOST_LISTS = 20_000_000
"""Different lists that can be told apart: each takes some 150 bytes of memory."""

MOST_LISTED = 2**40
HASH_BYTES = 16


class DistinctSets:
    """The lists of `n_rows` rows, each different one kept once, as `read_log` keeps them.

    They are told apart by hashes of 128 bits, and kept in a file.

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
        self._listed = StoredRows((MOST_LISTED,), np.int32)
        self._lengths: list[int] = []
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
        key = None if products is None else short_hash(products.to_numpy().tobytes(), HASH_BYTES)
        if key not in self._number_of:
            self._number_of[key] = len(self._lengths)
            if len(self._lengths) == MOST_LISTS:
                raise DataError(
                    f"{self._source}: column {self._name} holds more than {MOST_LISTS:,} different lists, too many to "
                    "be read in blocks; leave out --stream"
                )
            self._keep(self._unlisted if products is None else products.unique(maintain_order=True).to_numpy())
        return self._number_of[key]

    @property
    def _unlisted(self) -> np.ndarray:
        """The list of a row that says nothing: it could show everything."""
        return np.arange(0 if self._name == "unavailable" else self._n_actions, dtype=np.int32)

    def _keep(self, products: np.ndarray) -> None:
        stop = self._size + len(products)
        self._listed[self._size : stop] = products
        self._lengths.append(len(products))
        self._size = stop

    def candidates(self, first_set: RowArray) -> tuple[CandidateSets, Any]:
        """Return the sets, and which of them each row has `(n,)`: `first_set` where there is one, of all products."""
        if not self._lengths or (self._name == "unavailable" and not self._size):
            return CandidateSets.everything(self._n_actions), first_set
        starts = np.concatenate([[0], np.cumsum(self._lengths)])
        is_small = self._size <= MOST_IN_MEMORY
        products: Any = self._listed[: self._size] if is_small else RowSpan(0, self._size).of(self._listed)
        are_lacking = self._name == "unavailable"
        return CandidateSets(starts, products, self._n_actions, are_lacking=are_lacking), self._set_of_row
