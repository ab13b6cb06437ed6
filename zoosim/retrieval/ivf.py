"""The approximate search of many millions: only the lists of products that lie where a query points are looked at."""

import math
from pathlib import Path
from typing import Any, Self

import numpy as np

from zoosim.core.checks import check_number, check_whole
from zoosim.core.digests import short_digest
from zoosim.core.types import FloatArray, IntArray
from zoosim.retrieval.checks import MOST_VECTORS, check_products
from zoosim.retrieval.index import Index
from zoosim.retrieval.lists import Lists, choose_blocks, cluster, expected_spreads
from zoosim.retrieval.scan import LANES
from zoosim.retrieval.vectors import PACKING, Vectors, longest_first, read_index, write_index

LEAST_PER_LIST = 39
"""Vectors to a list without which its centre is not to be trusted: faiss warns below it."""

MOST_LISTS = 65_536
IN_TAIL = -1
"""Stands for the list of products that came after the index was built."""


class IVF(Index):
    """Find most of the products with the largest inner products among many millions (an inverted file).

    Products are put into lists by the direction of their vectors, by k-means, and in each list into blocks of 64 by
    their norm. A list's centre and spread and a block's norm say what the block's best product is expected to score,
    and a search looks at a share of all blocks, those with the highest expectation; in these it is exact, as `Exact`
    is. So norms that differ, as those of popular and rare products do, cost nothing: long vectors stand together.

    Products that come later stand in no list, since no centre may know their kind: all of them are looked at in every
    search. Build a new index when they are many. Removed products are not found from the next search on. Where a mask
    allows few products, all of these are scored; where it allows a part, that many times more blocks are looked at.

    Args:
        ids: Ids of products `(n,)`, whole numbers of 0 and up, each once.
        vectors: Their vectors `(n, d)`, up to 1e9 in size; kept in 32 bits.
        n_lists: How many lists, at most one per 39 products; None: the square root of n, within that.
        share: The share of blocks that a search looks at, above 0 and at most 1.

    Raises:
        DataError: an id comes twice, or a vector is no finite number, or the two do not fit each other.
        ConfigError: `n_lists` or `share` is out of its range, or the extra `faiss`, which does the k-means, is not
            installed. A saved index is read and searched without it.
    """

    def __init__(self, ids: Any, vectors: Any, *, n_lists: int | None = None, share: float = 0.05) -> None:
        ids, vectors = check_products(ids, vectors)
        n_lists = _check_lists(n_lists, len(ids))
        share = check_number("share", share, 0, 1, above=True)
        centres, list_of_each = cluster(vectors, n_lists)
        lists, block_of_each = _arrange(vectors, centres, list_of_each)
        self._build(ids, vectors, lists, block_of_each, share)

    @property
    def n_tail(self) -> int:
        """How many products came after the index was built, which every search looks at."""
        return int(np.count_nonzero(self._vectors.slots >= self._vectors.first_free))

    @property
    def version(self) -> str:
        """Names what the index holds and in which blocks, and how much of it a search looks at."""
        parts = (self._lists.centres, self._lists.first_blocks, self._block_of_each())
        return short_digest(self._vectors.version, repr(self.share), *(part.tobytes() for part in parts))

    def save(self, path: str | Path) -> None:
        """Write the index to a file with a checksum, whole or not at all."""
        arrays = {"block_of_each": self._block_of_each(), "share": np.array([self.share])}
        write_index(path, "IVF", self._vectors, **self._lists._asdict(), **arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read an index that `save` wrote.

        Raises:
            DataError: the file is no such index, or not as it was written.
        """
        arrays = read_index(path, "IVF", {*Lists._fields, "block_of_each", "share"})
        lists = Lists(arrays["centres"], arrays["first_blocks"])
        block_of_each = arrays["block_of_each"]
        share = arrays["share"]
        if not _fit_each_other(arrays["vectors"], lists, block_of_each, share):
            raise PACKING.broken(Path(path), "its arrays do not fit one another")
        index = cls.__new__(cls)
        index._build(arrays["ids"], arrays["vectors"], lists, block_of_each, float(share[0]))
        return index

    def _build(self, ids: IntArray, vectors: np.ndarray, lists: Lists, block_of_each: IntArray, share: float) -> None:
        self.share = share
        self._lists = lists
        self._spreads = expected_spreads(lists.centres)
        order = np.argsort(block_of_each, kind="stable")
        in_tail = order[: np.count_nonzero(block_of_each == IN_TAIL)]
        listed = order[len(in_tail) :]
        blocks = block_of_each[listed]
        place_in_block = np.arange(len(blocks)) - np.searchsorted(blocks, blocks)
        slots = blocks * LANES + place_in_block
        self._vectors = Vectors(ids[listed], vectors[listed], slots, n_reserved=int(lists.first_blocks[-1]) * LANES)
        self._vectors.add(ids[in_tail], vectors[in_tail])

    def _blocks(self, queries: FloatArray, share_allowed: float) -> IntArray:
        """Return a share of the blocks in lists for each query, and those of the tail `(Q, R)`."""
        n_listed = int(self._lists.first_blocks[-1])
        tail = np.arange(n_listed, -(-self._vectors.n_slots // LANES))
        if not n_listed:
            return tail[None]
        # As many allowed products are looked at as without a mask.
        n_chosen = min(math.ceil(self.share / share_allowed * n_listed), n_listed)
        chosen = choose_blocks(self._lists, self._spreads, self._vectors.stored.norms, queries, n_chosen)
        if not len(tail):
            return chosen
        return np.column_stack([chosen, np.broadcast_to(tail, (len(queries), len(tail)))])

    def _block_of_each(self) -> IntArray:
        """Return the block of each product, in the order of their ids, `IN_TAIL` where it has no list `(n,)`."""
        slots = self._vectors.slots
        return np.where(slots >= self._vectors.first_free, IN_TAIL, slots // LANES)


def _arrange(vectors: np.ndarray, centres: np.ndarray, list_of_each: IntArray) -> tuple[Lists, IntArray]:
    """Return lists whose blocks hold vectors of like norm, and the block of each vector `(n,)`."""
    sizes = np.bincount(list_of_each, minlength=len(centres))
    # Each list begins with a block of its own.
    first_blocks = np.append(0, np.cumsum(-(-sizes // LANES)))
    order = longest_first(vectors)
    order = order[np.argsort(list_of_each[order], kind="stable")]
    place_in_list = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    block_of_each = np.empty(len(order), np.int64)
    block_of_each[order] = first_blocks[list_of_each[order]] + place_in_list // LANES
    return Lists(centres, first_blocks), block_of_each


def _check_lists(n_lists: int | None, n: int) -> int:
    most = min(max(n // LEAST_PER_LIST, 1), MOST_LISTS)
    return check_whole("n_lists", min(math.isqrt(n) or 1, most) if n_lists is None else n_lists, 1, most)


def _fit_each_other(vectors: np.ndarray, lists: Lists, block_of_each: np.ndarray, share: np.ndarray) -> bool:
    """Return whether arrays that were read make an index."""
    centres, first_blocks = lists
    if not (
        centres.dtype == np.float32
        and centres.ndim == 2
        and 1 <= len(centres) <= MOST_LISTS
        and centres.shape[1] == vectors.shape[1]
        and np.isfinite(centres).all()
        and first_blocks.dtype == block_of_each.dtype == np.int64
        and first_blocks.shape == (len(centres) + 1,)
        and block_of_each.shape == (len(vectors),)
        and share.dtype == np.float64
        and share.shape == (1,)
    ):
        return False
    # As many blocks as there may have been vectors: removed ones leave theirs empty.
    most_blocks = MOST_VECTORS // LANES + len(centres)
    listed = block_of_each[block_of_each != IN_TAIL]
    return bool(
        first_blocks[0] == 0
        and (np.diff(first_blocks) >= 0).all()
        and first_blocks[-1] <= most_blocks
        and (not len(listed) or (listed.min() >= 0 and listed.max() < first_blocks[-1]))
        and (not len(listed) or np.bincount(listed).max() <= LANES)
        and 0 < share[0] <= 1
    )
