"""Segments: visitors told apart by the distinct patterns in the columns that hold nothing but 0 and 1.

They are found as visitors come. Where no column is binary, all visitors are one segment; of more patterns than there
is room for, the last segment takes all the rest.
"""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import COUNTS
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.dense import copy_vector


class Segments(NamedTuple):
    """The segments found so far, S at most.

    `patterns (S, d_u)` of the binary columns; `binary (d_u,)` whether a column held nothing but 0 and 1; `decided (S,)`
    how many decisions each segment met, and `clock (S,)` how many rewards; `found (1,)` how many there are.
    """

    patterns: FloatArray
    binary: BoolArray
    decided: Annotated[FloatArray, COUNTS]
    clock: Annotated[FloatArray, COUNTS]
    found: IntArray

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        if self.found[0] > len(self.clock):
            yield f"found holds {self.found[0]}, expected at most {len(self.clock)} segments"


def new_segments(room: int, user_dim: int) -> Segments:
    """Return room for segments of visitors with `user_dim` features, none found."""
    binary = np.ones(user_dim, np.bool_)
    return Segments(np.zeros((room, user_dim)), binary, np.zeros(room), np.zeros(room), np.zeros(1, np.int64))


@jit
def find(segments: Segments, user: FloatArray, room: int) -> int:
    """Return the segment of a visitor, -1 when it is new; of `room`, the last one takes all the rest."""
    patterns = segments.patterns
    binary = segments.binary
    found = segments.found[0]
    for s in range(found):
        i = 0
        while i < user.shape[0] and (not binary[i] or patterns[s, i] == user[i]):
            i += 1
        if i == user.shape[0]:
            return s
    return -1 if found < room else room - 1


@jit
def shed(segments: Segments, user: FloatArray) -> bool:
    """Drop columns that turn out to hold other numbers than 0 and 1; True when there are, and segments begin anew."""
    anew = False
    for i in range(user.shape[0]):
        if segments.binary[i] and user[i] != 0.0 and user[i] != 1.0:
            segments.binary[i] = False
            anew = True
    if anew:
        segments.found[0] = 0
        segments.decided[:] = 0.0
        segments.clock[:] = 0.0
    return anew


@jit
def enter(segments: Segments, user: FloatArray, room: int) -> tuple[int, bool]:
    """Return the segment of a visitor, after `shed`, and whether it is new, so that its memory is to be cleared."""
    s = find(segments, user, room)
    is_new = s < 0
    if is_new:
        s = segments.found[0]
        segments.found[0] += 1
        copy_vector(user, segments.patterns[s])
    return s, is_new
