"""Caps on how many products of one group, such as a brand, may stand together: on a page, or among candidates."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zoosim.core.types import IntArray


class GroupCap(NamedTuple):
    """A cap on how many candidates of one group, such as a brand, are taken.

    Attributes:
        groups: The group of each candidate `(K,)`, counted from 0; -1 for one of none.
        most: How many of a group at most.
    """

    groups: IntArray
    most: int


class CapCounts:
    """Counts by group what was taken.

    Attributes:
        closed: Candidates `(K,)` of whose groups as many were taken as may be.
    """

    def __init__(self, caps: Sequence[GroupCap], count: int) -> None:
        """Begin with nothing taken, and `count` candidates."""
        self.closed = np.zeros(count, bool)
        self._caps = [(cap, Counter[int]()) for cap in caps]

    def add(self, place: int) -> None:
        """Count a candidate that is taken."""
        for cap, counts in self._caps:
            group = int(cap.groups[place])
            counts[group] += 1
            if group >= 0 and counts[group] >= cap.most:
                self.closed |= cap.groups == group
