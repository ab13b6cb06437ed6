"""Windows in which visitors earn what counts of them: from their first decision on, as long for all."""

import heapq
from collections import Counter
from collections.abc import Mapping

from zoosim.core.digests import short_hash
from zoosim.monitoring.launch_plan import OBJECTIVE
from zoosim.serving.events import Choice, Feedback, Row, decision_of

MOST_VISITORS = 2_000_000
"""Visitors that are told apart; where more come, a half of them counts from then on, by a hash of who they are."""


class Visitor:
    """A visitor whose window is open: number, arm, the chance of it, the decisions, and what was earned by reward."""

    __slots__ = ("decisions", "is_new", "number", "rewards", "share")

    def __init__(self, number: int, is_new: bool, share: float) -> None:
        self.number = number
        self.is_new = is_new
        self.share = share
        self.decisions: list[bytes] = []
        self.rewards: Counter[str] = Counter()

    def earned(self, reward: str, weights: Mapping[str, float]) -> float:
        """Return what was earned of a reward, or of the objective."""
        if reward == OBJECTIVE:
            return sum(weights.get(name, 0.0) * value for name, value in sorted(self.rewards.items()))
        return float(self.rewards[reward])


class VisitorWindows:
    """Follows visitors from their first decision until their windows are over.

    Attributes:
        seen: Numbers of the visitors who came, where these keep their arm.
        below: The number below which visitors count.
    """

    def __init__(self, by_event: bool = False, most: int = MOST_VISITORS) -> None:
        """Begin without visitors; where each decision counts `by_event`, each is a visitor of its own."""
        self._by_event = by_event
        self._most = most
        self.below = 2**64
        self.seen: set[int] = set()
        self._open: dict[int, Visitor] = {}
        self._dues: list[tuple[int, int, int]] = []
        self._visitor_of: dict[bytes, int] = {}

    def number_of(self, row: Row, choice: Choice) -> int:
        """Return the number of the visitor of a decision."""
        who = "" if self._by_event else choice.visitor_id
        return int.from_bytes(short_hash((who or f"decision {decision_of(row)}").encode(), 8), "big")

    def is_first(self, visitor: int) -> bool:
        """Return whether a visitor is to count who comes now, and remember that."""
        if self._by_event:
            return True  # each decision comes once
        if visitor >= self.below or visitor in self.seen:
            return False
        self.seen.add(visitor)
        if len(self.seen) > self._most:
            self._halve()
        return True

    def _halve(self) -> None:
        """Count from now on one half of the visitors alone, and forget the others: none of them counts twice."""
        self.below //= 2
        self.seen = {visitor for visitor in self.seen if visitor < self.below}

    def open(self, row: Row, visitor: int, length: int, is_new: bool, share: float) -> None:
        """Open the window of a visitor, so many microseconds from a decision on."""
        self._open[visitor] = Visitor(visitor, is_new, share)
        heapq.heappush(self._dues, (row.time + length, row.seq, visitor))

    def open_since(self) -> dict[int, int]:
        """Return the visitors whose windows are open, and the positions of their first decisions."""
        return {visitor: seq for _, seq, visitor in self._dues}

    def enter(self, row: Row, visitor: int) -> None:
        """Enter a decision of a visitor; nothing where the window is not open."""
        if visitor in self._open:
            name = short_hash(decision_of(row).encode(), 8)
            self._visitor_of[name] = visitor
            self._open[visitor].decisions.append(name)

    def earn(self, row: Row, feedback: Feedback) -> None:
        """Enter what a visitor earned whose window is open."""
        visitor = self._open.get(self._visitor_of.get(short_hash(decision_of(row).encode(), 8), -1))
        if visitor is not None:
            visitor.rewards.update(feedback.rewards)

    def close(self, time: int) -> list[Visitor]:
        """Return the visitors whose windows are over at a time, in the order in which they came."""
        over = []
        while self._dues and self._dues[0][0] <= time:
            over.append(self._open.pop(heapq.heappop(self._dues)[2]))
        for visitor in over:
            for name in visitor.decisions:
                # An id that is free again, as its row was removed, may have come twice.
                self._visitor_of.pop(name, None)
        return over
