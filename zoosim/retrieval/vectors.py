"""Product vectors by id: added, replaced, removed, written to a file and read."""

from pathlib import Path
from typing import Any

import numpy as np

from zoosim.core.errors import DataError
from zoosim.core.packed import Packing, read_packed, write_packed
from zoosim.core.types import IntArray
from zoosim.retrieval.checks import MOST_VECTORS, check_ids, check_products, places_of
from zoosim.retrieval.content import content_sums
from zoosim.retrieval.scan import LANES, NO_ID, NO_SLOT, Stored, forget, new_stored, store

PACKING = Packing(b"zoosim index 1\n", "index", "save it anew", "the method save of an index writes it")


class Vectors:
    """Vectors in slots, and which id has which slot.

    Slots below `n_reserved` are given once, when the index is built: those of removed products stay empty, as an index
    may know what stands where. Products that come later get the slots behind, and these are used again.
    """

    def __init__(self, ids: IntArray, vectors: np.ndarray, slots: IntArray, n_reserved: int) -> None:
        self.n_slots = n_reserved
        self.first_free = n_reserved
        self.stored = new_stored(self.n_slots, vectors.shape[1])
        self._free = np.zeros(0, np.int64)
        store(self.stored, slots, ids, vectors)
        self._sums = content_sums(ids, vectors)
        order = np.argsort(ids)
        self._hold(ids[order], slots[order])

    @property
    def width(self) -> int:
        """Coordinates of a vector."""
        return int(self.stored.vectors.shape[1])

    @property
    def version(self) -> str:
        """32 hexadecimal digits of the ids and vectors; the order in which they came does not count."""
        return f"{self._sums[0]:016x}{self._sums[1]:016x}"

    def add(self, ids: Any, vectors: Any) -> None:
        """Add products, or give those that are held a new vector."""
        ids, vectors = check_products(ids, vectors, self.width)
        is_held = np.isin(ids, self.ids)
        if len(self.ids) + np.count_nonzero(~is_held) > MOST_VECTORS:
            raise DataError(f"ids: got more than {MOST_VECTORS:,} products in all, expected at most so many")
        self.remove(ids[is_held])
        slots = self._take_slots(len(ids))
        store(self.stored, slots, ids, vectors)
        self._sums += content_sums(ids, vectors)
        order = np.argsort(ids)
        before = np.searchsorted(self.ids, ids[order])
        self._hold(np.insert(self.ids, before, ids[order]), np.insert(self.slots, before, slots[order]))

    def remove(self, ids: Any) -> None:
        """Remove products, all or, where one is not held, none."""
        ids = check_ids("ids", ids)
        places = places_of(ids, self.ids, "ids")
        slots = self.slots[places]
        self._sums -= content_sums(ids, self.stored.vectors[slots])
        forget(self.stored, slots, np.unique(slots // LANES))
        self._free = np.append(self._free, slots[slots >= self.first_free])
        self._hold(np.delete(self.ids, places), np.delete(self.slots, places))

    def of(self, ids: Any) -> np.ndarray:
        """Return the vectors of products `(m, d)`."""
        places = places_of(check_ids("ids", ids), self.ids, "ids")
        return self.stored.vectors[self.slots[places]]

    def ids_in(self, slots: IntArray) -> IntArray:
        """Return the ids that stand in slots, -1 for slot -1."""
        if not len(self.ids):
            return slots
        return np.where(slots == NO_SLOT, NO_ID, self.stored.ids[slots])

    def _take_slots(self, count: int) -> IntArray:
        reused = self._free[:count]
        fresh = self.n_slots + np.arange(count - len(reused))
        n_slots = self.n_slots + len(fresh)
        room = len(self.stored.places)
        if n_slots > room:
            # By a share of what there is, so that products that come one by one are not all copied each time.
            self.stored = _enlarged(self.stored, max(n_slots, room + room // 8))
        self._free = self._free[len(reused) :]
        self.n_slots = n_slots
        return np.append(reused, fresh)

    def _hold(self, ids: IntArray, slots: IntArray) -> None:
        ids.flags.writeable = False
        self.ids = ids
        self.slots = slots
        self.stored.places[slots] = np.arange(len(slots))


def longest_first(vectors: np.ndarray) -> IntArray:
    """Return the order of vectors by their norm, the longest first."""
    return np.argsort(-np.einsum("ij,ij->i", vectors, vectors), kind="stable")


def write_index(path: str | Path, kind: str, vectors: Vectors, **arrays: np.ndarray) -> None:
    """Write an index's kind, ids, vectors and other arrays to a file with a checksum, whole or not at all."""
    held = {"ids": vectors.ids, "vectors": vectors.stored.vectors[vectors.slots]}
    write_packed(Path(path), PACKING, {"kind": kind}, held | arrays)


def read_index(path: str | Path, kind: str, names: set[str]) -> dict[str, np.ndarray]:
    """Return the arrays of an index of a kind: its ids, its vectors, and those `names`.

    Raises:
        DataError: the file is no such index, or not as it was written.
    """
    path = Path(path)
    header, arrays = read_packed(path, PACKING)
    if header.get("kind") != kind or set(arrays) != {"ids", "vectors"} | names:
        raise PACKING.broken(path, f"it is no {kind} index")
    try:
        check_products(arrays["ids"], arrays["vectors"])
    except DataError as error:
        raise PACKING.broken(path, str(error)) from None
    return arrays


def _enlarged(stored: Stored, capacity: int) -> Stored:
    larger = new_stored(capacity, stored.vectors.shape[1])
    for source, target in zip(stored, larger, strict=True):
        target[: len(source)] = source
    return larger
