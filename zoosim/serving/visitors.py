"""How much one visitor teaches: no more in a day than many others do, so that nobody moves a policy alone.

A service cannot tell who means ill. What it can tell is who decides far more often than others: what these earn beyond
is logged, and not learned. All follows from the log's rows, so that who reads them again bounds the same decisions.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from zoosim.serving.clock import DAY

SHARE = 0.05
"""Share of a day's visitors who have to decide as often before more than the setting is learned of one."""

LEAST = 200
"""Visitors who have to decide as often, where that share is fewer: so few as a gang may be are not enough."""

MOST_VISITORS = 100_000
"""Visitors that are counted, after whom a day ends early, so that memory is bounded."""

MOST_DECISIONS = 1_000
"""The most decisions of a visitor and a day that are ever learned."""

FADING = 0.5
"""What a day's visitors still count for on the next day, when they say how often visitors come."""

ARRAYS = ("bounded visitors", "decisions of visitors", "visitors by decisions")
"""The names of the arrays in its state."""


class VisitorBounds:
    """Counts the decisions of each visitor in a day of the log, by a hash of its id."""

    def __init__(self) -> None:
        """Start with the first day."""
        self._began = 0
        self._counts: dict[int, int] = {}
        self._reached = np.zeros(MOST_DECISIONS)
        """How many visitors decided at least once, twice and so on, earlier days faded."""

    def __len__(self) -> int:
        """Return how many visitors are counted."""
        return len(self._counts)

    def admits(self, time: int, visitor_id: str, per_visitor: int) -> bool:
        """Count a decision, and return whether it is learned.

        Args:
            time: That of its row.
            visitor_id: Whose it is; what is nobody's is always learned.
            per_visitor: How many decisions of a visitor and a day are learned however few others make as many; 0 for
                all.
        """
        if not visitor_id or not per_visitor:
            return True
        if not self._counts or time >= self._began + DAY or len(self._counts) >= MOST_VISITORS:
            self._begin_day(time)
        visitor = int.from_bytes(hashlib.blake2b(visitor_id.encode(), digest_size=8).digest(), "little")
        number = self._counts.get(visitor, 0) + 1
        if number > MOST_DECISIONS:
            return False
        self._counts[visitor] = number
        self._reached[number - 1] += 1.0
        return number <= per_visitor or bool(self._reached[number - 1] >= max(LEAST, SHARE * self._reached[0]))

    def _begin_day(self, time: int) -> None:
        self._began = time
        self._counts = {}
        self._reached *= FADING

    def state(self) -> tuple[int, dict[str, np.ndarray]]:
        """Return when the day began, and what was counted, as arrays."""
        visitors = np.array(sorted(self._counts), np.uint64)
        counts = np.array([self._counts[visitor] for visitor in visitors.tolist()], np.uint16)
        return self._began, dict(zip(ARRAYS, (visitors, counts, self._reached.copy()), strict=True))

    def load_state(self, began: int, arrays: Mapping[str, Any]) -> None:
        """Take over what `state` returned; raises `ValueError` or `LookupError` for what it did not."""
        visitors, counts, reached = (np.asarray(arrays[name]) for name in ARRAYS)
        if len(visitors) > MOST_VISITORS or reached.shape != self._reached.shape:
            raise ValueError(f"got {len(visitors):,} visitors and {reached.shape} counts of decisions")
        self._began = int(began)
        self._counts = dict(zip(visitors.tolist(), counts.tolist(), strict=True))
        self._reached = np.array(reached, float)
