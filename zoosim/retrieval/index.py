"""What every index of product vectors does, and what a search returns."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.arrays import places_in
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.retrieval.checks import check_allowed, check_ids, check_matches, check_queries
from zoosim.retrieval.scan import read_slots, search_in_threads, search_slots
from zoosim.retrieval.vectors import Vectors

FEW = 32
"""One product in so many, or fewer, are scored one by one: faster than a scan of blocks, and nothing is missed."""


class Matches(NamedTuple):
    """The products with the largest inner products, the largest first.

    Attributes:
        ids: Ids of products `(Q, k)`; -1 behind the last where there are fewer than k.
        scores: Their inner products with the query `(Q, k)`; -inf where there is no product.
    """

    ids: IntArray
    scores: FloatArray


class Index(ABC):
    """Product vectors by id, and the search for those with the largest inner product with a query.

    Scores are inner products of vectors in 32 bits and queries in 64, summed in 64; of products with equal scores the
    one with the lower id comes first. The same content gives the same answers, to the bit: whether it came all at once
    or one by one, or from a file, and whether queries come alone or together.
    """

    _vectors: Vectors

    @property
    def ids(self) -> IntArray:
        """Ids of the products that the index holds, ascending `(n,)`."""
        return self._vectors.ids

    @property
    def width(self) -> int:
        """Coordinates of a vector."""
        return self._vectors.width

    @property
    @abstractmethod
    def version(self) -> str:
        """Names what the index holds and how it searches, in hexadecimal digits: equal versions find the same."""

    def without(self, ids: Any) -> BoolArray:
        """Return which products a search may find that is to find all but these `(m,)`: a mask over `ids (n,)`.

        Ids that the index does not hold change nothing.

        Raises:
            DataError: ids are no whole numbers, or one comes twice.
        """
        mask = np.ones(len(self.ids), bool)
        places = places_in(self.ids, check_ids("ids", ids))
        mask[places[places >= 0]] = False
        return mask

    def search(self, queries: Any, k: int, allowed: Any = None) -> Matches:
        """Return the k products with the largest inner products for each query.

        Args:
            queries: One query `(d,)` or several `(Q, d)`, numbers up to 1e9 in size.
            k: How many products, 1 to 100,000.
            allowed: Which products may be found: a mask over `ids (n,)`, or some of the ids `(m,)`. None: all.

        Raises:
            DataError: a query or a mask has another shape than expected, or holds what is no finite number, or an
                allowed id is not held.
            ConfigError: `k` is no whole number within its range.
        """
        slots, scores = self._search(queries, k, allowed)
        return Matches(self._vectors.ids_in(slots), scores)

    def retrieve(self, query: Any, k: int, allowed: Any = None) -> tuple[IntArray, np.ndarray]:
        """Return the ids `(m,)` that `search` finds for one query, and their vectors `(m, d)` in 32 bits.

        Takes a fraction of the time of `search` and `vectors` together. There are fewer than k where there are, or may
        be found, fewer products.

        Raises:
            DataError: as `search` does.
            ConfigError: as `search` does.
        """
        slots, _ = self._search(query, k, allowed)
        return read_slots(self._vectors.stored, slots[0])

    def _search(self, queries: Any, k: int, allowed: Any) -> tuple[IntArray, FloatArray]:
        """Return the slots and scores `(Q, k)` of the best products for each query, the best first."""
        k = check_matches(k)
        checked = check_queries(queries, self.width)
        mask = np.zeros(0, bool) if allowed is None else check_allowed(allowed, self.ids)
        n_allowed = len(self.ids) if allowed is None else int(np.count_nonzero(mask))
        if n_allowed * FEW <= len(self.ids):
            return search_slots(self._vectors.stored, self._vectors.slots[mask], checked, k)
        return self._scan(checked, k, mask, n_allowed / len(self.ids))

    def _scan(self, queries: FloatArray, k: int, mask: BoolArray, share_allowed: float) -> tuple[IntArray, FloatArray]:
        """Return what a search finds among many products, of which `mask (n,)` allows some; empty for all."""
        return search_in_threads(self._vectors.stored, self._blocks(queries, share_allowed), queries, k, mask)

    @abstractmethod
    def _blocks(self, queries: FloatArray, share_allowed: float) -> IntArray:
        """Return the blocks to look at for each query `(Q, R)`, or for all `(1, R)`."""

    def add(self, ids: Any, vectors: Any) -> None:
        """Add products, or give those that the index holds a new vector; the next search finds them.

        A call takes time in proportion to the number of all ids, so many at a time are faster than one by one.

        Args:
            ids: Ids of products `(m,)`, whole numbers of 0 and up, each once.
            vectors: Their vectors `(m, d)`, up to 1e9 in size.

        Raises:
            DataError: an id comes twice, a vector is no finite number, or the two do not fit each other or the index.
        """
        self._vectors.add(ids, vectors)

    def remove(self, ids: Any) -> None:
        """Remove products `(m,)`: no search finds them from now on.

        Raises:
            DataError: an id is not held; none is removed.
        """
        self._vectors.remove(ids)

    def vectors(self, ids: Any) -> np.ndarray:
        """Return the vectors of products `(m, d)` in 32 bits; raises `DataError` for an id that is not held."""
        return self._vectors.of(ids)

    @abstractmethod
    def save(self, path: str | Path) -> None:
        """Write the index to a file with a checksum, whole or not at all."""
