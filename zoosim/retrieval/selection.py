"""The largest of some numbers, without sorting them."""

from typing import Any

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import IntArray


@jit
def kth_largest(values: np.ndarray, k: int) -> Any:
    """Return the k-th largest of `values (n,)`, 1 <= k <= n, none of them NaN; changes their order.

    Source: Hoare (1961), algorithm 65, with the median of three as its pivot.
    """
    low = 0
    high = len(values) - 1
    while low < high:
        first, middle, last = values[low], values[(low + high) // 2], values[high]
        pivot = max(min(first, middle), min(max(first, middle), last))
        i = low
        j = high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        # From `low` to j are numbers no less than the pivot, from i to `high` no larger ones, between them the pivot.
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    return values[k - 1]


SAMPLE = 16
"""One number of so many is looked at to guess which others cannot be among the largest."""


@jit
def largest_places(values: np.ndarray, k: int) -> IntArray:
    """Return the places of the k largest of `values (n,)`, ascending `(k,)`; of equal ones the first.

    0 <= k <= n; no value is NaN.
    """
    if k == 0 or k == len(values):
        return np.arange(k)
    # About half as many again as are wanted are no less than this, so that few are moved about; where it was a bad
    # guess, all are.
    sample = values[::SAMPLE].copy()
    rank = k // SAMPLE + k // (2 * SAMPLE) + 8
    guess = kth_largest(sample, rank) if rank <= len(sample) else -np.inf
    places = np.flatnonzero(values >= guess)
    if len(places) < k:
        places = np.arange(len(values))
    least = kth_largest(values[places], k)
    n_larger = 0
    for place in places:
        n_larger += int(values[place] > least)
    largest = np.empty(k, np.int64)
    count = 0
    for place in places:
        is_larger = values[place] > least
        n_larger -= int(is_larger)
        # Where more than k are no less than the k-th, room is kept for those that are larger.
        if is_larger or (values[place] == least and count + n_larger < k):
            largest[count] = place
            count += 1
    return largest
