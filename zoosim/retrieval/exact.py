"""The exact search: what a scan of all products finds, in less than half of its time."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from zoosim.core.devices import check_device
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.retrieval.checks import check_products
from zoosim.retrieval.index import Index
from zoosim.retrieval.scan import LANES
from zoosim.retrieval.vectors import Vectors, longest_first, read_index, write_index

if TYPE_CHECKING:
    from zoosim.retrieval.card_scan import CardScan


class Exact(Index):
    """Find the products with the largest inner products among up to some millions, exactly, under any mask.

    A search reads a quarter of the vectors' memory: they are kept a second time, rounded to 8 bits, with bounds on what
    rounding changes, and only what could be among the best by these bounds is scored.

    On a graphics card all products are scored in 32 bits, and the processor then scores those that could be among the
    best: the same is found, to the bit.

    Args:
        ids: Ids of products `(n,)`, whole numbers of 0 and up, each once.
        vectors: Their vectors `(n, d)`, up to 1e9 in size; kept in 32 bits.
        device: "cpu", compiled code without torch; or "cuda" or "mps", a graphics card through torch (the extra
            `torch`), which gets the vectors at the first search and anew after each change.

    Raises:
        DataError: an id comes twice, or a vector is no finite number, or the two do not fit each other.
        ConfigError: there is no such device here.
    """

    def __init__(self, ids: Any, vectors: Any, *, device: str = "cpu") -> None:
        self._card = _card_scan(check_device("device", device))
        ids, vectors = check_products(ids, vectors)
        order = longest_first(vectors)
        self._vectors = Vectors(ids[order], vectors[order], np.arange(len(ids)), n_reserved=len(ids))

    @property
    def version(self) -> str:
        """Names the ids and vectors, in 32 hexadecimal digits; the order in which they came does not count."""
        return self._vectors.version

    def save(self, path: str | Path) -> None:
        """Write the index to a file with a checksum, whole or not at all."""
        write_index(path, "exact", self._vectors)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "cpu") -> Self:
        """Read an index that `save` wrote, to be searched on a `device`.

        Raises:
            DataError: the file is no such index, or not as it was written.
            ConfigError: there is no such device here.
        """
        arrays = read_index(path, "exact", set())
        return cls(arrays["ids"], arrays["vectors"], device=device)

    def _scan(self, queries: FloatArray, k: int, mask: BoolArray, share_allowed: float) -> tuple[IntArray, FloatArray]:
        if self._card is None:
            return super()._scan(queries, k, mask, share_allowed)
        return self._card.search(self._vectors, queries, k, mask if len(mask) else None)

    def _blocks(self, queries: FloatArray, share_allowed: float) -> IntArray:
        return np.arange(-(-self._vectors.n_slots // LANES))[None]


def _card_scan(device: str) -> "CardScan | None":
    """Return the scan on a graphics card, None where the processor scans."""
    if device == "cpu":
        return None
    from zoosim.retrieval.card_scan import CardScan

    return CardScan(device)
