"""Lists of vectors that point the same way, and which of their blocks are worth a look for a query."""

from typing import Any, NamedTuple

import numpy as np

from zoosim.core.extras import needs_extra
from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.retrieval.scan import inner_product
from zoosim.retrieval.selection import largest_places

SPREADS = 2.0
"""How far the best vector of a block is expected beyond the centre of its list, in standard deviations."""

FIRST = 32
"""Blocks that are looked at first."""

SEED = 1234
ITERATIONS = 10


class Lists(NamedTuple):
    """L lists of vectors by their direction, each in blocks of vectors of like norm.

    `centres (L, D)`, the mean of the directions (vectors of norm 1) of a list; `first_blocks (L + 1,)`, where each list
    begins, and where the last ends.
    """

    centres: np.ndarray
    first_blocks: IntArray


def cluster(vectors: np.ndarray, n_lists: int) -> tuple[np.ndarray, IntArray]:
    """Return the centres `(n_lists, d)` of vectors `(n, d)` by their direction, and the list of each `(n,)`."""
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    # A vector of zeros has no direction: it stays one, and may be in any list.
    directions = vectors / np.maximum(norms, np.finfo(np.float32).tiny)[:, None]
    nearest = _nearest_means(directions, n_lists)
    centres = np.zeros((n_lists, vectors.shape[1]))
    sizes = np.maximum(np.bincount(nearest, minlength=n_lists), 1)
    for j in range(vectors.shape[1]):
        centres[:, j] = np.bincount(nearest, directions[:, j], minlength=n_lists) / sizes
    return centres.astype(np.float32), nearest


def _nearest_means(directions: np.ndarray, n_lists: int) -> IntArray:
    if n_lists == 1:
        return np.zeros(len(directions), np.int64)
    needs_extra("IVF", "faiss")
    import faiss

    kmeans: Any = faiss.Kmeans(directions.shape[1], n_lists, niter=ITERATIONS, seed=SEED, spherical=True)
    kmeans.train(directions)
    _, nearest = kmeans.index.search(directions, 1)
    return np.asarray(nearest[:, 0], np.int64)


@jit
def expected_spreads(centres: np.ndarray) -> FloatArray:
    """Return how far beyond its centre the best vector of a block of each list is expected `(n_lists,)`.

    2 s by `choose_blocks`.
    """
    n_lists, width = centres.shape
    spreads = np.empty(n_lists)
    for i in range(n_lists):
        squares = 0.0
        for value in centres[i]:
            squares += np.float64(value) ** 2
        spreads[i] = SPREADS * np.sqrt(max(1 - squares, 0.0) / width)
    return spreads


@jit
def choose_blocks(lists: Lists, spreads: FloatArray, norms: np.ndarray, queries: FloatArray, n_blocks: int) -> IntArray:
    """Return the blocks that hold the best vectors for queries `(Q, D)`, as far as lists tell `(Q, n_blocks)`.

    The score of a block's best vector is expected to be

        |x| (<q, c> + 2 s |q|),   s^2 = (1 - |c|^2) / D,

    x the longest vector of the block `norms (B,)`, c the centre of its list and s the standard deviation of a
    coordinate of the list's directions, were all alike: the mean of squares of a direction is 1 / D. `spreads` are the
    2 s of each list.

    The best blocks come first: the sooner the k-th best is known, the fewer others are scored. The others come as they
    lie in memory.
    """
    chosen = np.empty((len(queries), n_blocks), np.int64)
    expected = np.empty(lists.first_blocks[-1])
    for i in range(len(queries)):
        norm = np.sqrt(inner_product(queries[i], queries[i]))
        for j in range(len(spreads)):
            # Not by a product of matrices: libraries add up otherwise for one query than for many.
            direction = inner_product(lists.centres[j], queries[i]) + spreads[j] * norm
            for block in range(lists.first_blocks[j], lists.first_blocks[j + 1]):
                # A block whose vectors were all removed holds nothing, which is worse than any.
                expected[block] = norms[block] * direction if norms[block] > 0.0 else -np.inf
        candidates = largest_places(expected, n_blocks)
        is_first = np.zeros(n_blocks, np.bool_)
        is_first[largest_places(expected[candidates], min(n_blocks, FIRST))] = True
        chosen[i, : min(n_blocks, FIRST)] = candidates[is_first]
        chosen[i, min(n_blocks, FIRST) :] = candidates[~is_first]
    return chosen
