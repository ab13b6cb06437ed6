"""Compiled steps that kernels share: grouping equal products, and choosing the best or any of what is available."""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.rng import mix
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.dense import copy_vector

DRAWS = 256
"""Posterior draws that make the distribution of a policy that samples: an action's probability is its share of them."""

NEGATIVE_ZERO = np.uint64(1 << 63)
"""The bits of -0.0, which must hash as 0.0 does."""


@jit
def draw_number(draw: float) -> int:
    """Return which of the posterior draws decides, by a `draw` in [0, 1): 0 to `DRAWS` - 1, each as likely."""
    return int(draw * DRAWS)


@jit
def posterior_key(key: np.ndarray, updates: IntArray) -> np.uint64:
    """Return the key of the posterior draws after so many updates.

    The draws change with what was learned, not with each decision: so the distribution of a decision is a function of
    the state, and asking for it moves nothing.

    Args:
        key: The policy's key, `(1,)` of 64 bits.
        updates: Number of updates so far, `(1,)`.
    """
    return np.uint64(key[0] ^ mix(np.uint64(updates[0])))


@jit
def distinct_rows(products: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the distinct rows `(R, d)` of `products (K, d)` as they come up, and the row `(K,)` that each one is.

    Hashes each row once: sorting the rows takes 10 times as long at 500 x 40. -0.0 is 0.0.
    """
    count, dim = products.shape
    # A power of two, so that a mask takes the remainder, and at most half full, so that probing ends soon.
    room = 1
    while room < 2 * count:
        room *= 2
    places = np.full(room, -1)
    firsts = np.empty(count, np.int64)
    row_of = np.empty(count, np.int64)
    found = 0
    for k in range(count):
        place = hash_row(products[k]) & (room - 1)
        while places[place] >= 0 and not _equal(products[firsts[places[place]]], products[k]):
            place = (place + 1) & (room - 1)
        if places[place] < 0:
            places[place] = found
            firsts[found] = k
            found += 1
        row_of[k] = places[place]
    rows = np.empty((found, dim))
    for r in range(found):
        copy_vector(products[firsts[r]], rows[r])
    return rows, row_of


@jit
def hash_row(row: FloatArray) -> int:
    """Return a hash of the numbers `(d,)`, the same for 0.0 and -0.0."""
    bits = row.view(np.uint64)
    hashed = np.uint64(0)
    for i in range(bits.shape[0]):
        if bits[i] != NEGATIVE_ZERO:
            hashed ^= bits[i]
        hashed = np.uint64(hashed * np.uint64(0x9E3779B97F4A7C15))
        # Low bits of a product depend on low bits alone, and these pick the place: the upper half is folded in.
        hashed ^= hashed >> np.uint64(32)
    return np.int64(hashed)  # type: ignore[return-value]


@jit
def _equal(a: FloatArray, b: FloatArray) -> bool:
    i = 0
    while i < a.shape[0] and a[i] == b[i]:
        i += 1
    return bool(i == a.shape[0])


@jit
def first_of_each(group_of: IntArray, available: BoolArray, groups: int) -> IntArray:
    """Return the first available product of each category `(groups,)`, -1 where there is none.

    Args:
        group_of: The category of each product, `(K,)`.
        available: Which products may be shown, `(K,)`.
        groups: Number of categories.
    """
    found = np.full(groups, -1)
    # Backwards, so that the first of a category is what stays.
    for k in range(available.shape[0] - 1, -1, -1):
        if available[k]:
            found[group_of[k]] = k
    return found


@jit
def best_of(scores: FloatArray, row_of: IntArray, available: BoolArray) -> int:
    """Return the available product with the highest score of its row, the lowest index on ties, -1 where there is none.

    Args:
        scores: Score of each distinct row, `(R,)`.
        row_of: The row of each product, `(K,)`.
        available: Which products may be shown, `(K,)`.
    """
    best = -1
    top = -np.inf
    for k in range(row_of.shape[0]):
        # Without a best yet, a score of -inf or NaN is taken, too.
        if available[k] and (best < 0 or scores[row_of[k]] > top):
            best = k
            top = scores[row_of[k]]
    return best


@jit
def pick(available: BoolArray, draw: float) -> int:
    """Pick an available product uniformly; -1 where there is none.

    Args:
        available: Which products may be shown, `(K,)`.
        draw: A number in [0, 1) that settles the choice.
    """
    count = 0
    for k in range(available.shape[0]):
        count += available[k]
    remaining = int(draw * count)
    for k in range(available.shape[0]):
        if available[k]:
            if remaining == 0:
                return k
            remaining -= 1
    return -1


@jit
def add_share(available: BoolArray, total: float, out: FloatArray) -> None:
    """Spread probability evenly over what is available.

    Args:
        available: Which products may be shown, `(K,)`.
        total: The probability.
        out: Probabilities that it is added to, `(K,)`.
    """
    count = 0
    for k in range(available.shape[0]):
        count += available[k]
    for k in range(available.shape[0]):
        if available[k]:
            out[k] += total / count


@jit
def with_one(x: FloatArray) -> FloatArray:
    """Return [1, x] `(d + 1,)`."""
    out = np.empty(x.shape[0] + 1)
    out[0] = 1.0
    copy_vector(x, out[1:])
    return out
