"""Product vectors with norms that differ, and the plain search that indexes are held to."""

import numpy as np

from zoosim.core.types import BoolArray, FloatArray, IntArray


def draw_vectors(n: int, width: int, seed: int = 0) -> tuple[IntArray, np.ndarray]:
    """Return ids `(n,)` in no order, with gaps, and vectors `(n, width)` of log-normal norms."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(3 * n)[:n]
    directions = rng.normal(size=(n, width))
    return ids, (directions * np.exp(rng.normal(size=(n, 1)))).astype(np.float32)


def search_plainly(
    ids: IntArray, vectors: np.ndarray, query: FloatArray, k: int, mask: BoolArray
) -> tuple[IntArray, FloatArray]:
    """Return the ids and scores of the k best under a mask: all scores, sorted; the lower id first of equal ones."""
    allowed_ids = ids[mask]
    scores = vectors[mask].astype(float) @ query
    best = np.lexsort((allowed_ids, -scores))[:k]
    return allowed_ids[best], scores[best]
