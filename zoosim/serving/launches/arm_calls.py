"""Calls of arms: how often a policy failed or was slow, and whether that is more often than the champion.

No row of the log says so: what failed was left to the champion, and how long it took is nobody's to replay. So each
service counts its own calls, from its start on, and the one that leads acts on what it has seen.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from zoosim.monitoring import health
from zoosim.monitoring.split import SplitTest
from zoosim.serving.events import CHAMPION
from zoosim.serving.launches.report import FailedCheck, failed
from zoosim.serving.launches.state import Launch

FIRST_CALLS = 1_000
"""Calls of the champion by which it is known how long its slowest hundredth takes."""

QUANTILE = 0.99

CONCENTRATION = 100.0
"""How near other splits of failures are expected to lie; see `SplitTest`."""


@dataclass(slots=True)
class Calls:
    """Calls of an arm: how many, how many of them failed, and the seconds that they took in all."""

    decided: int = 0
    failed: int = 0
    seconds: float = 0.0


class ArmCalls:
    """Counts the calls of arms, and compares those of the arm that is launched with the champion's.

    Attributes:
        by_arm: The calls of each arm.
    """

    def __init__(self) -> None:
        """Begin without calls."""
        self.by_arm: dict[str, Calls] = {}
        self._comparison: Comparison | None = None

    def follow(self, launch: Launch | None, shares: Mapping[str, float]) -> None:
        """Compare the arm of a launch from now on, or none.

        Args:
            launch: The launch as it stands.
            shares: The share of each arm.
        """
        if launch is None or not launch.is_running:
            self._comparison = None
            return
        if self._comparison is None or self._comparison.number != launch.number:
            self._comparison = Comparison(launch)
        self._comparison.take_shares(shares.get(launch.arm, 0.0), shares.get(CHAMPION, 0.0))

    def note(self, arm: str, seconds: float, has_failed: bool) -> None:
        """Count a call of the arm that was drawn.

        Args:
            arm: Its name.
            seconds: How long its policy took.
            has_failed: Whether it raised an error.
        """
        calls = self.by_arm.get(arm)
        if calls is None:
            calls = self.by_arm[arm] = Calls()
        calls.decided += 1
        calls.failed += has_failed
        calls.seconds += seconds
        if self._comparison is not None:
            self._comparison.note(arm, seconds, has_failed)

    def checks(self, now: str) -> list[FailedCheck]:
        """Return the checks of a launch that fail; `now` is the time in words, to say since when."""
        return [] if self._comparison is None else self._comparison.checks(now)


class Comparison:
    """Compares how often the policy of a launch fails or is slow with how often the champion's is.

    Attributes:
        number: The number of the launch.
    """

    def __init__(self, launch: Launch) -> None:
        """Begin without calls."""
        self.number = launch.number
        self._arm = launch.arm
        self._least_slow = launch.checked_plan().slow
        self._share = 0.0
        self._first: list[float] = []
        self._slow_from = math.inf
        self._errors = SplitTest(2, concentration=CONCENTRATION)
        self._slow = SplitTest(2, concentration=CONCENTRATION)
        self._standing: dict[str, health.Finding] = {}

    def take_shares(self, of_arm: float, of_champion: float) -> None:
        """Go on with other shares."""
        both = of_arm + of_champion
        self._share = of_arm / both if both else 0.0

    def note(self, arm: str, seconds: float, has_failed: bool) -> None:
        """Count a call."""
        is_new = arm == self._arm
        if not 0.0 < self._share < 1.0 or not (is_new or arm == CHAMPION):
            return
        if has_failed:
            self._count(self._errors, is_new)
        elif seconds > self._slow_from:
            self._count(self._slow, is_new)
        if not is_new and len(self._first) < FIRST_CALLS:
            self._first.append(seconds)
            if len(self._first) == FIRST_CALLS:
                # What takes a tenth of a millisecond longer hurts nobody, however sure that is.
                self._slow_from = max(float(np.quantile(self._first, QUANTILE)), self._least_slow)

    def _count(self, test: SplitTest, is_new: bool) -> None:
        test.update(np.array([is_new, not is_new], np.int64), [self._share, 1.0 - self._share])

    def checks(self, now: str) -> list[FailedCheck]:
        """Return the checks that fail; `now` is the time in words."""
        found = (health.errors(self._errors), health.latency(self._slow, 1_000.0 * self._slow_from))
        self._standing = health.standing(self._standing, found, now)
        return [failed(finding) for finding in self._standing.values()]
