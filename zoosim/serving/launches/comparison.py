"""What the visitors of two arms earn: each counts once, by the arm that was drawn for them.

A visitor counts for the arm of the first decision since the comparison began: who decides is drawn by visitor, so
their later decisions are no draws of their own. What they earn is summed over a window, the same for all.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from zoosim.monitoring.difference import DifferenceTest
from zoosim.serving.arms import Assignment
from zoosim.serving.events import Choice, Feedback, Row, decision_of
from zoosim.serving.launches.windows import MOST_VISITORS, Visitor, VisitorWindows


class Met(NamedTuple):
    """A decision of a visitor who counts: their number, whether the new arm was drawn, whether it is their first."""

    visitor: int
    is_new: bool
    is_first: bool


class Comparison:
    """Compares the rewards of an arm with those of another one that decides at the same time.

    Attributes:
        tests: A test per reward that is compared.
        windows: The visitors.
        share: The chance of the new arm, given that it is one of the two.
    """

    def __init__(
        self,
        arms: tuple[str, str],
        rewards: Sequence[str],
        tests: Sequence[DifferenceTest],
        *,
        by_event: bool = False,
        most_visitors: int = MOST_VISITORS,
    ) -> None:
        """Begin without visitors.

        Args:
            arms: The names of the new arm and of the one that it is compared with.
            rewards: Rewards by name, or the objective.
            tests: The test of each, whose bounds cut what a visitor earns.
            by_event: Whether each decision counts for itself.
            most_visitors: Visitors that are told apart.
        """
        self.tests = tests
        self.windows = VisitorWindows(by_event, most_visitors)
        self.share = 0.0
        self._arms = arms
        self._rewards = rewards
        self._window = 0
        self._assignment: Assignment

    def follow(self, assignment: Assignment, window: int) -> None:
        """Go on with other shares, and with a window of so many microseconds for visitors who come from now on."""
        self._assignment = assignment
        self._window = window
        new, baseline = (assignment.shares[arm] for arm in self._arms)
        self.share = new / (new + baseline) if new + baseline else 0.0  # others may have all

    def meet(self, row: Row, choice: Choice) -> Met | None:
        """Enter a decision, and its visitor if that is a new one; None where neither arm was drawn."""
        arm = self._assignment.arm_for(choice.visitor_id, decision_of(row))
        if arm not in self._arms:
            return None
        is_new = arm == self._arms[0]
        visitor = self.windows.number_of(row, choice)
        # Where one of both gets all visitors, none is drawn, and nothing is learned of the difference.
        is_first = 0.0 < self.share < 1.0 and self.windows.is_first(visitor)
        if is_first:
            self.windows.open(row, visitor, self._window, is_new, self.share)
        self.windows.enter(row, visitor)
        return Met(visitor, is_new, is_first)

    def earn(self, row: Row, feedback: Feedback) -> None:
        """Enter what a visitor earned whose window is open."""
        self.windows.earn(row, feedback)

    def close(self, time: int, weights: Mapping[str, float]) -> int:
        """Take the visitors whose windows are over into the tests, in the order in which they came; return how many."""
        over = self.windows.close(time)
        if over:
            self._take(over, weights)
        return len(over)

    def _take(self, over: Sequence[Visitor], weights: Mapping[str, float]) -> None:
        is_new = np.array([visitor.is_new for visitor in over], float)
        shares = np.array([visitor.share for visitor in over])
        for reward, test in zip(self._rewards, self.tests, strict=True):
            earned = np.array([visitor.earned(reward, weights) for visitor in over])
            test.update(is_new, shares, np.clip(earned, test.reward.low, test.reward.high))
