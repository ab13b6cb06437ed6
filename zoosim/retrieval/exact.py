"""The exact search: what a scan of all products finds, in less than half of its time."""

from pathlib import Path
from typing import Any, Self

import numpy as np

from zoosim.core.types import IntArray
from zoosim.retrieval.index import Matches, check_allowed, check_matches, check_queries
from zoosim.retrieval.scan import LANES, search_in_threads, search_slots
from zoosim.retrieval.vectors import Vectors, check_products, longest_first, read_index, write_index

FEW = 32
"""One product in so many, or fewer, are scored one by one: faster than a scan of all."""


class Exact:
    """Find the products with the largest inner products among up to some millions, exactly, under any mask.

    Scores are inner products of vectors in 32 bits and queries in 64, summed in 64; of products with equal scores the
    one with the lower id comes first. A search reads a quarter of the vectors' memory: they are kept a second time,
    rounded to 8 bits, with bounds on what rounding changes, and only what could be among the best by these bounds is
    scored. New products are found, and removed ones are not, from the next search on.

    Args:
        ids: Ids of products `(n,)`, whole numbers of 0 and up, each once.
        vectors: Their vectors `(n, d)`, up to 1e9 in size; kept in 32 bits.

    Raises:
        DataError: an id comes twice, or a vector is no finite number, or the two do not fit each other.
    """

    def __init__(self, ids: Any, vectors: Any) -> None:
        ids, vectors = check_products(ids, vectors)
        order = longest_first(vectors)
        self._vectors = Vectors(ids[order], vectors[order], np.arange(len(ids)), n_reserved=len(ids))

    @property
    def ids(self) -> IntArray:
        """Ids of the products that the index holds, ascending `(n,)`."""
        return self._vectors.ids

    @property
    def width(self) -> int:
        """Coordinates of a vector."""
        return self._vectors.width

    @property
    def version(self) -> str:
        """Names the ids and vectors, in 32 hexadecimal digits; the order in which they came does not count."""
        return self._vectors.version

    def search(self, queries: Any, k: int, allowed: Any = None) -> Matches:
        """Return the k products with the largest inner products for each query; see `Index.search`."""
        k = check_matches(k)
        checked = check_queries(queries, self.width)
        mask = np.zeros(0, bool) if allowed is None else check_allowed(allowed, self.ids)
        if allowed is not None and np.count_nonzero(mask) * FEW <= len(mask):
            places, scores = search_slots(self._vectors.stored, self._vectors.slots[mask], checked, k)
        else:
            blocks = np.arange(-(-self._vectors.n_slots // LANES))
            places, scores = search_in_threads(self._vectors.stored, blocks[None], checked, k, mask)
        return Matches(self._vectors.ids_at(places), scores)

    def add(self, ids: Any, vectors: Any) -> None:
        """Add products, or give those that the index holds a new vector; see `Index.add`.

        A call takes time in proportion to the number of all ids, so many at a time are faster than one by one.
        """
        self._vectors.add(ids, vectors)

    def remove(self, ids: Any) -> None:
        """Remove products; see `Index.remove`."""
        self._vectors.remove(ids)

    def vectors(self, ids: Any) -> np.ndarray:
        """Return the vectors of products `(m, d)` in 32 bits; raises `DataError` for an id that is not held."""
        return self._vectors.of(ids)

    def save(self, path: str | Path) -> None:
        """Write the index to a file with a checksum, whole or not at all."""
        write_index(path, "exact", self._vectors)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read an index that `save` wrote.

        Raises:
            DataError: the file is no such index, or not as it was written.
        """
        arrays = read_index(path, "exact", set())
        return cls(arrays["ids"], arrays["vectors"])
