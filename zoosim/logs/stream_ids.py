"""Ids of decisions and visitors of a log that is read in blocks: compared, and numbered, by their hashes."""

import numpy as np
import polars as pl

from zoosim.core.blocks import StoredRows, row_blocks
from zoosim.core.errors import DataError
from zoosim.core.types import BoolArray, IntArray, Progress
from zoosim.schema.values import ids_of

AT_ONCE = 4_000_000
"""Hashes that are sorted at once; of more, one part after another."""

MOST_USERS = 20_000_000
"""Users whose ids are words that can be told apart: each takes 16 bytes of memory."""


class RepeatedIds:
    """Finds the rows of `n_rows` whose id an earlier row has, by hashes that are kept in a file meanwhile.

    Of 100 million different ids, two share a hash of 64 bits with a probability of 0.0003.
    """

    def __init__(self, n_rows: int) -> None:
        self._hashes = StoredRows((n_rows,), np.uint64)
        self._last: int | None = None
        self._are_sorted = True
        self._is_empty = True

    def add(self, start: int, ids: pl.Series) -> None:
        """Take in the ids of rows from `start` on; where nothing stands there is none."""
        if ids.null_count() == len(ids):
            self._are_sorted = False
            self._hashes[start : start + len(ids)] = np.zeros(len(ids), np.uint64)
            return
        self._is_empty = False
        self._are_sorted = self._are_sorted and self._continues(ids)
        hashes = _hashes(ids)
        hashes[ids.is_null().to_numpy()] = 0
        self._hashes[start : start + len(ids)] = hashes

    def _continues(self, ids: pl.Series) -> bool:
        """Return whether ids are whole numbers that go on rising, none of which can come twice."""
        if not ids.dtype.is_integer() or ids.null_count():
            return False
        values = ids.to_numpy()
        rises = bool((values[1:] > values[:-1]).all()) and (self._last is None or int(values[0]) > self._last)
        self._last = int(values[-1])
        return rises

    def repeated(self, progress: Progress) -> IntArray:
        """Return the rows whose id an earlier row has, in order."""
        n = len(self._hashes)
        if self._is_empty or self._are_sorted:
            return np.zeros(0, np.int64)
        parts = -(-n // AT_ONCE)
        found = []
        for part in range(parts):
            progress(f"compared the decision_ids of {part} of {parts} parts of {n:,} rows")
            rows, hashes = self._part(part, parts)
            order = np.argsort(hashes, kind="stable")
            again = np.flatnonzero(hashes[order][1:] == hashes[order][:-1]) + 1
            found.append(rows[order[again]])
        return np.sort(np.concatenate(found))

    def _part(self, part: int, parts: int) -> tuple[IntArray, np.ndarray]:
        """Return the rows of one part of the hashes, and their hashes."""
        rows, hashes = [], []
        for block in row_blocks(len(self._hashes)):
            own = self._hashes[block]
            chosen = np.flatnonzero((own % np.uint64(parts) == part) & (own != 0))
            rows.append(block.start + chosen)
            hashes.append(own[chosen])
        return np.concatenate(rows), np.concatenate(hashes)


class UserNumbers:
    """Numbers users whose ids are words in the order in which they come, as `read_log` does: `numbers (n,)`.

    A row that names none is of a user of its own.
    """

    def __init__(self, n_rows: int, source: str) -> None:
        self.numbers = StoredRows((n_rows,), np.int64)
        self._source = source
        self._known = np.zeros(0, np.uint64)
        self._number_of = np.zeros(0, np.int64)
        self._next = 0

    def add(self, start: int, ids: pl.Series, is_sound: BoolArray) -> None:
        """Take in the ids of rows from `start` on; those that are not sound get the number 0."""
        numbers = np.zeros(len(ids), np.int64)
        numbers[is_sound] = self._add(ids_of(ids.filter(is_sound)))
        self.numbers[start : start + len(ids)] = numbers

    def _add(self, ids: pl.Series) -> IntArray:
        """Return the number of each user `(m,)`; raises `DataError` for too many users."""
        hashes = _hashes(ids)
        is_named = ids.is_not_null().to_numpy()
        distinct, first, place = np.unique(hashes[is_named], return_index=True, return_inverse=True)
        at = np.searchsorted(self._known, distinct)
        is_new = np.append(self._known, np.uint64(0))[at] != distinct
        is_new |= at == len(self._known)
        # Numbers go by the rows where users come first, those that nobody names included.
        comes_first = np.zeros(len(hashes), bool)
        comes_first[~is_named] = True
        comes_first[np.flatnonzero(is_named)[first[is_new]]] = True
        number_at = self._next + np.cumsum(comes_first) - 1
        self._next += int(comes_first.sum())
        numbers = np.empty(len(distinct), np.int64)
        numbers[~is_new] = self._number_of[at[~is_new]]
        numbers[is_new] = number_at[np.flatnonzero(is_named)[first[is_new]]]
        own = number_at.copy()
        own[is_named] = numbers[place.reshape(-1)]
        self._known = np.insert(self._known, at[is_new], distinct[is_new])
        self._number_of = np.insert(self._number_of, at[is_new], numbers[is_new])
        if len(self._known) > MOST_USERS:
            raise DataError(
                f"{self._source}: column user_id names more than {MOST_USERS:,} users by words; number them "
                "(whole numbers) to have the log read in blocks"
            )
        return own


def _hashes(ids: pl.Series) -> np.ndarray:
    """Return a hash of each id `(m,)`, above 0."""
    words = ids if ids.dtype.is_integer() else ids.cast(pl.String)
    return np.asarray(np.maximum(words.hash().to_numpy(), np.uint64(1)))
