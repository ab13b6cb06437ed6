"""A lazy argmax: while A only grows, a variance that was right once is an upper bound for ever after.

The candidates with the highest bounds are evaluated, until the best of all is one whose score is known. It chooses as a
scan of all candidates does, ties to the lowest index included, after a hundred evaluations among 50,000 candidates.
"""

from collections.abc import Callable

import numpy as np

from zoosim.core.types import FloatArray, IntArray

FIRST_BATCH = 16
LARGEST_BATCH = 64
SLACK = 1e-9
"""The share that bounds are raised by, so that rounding cannot bring one below the value that it bounds."""


def lazy_argmax(bounds: FloatArray, places: IntArray, evaluate: Callable[[IntArray], FloatArray]) -> int:
    """Return the candidate with the highest score, the lowest place on ties; -1 where none may be chosen.

    `bounds (R,)` are at least the scores, -inf for what may not be chosen, and are overwritten; `places (R,)` differ;
    `evaluate` returns the scores of the candidates that it is asked about.
    """
    is_known = np.zeros(len(bounds), bool)
    size = FIRST_BATCH
    while True:
        top = bounds.max()
        batch = _highest(bounds, is_known, size)
        ties = np.flatnonzero(bounds == top)
        # No bound is above the top, so where all that tie there are known, none of the others is better.
        if is_known[ties].all() or not len(batch):
            return int(ties[np.argmin(places[ties])]) if top > -np.inf else -1
        bounds[batch] = evaluate(batch)
        is_known[batch] = True
        # Larger batches while the best is not settled: each round costs a pass over all bounds.
        size = min(2 * size, LARGEST_BATCH)


def _highest(bounds: FloatArray, is_known: np.ndarray, size: int) -> IntArray:
    """Return up to `size` candidates of the highest bounds that are not known yet and may be chosen."""
    open_bounds = np.where(is_known, -np.inf, bounds)
    if size < len(bounds):
        highest = np.argpartition(open_bounds, len(bounds) - size)[len(bounds) - size :]
    else:
        highest = np.arange(len(bounds))
    return np.sort(highest[open_bounds[highest] > -np.inf])
