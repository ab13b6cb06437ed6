"""Projection of the log to what the champion earns beside the holdback, for as long as no launch splits visitors.

Whatever a launch found of its arm at the time, this goes on: is what was learned since worth anything, and since when?
It holds at all times at once, so that one may look whenever one likes.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np

from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import ConfigError
from zoosim.monitoring.difference import DifferenceTest, Reward
from zoosim.monitoring.launch_plan import OBJECTIVE
from zoosim.serving.arm_replica import checked_rules
from zoosim.serving.arms import Assignment
from zoosim.serving.events import CHAMPION, HOLDBACK, Choice, Feedback, Kind, Row, Start
from zoosim.serving.launches.comparison import Comparison
from zoosim.serving.launches.state import launch_in
from zoosim.serving.projection import Projection
from zoosim.serving.rules import Rules

LEVEL = 0.025
"""Each end of an interval is ever on the wrong side of the truth with this probability."""

MOST_VISITORS = 50_000
"""Visitors who are remembered."""


class Compared(msgspec.Struct, array_like=True):
    """A reward of the champion's visitors less that of the holdback's, per visitor, and its interval.

    Attributes:
        reward: Its name, or the objective.
        difference, low, high: The difference, and the interval, which holds at all times at once.
        holdback: What visitors of the holdback earn.
        known_since: From when on the interval is on one side of 0, in microseconds since 1970; 0 for not yet.
        cut: The largest reward of a visitor that counts; what is beyond is cut.
    """

    reward: str
    difference: float
    low: float
    high: float
    holdback: float
    known_since: int
    cut: float


class HoldbackReport(msgspec.Struct, array_like=True):
    """How the champion stands beside the holdback.

    Attributes:
        arm: The name of the holdback's arm.
        since: When the two began beside each other, in microseconds since 1970.
        visitors: Visitors of both that count.
        share: The champion's part of these.
        is_paused: Whether a launch splits visitors now, so that no new one counts.
        rewards: The objective, and where it is not the only one each reward by name.
    """

    arm: str
    since: int
    visitors: int
    share: float
    is_paused: bool
    rewards: list[Compared]


class SavedComparison(msgspec.Struct):
    """A comparison without the visitors whose windows are open, as it was at a row.

    Attributes:
        position: The row before the first one of these visitors.
        key: Of which arms it is, as `HoldbackMonitor` says.
        since: As in `HoldbackReport`.
        known_since: As in `Compared`, by reward.
        tests: The states of the tests, as plain values.
        seen: The visitors whose windows are over.
        below: The number below which visitors count.
    """

    position: int
    key: list[str]
    since: int
    known_since: dict[str, int]
    tests: list[dict[str, Any]]
    seen: list[int]
    below: int


class HoldbackMonitor(Projection):
    """Follows the log; the same rows come to the same report."""

    def __init__(
        self, weights: Callable[[], Mapping[str, float]], saved: SavedComparison | None = None, position: int = 0
    ) -> None:
        """Begin with what was saved.

        Args:
            weights: Returns the weight of each reward in the objective.
            saved: What was saved; None for nothing.
            position: The row behind which rows count, where nothing was saved.
        """
        self.position = position if saved is None else saved.position
        self._weights = weights
        self._saved = saved
        self._comparison: Comparison | None = None
        self._key: list[str] = []
        self._arm = ""
        self._since = 0
        self._known_since: dict[str, int] = {}
        self._is_paused = False

    def apply(self, row: Row) -> None:
        """Read the next row; those that it knows are passed over, and without a holdback all but starts."""
        if row.seq <= self.position:
            return
        self._since = self._since or row.time
        if self._comparison is not None or row.kind is Kind.START:
            super().apply(row)
        self.position = row.seq

    def on_start(self, row: Row, start: Start) -> None:
        """Compare the arms of a start."""
        self.begin(start, row.time)

    def begin(self, start: Start, time: int = 0) -> None:
        """Compare the arms of a start: anew, where another model is one of the two.

        Args:
            start: The start.
            time: When it came; 0 to begin with the next row.
        """
        holdback = next((arm for arm in start.arms if arm.role == HOLDBACK), None)
        launch = launch_in(start)
        self._is_paused = launch is not None and launch.is_running
        if holdback is None:
            self._comparison = None
            self._key = []
            return
        rules = checked_rules(start)
        key = [holdback.name, f"{holdback.model}/{holdback.turn}", start.origin, f"{rules.lowest} {rules.highest}"]
        if key != self._key:
            self._key = key
            self._arm = holdback.name
            self._since = time
            self._known_since = {}
            self._comparison = self._new_comparison(rules)
        assert self._comparison is not None
        self._comparison.follow(Assignment(start), round(rules.wait * MICROSECONDS))

    def _new_comparison(self, rules: Rules) -> Comparison:
        named = [name for name, weight in self._weights().items() if weight]
        rewards = [OBJECTIVE, *(named if len(named) > 1 else [])]
        tests = [DifferenceTest(Reward(name, min(rules.lowest, 0.0), max(rules.highest, 1e-9))) for name in rewards]
        comparison = Comparison((CHAMPION, self._arm), rewards, tests, most_visitors=MOST_VISITORS)
        saved = self._saved
        self._saved = None
        if saved is not None and saved.key == self._key and len(saved.tests) == len(tests):
            self._go_on(comparison, saved)
        return comparison

    def _go_on(self, comparison: Comparison, saved: SavedComparison) -> None:
        """Go on from what was saved; what does not fit begins anew."""
        try:
            for test, state in zip(comparison.tests, saved.tests, strict=True):
                test.load_state_dict(state)
        except ConfigError:
            return
        comparison.windows.seen = set(saved.seen)
        comparison.windows.below = saved.below
        self._since = saved.since
        self._known_since = saved.known_since

    def on_choice(self, row: Row, choice: Choice) -> None:
        """Count a decision's visitor, if that is a new one and no launch splits visitors."""
        if self._comparison is None or self._is_paused or choice.is_forgotten:
            return
        self._comparison.meet(row, choice)

    def on_feedback(self, row: Row, feedback: Feedback) -> None:
        """Enter what a visitor earned."""
        if self._comparison is not None:
            self._comparison.earn(row, feedback)

    def on_tick(self, row: Row) -> None:
        """Take the visitors whose windows are over into the tests."""
        if self._comparison is None or not self._comparison.close(row.time, self._weights()):
            return
        for test in self._comparison.tests:
            estimate = test.estimate(LEVEL)
            if estimate.low > 0.0 or estimate.high < 0.0:
                self._known_since.setdefault(test.reward.name, row.time)

    def report(self) -> HoldbackReport | None:
        """Return how the two stand; None without a holdback."""
        comparison = self._comparison
        if comparison is None:
            return None
        visitors = comparison.tests[0].events
        rewards = [self._compared(test) for test in comparison.tests] if visitors else []
        return HoldbackReport(self._arm, self._since, visitors, comparison.share, self._is_paused, rewards)

    def _compared(self, test: DifferenceTest) -> Compared:
        name = test.reward.name
        difference, low, high, holdback = map(float, test.estimate(LEVEL))
        return Compared(name, difference, low, high, holdback, self._known_since.get(name, 0), test.reward.high)

    def saved(self) -> bytes:
        """Return it as a file holds it, without the visitors whose windows are open: their rows are read again."""
        comparison = self._comparison
        if comparison is None:
            return msgspec.json.encode(SavedComparison(self.position, [], 0, {}, [], [], 2**64))
        still_open = comparison.windows.open_since()
        return msgspec.json.encode(
            SavedComparison(
                position=min([self.position, *(seq - 1 for seq in still_open.values())]),
                key=self._key,
                since=self._since,
                known_since=self._known_since,
                tests=[_plain(test.state_dict()) for test in comparison.tests],
                seen=sorted(comparison.windows.seen - still_open.keys()),
                below=comparison.windows.below,
            )
        )


def load_comparison(content: bytes, position: int) -> SavedComparison:
    """Return a comparison that was saved.

    Args:
        content: What the file holds.
        position: The row up to which the log is known; a comparison that goes beyond it is of another log.

    Raises:
        ValueError: it is none, or of another log.
    """
    saved = msgspec.json.decode(content, type=SavedComparison)
    if saved.position > position:
        raise ValueError("of another log")
    return saved


def _plain(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state as values that JSON holds."""
    return {name: np.asarray(value).tolist() for name, value in state.items()}
