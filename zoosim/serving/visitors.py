"""Bounds on what one visitor teaches: no more than many others do, so that nobody moves a policy alone.

A service cannot tell who means ill. What it can tell is who decides far more often than others: what these earn beyond
is logged, and not learned. All follows from the log's rows, so that who reads them again bounds the same decisions.

What is saved names nobody: of each visitor the row of the newest decision stands for it, and only the log says whose
that is. So a visitor that is taken out of the log is not counted any more by who goes on from there.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.digests import short_hash
from zoosim.core.durations import DAY

SHARE = 0.05
"""Share of the visitors who have to decide as often before more than the setting is learned of one."""

LEAST = 200
"""Visitors who have to decide as often, where that share is fewer: so few as a gang may be are not enough."""

MOST_VISITORS = 100_000
"""Visitors that are counted, after whom a day ends early, so that memory is bounded."""

MOST_DECISIONS = 1_000
"""The most decisions of a visitor that are counted."""

FADING = 0.5
"""Weight of a day's visitors on the next day, when they say how often visitors come.

A visitor's own decisions count half as much on the next day, too, and are whole numbers, so that who comes once a day
begins each day anew, and who comes far more often than others does not.
"""

ARRAYS = ("newest rows of visitors", "decisions of visitors", "visitors by decisions")
"""The names of the arrays in its state."""


class _Count(NamedTuple):
    """The row of a visitor's newest decision, and how many decisions there were lately."""

    newest: int
    decisions: int


class VisitorBounds:
    """Counts the decisions of each visitor, those of earlier days of the log half as much with each day."""

    def __init__(self) -> None:
        """Start with the first day."""
        self._began = 0
        self._counts: dict[int, _Count] = {}
        """By a hash of the visitor's id, to take little memory."""
        self._loaded: list[_Count] = []
        """Counts of a saved state, whose visitors the log has to name."""
        self._visitor_at: Callable[[int], str]
        self._reached = np.zeros(MOST_DECISIONS)
        """Numbers of visitors that decided at least once, twice and so on, earlier days faded."""

    def __len__(self) -> int:
        """Return how many visitors are counted."""
        return len(self._counts) + len(self._loaded)

    def admits(self, seq: int, time: int, visitor_id: str, per_visitor: int) -> bool:
        """Count a decision, and return whether it is learned.

        Args:
            seq, time: Those of its row.
            visitor_id: Whose it is; what is nobody's is always learned.
            per_visitor: How many decisions of a visitor are learned however few others make as many; 0 for all.
        """
        if not visitor_id or not per_visitor:
            return True
        self._name_loaded()
        if not self._counts or time >= self._began + DAY:
            self._begin_day(time)
        # An early end of the day halves all counts and drops those that come to 0. Where everybody decided several
        # times, nobody is dropped, and it takes another one.
        while len(self._counts) >= MOST_VISITORS:
            self._begin_day(time)
        visitor = _hash(visitor_id)
        number = 1 + (self._counts[visitor].decisions if visitor in self._counts else 0)
        if number > MOST_DECISIONS:
            return False
        self._counts[visitor] = _Count(seq, number)
        self._reached[number - 1] += 1.0
        # Who decided yesterday, too, does not begin at 1, so that it is not always 1 that most reach.
        return number <= per_visitor or bool(self._reached[number - 1] >= max(LEAST, SHARE * self._reached.max()))

    def _begin_day(self, time: int) -> None:
        days = max((time - self._began) // DAY, 1)
        self._began = time
        counts = {visitor: _Count(newest, decisions >> days) for visitor, (newest, decisions) in self._counts.items()}
        self._counts = {visitor: count for visitor, count in counts.items() if count.decisions}
        self._reached *= FADING**days

    def _name_loaded(self) -> None:
        """Ask the log whose the counts of a saved state are: those of who was forgotten are nobody's."""
        for count in self._loaded:
            visitor_id = self._visitor_at(count.newest)
            if visitor_id:
                self._counts[_hash(visitor_id)] = count
        self._loaded = []

    def state(self) -> tuple[int, dict[str, np.ndarray]]:
        """Return when the day began, and what was counted, as arrays."""
        counts = sorted((*self._counts.values(), *self._loaded))
        newest = np.array([count.newest for count in counts], np.int64)
        decisions = np.array([count.decisions for count in counts], np.uint16)
        return self._began, dict(zip(ARRAYS, (newest, decisions, self._reached.copy()), strict=True))

    def load_state(self, began: int, arrays: Mapping[str, Any], visitor_at: Callable[[int], str]) -> None:
        """Take over what `state` returned.

        Args:
            began: When the day began.
            arrays: What was counted.
            visitor_at: Returns whose the decision at a row of the log is; empty where that is nobody's, or gone. It is
                asked when the next decision is counted, since who only decides counts none.

        Raises:
            ValueError, LookupError: the arrays are not those of a state.
        """
        newest, decisions, reached = (np.asarray(arrays[name]) for name in ARRAYS)
        if len(newest) > MOST_VISITORS or reached.shape != self._reached.shape:
            raise ValueError(f"got {len(newest):,} visitors and {reached.shape} counts of decisions")
        self._began = int(began)
        self._counts = {}
        self._loaded = [_Count(*count) for count in zip(newest.tolist(), decisions.tolist(), strict=True)]
        self._visitor_at = visitor_at
        self._reached = np.array(reached, float)


def _hash(visitor_id: str) -> int:
    return int.from_bytes(short_hash(visitor_id.encode()), "little")
