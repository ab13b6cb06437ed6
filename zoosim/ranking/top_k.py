"""The k highest scores, without sorting all of them."""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray


@jit
def top(scores: FloatArray, out: IntArray) -> None:
    """Write the indices of the highest of `scores (K,)` to `out (k,)`, best first, the lowest index on ties; k <= K."""
    k = out.shape[0]
    lowest_kept = -np.inf
    best = np.full(k, -np.inf)
    filled = 0
    for p in range(scores.shape[0]):
        score = scores[p]
        # Strictly: of equal scores the one that came first, of the lower index, stays ahead.
        if filled < k or score > lowest_kept:
            # Insert into the sorted list; k is small, so shifting costs less than a heap.
            place = min(filled, k - 1)
            while place > 0 and best[place - 1] < score:
                best[place] = best[place - 1]
                out[place] = out[place - 1]
                place -= 1
            best[place] = score
            out[place] = p
            filled = min(filled + 1, k)
            lowest_kept = best[k - 1]


@jit
def top_of(scores: FloatArray, k: int) -> IntArray:
    """Return the indices `(k,)` of the highest of `scores (K,)` as `top` does; k <= K."""
    out = np.empty(k, np.int64)
    top(scores, out)
    return out
