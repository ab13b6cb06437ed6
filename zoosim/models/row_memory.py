"""A memory of what was shown to whom and how often it was clicked: a slot for each distinct pair of features and head.

Where visitors come back, or are told apart by few columns, thousands of observations fit into a few slots, and whatever
is computed from the memory costs by the slot. Slots are found by hashing into sets of eight; when a set is full, the
slot that was seen longest ago makes room.
"""

from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import COUNTS, INPUTS
from zoosim.core.rng import mix
from zoosim.core.types import FloatArray, IntArray

WAYS = 8


class RowMemory(NamedTuple):
    """A memory of C slots: `xs (C, d)`, `heads (C,)`, weight `counts (C,)` and weighted reward `sums (C,)`.

    `seen (C,)` numbers the visit that used the slot last, 0 for never.
    """

    xs: Annotated[FloatArray, INPUTS]
    heads: IntArray
    counts: Annotated[FloatArray, COUNTS]
    sums: FloatArray
    seen: IntArray


def new_row_memory(capacity: int, dim: int) -> RowMemory:
    """Return an empty memory of at least `capacity` slots for features `(dim,)`."""
    # Rounded up to whole sets.
    slots = -(-capacity // WAYS) * WAYS
    zeros = np.zeros(slots)
    return RowMemory(np.zeros((slots, dim)), np.zeros(slots, np.int64), zeros, zeros.copy(), np.zeros(slots, np.int64))


@jit
def remember(memory: RowMemory, x: FloatArray, head: int, reward: float, time: int) -> None:
    """Add the observation (x, head, reward) of visit `time` = 1, 2, ...: x `(d,)`."""
    slot = _slot(memory, x, head)
    memory.counts[slot] += 1.0
    memory.sums[slot] += reward
    memory.seen[slot] = time


@jit
def _slot(memory: RowMemory, x: FloatArray, head: int) -> int:
    """Return the slot of (x, head), a cleared one when it is new or forgotten."""
    first = int(_hash(x, head) % np.uint64(memory.seen.shape[0] // WAYS)) * WAYS
    # An empty slot was last seen at 0, so it is taken before any other.
    oldest = first
    for slot in range(first, first + WAYS):
        if memory.seen[slot] > 0 and memory.heads[slot] == head and np.array_equal(memory.xs[slot], x):
            return slot
        if memory.seen[slot] < memory.seen[oldest]:
            oldest = slot
    memory.xs[oldest] = x
    memory.heads[oldest] = head
    memory.counts[oldest] = memory.sums[oldest] = 0.0
    return oldest


@jit
def _hash(x: FloatArray, head: int) -> np.uint64:
    code = mix(np.uint64(head))
    bits = x.view(np.uint64)
    for i in range(x.shape[0]):
        # Zeros are passed over, so that -0.0 is 0.0; the place of each other number is hashed with it.
        if x[i] != 0.0:
            code = mix(np.uint64(code ^ mix(np.uint64(bits[i] + np.uint64(i)))))
    return code


@jit
def fade(memory: RowMemory, keep: float, least_weight: float) -> IntArray:
    """Multiply all weights by `keep`, forget what falls below `least_weight`, and return the slots in use `(n,)`."""
    used = np.empty(memory.seen.shape[0], np.int64)
    n = 0
    for slot in range(memory.seen.shape[0]):
        memory.counts[slot] *= keep
        memory.sums[slot] *= keep
        # Time 0 marks it as empty: the next row of its set takes it, and what it still holds is cleared then.
        if memory.counts[slot] < least_weight:
            memory.seen[slot] = 0
        if memory.seen[slot] > 0:
            used[n] = slot
            n += 1
    return used[:n]
