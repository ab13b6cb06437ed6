"""The launches of a log, after the fact: what each was moved by, and who counted in it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from zoosim.monitoring.difference import DifferenceTest
from zoosim.serving.arms import Assignment
from zoosim.serving.events import CHAMPION, Choice, Row, Start, decision_of
from zoosim.serving.launches.comparison import Comparison, Met
from zoosim.serving.launches.monitor import LaunchMonitor
from zoosim.serving.launches.report import LaunchReport
from zoosim.serving.launches.state import Launch, launch_in
from zoosim.serving.launches.windows import Visitor


class Move(NamedTuple):
    """A move of a launch: when, in microseconds since 1970, how it stood from then on, its share, by whom and why."""

    time: int
    launch: Launch
    share: float
    who: str
    why: str


class Counted(NamedTuple):
    """A visitor who counted: the first decision, the arm, the chance that it would be the new one, what was earned."""

    decision_id: str
    is_new: bool
    share: float
    rewards: Mapping[str, float]


@dataclass
class LaunchEntry:
    """A launch of a log.

    Attributes:
        moves: Its moves, in order.
        visitors: Who counted, in the order in which they came.
        report: How it stands by the newest row; None where it is over.
    """

    moves: list[Move] = field(default_factory=list)
    visitors: list[Counted] = field(default_factory=list)
    report: LaunchReport | None = None

    @property
    def launch(self) -> Launch:
        """How it stands by its last move."""
        return self.moves[-1].launch


class KeptComparison(Comparison):
    """Compares two arms, and keeps who counted."""

    def __init__(self, counted: list[Counted], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._counted = counted
        self._first: dict[int, str] = {}

    def meet(self, row: Row, choice: Choice) -> Met | None:
        """Enter a decision, and its visitor if that is a new one; None where neither arm was drawn."""
        met = super().meet(row, choice)
        if met is not None and met.is_first:
            self._first[met.visitor] = decision_of(row)
        return met

    def _take(self, over: Sequence[Visitor], weights: Mapping[str, float]) -> None:
        super()._take(over, weights)
        for visitor in over:
            first = self._first.pop(visitor.number)
            self._counted.append(Counted(first, visitor.is_new, visitor.share, dict(visitor.rewards)))


class LaunchLedger(LaunchMonitor):
    """Follows a log as the learner does, and keeps who counted.

    Attributes:
        entries: The launches, by the numbers of the starts that began them.
    """

    def __init__(self, weights: Callable[[], Mapping[str, float]]) -> None:
        super().__init__(weights)
        self.entries: dict[int, LaunchEntry] = {}

    def on_start(self, row: Row, start: Start) -> None:
        """Note a move of a launch, where there is one."""
        launch = launch_in(start)
        if launch is not None:
            entry = self.entries.setdefault(launch.number, LaunchEntry())
            shares = Assignment(start).shares
            # Once it has shipped it is the champion, of whom nothing more is to be told.
            share = shares.get(launch.arm, 0.0) if launch.arm != CHAMPION else shares[CHAMPION]
            move = Move(row.time, launch, share, start.who, start.why)
            is_told = bool(entry.moves) and entry.launch == launch
            if not is_told or (launch.is_running and entry.moves[-1].share != share):
                entry.moves.append(move)
        super().on_start(row, start)

    def _begin(self, launch: Launch) -> None:
        self._entry = self.entries.setdefault(launch.number, LaunchEntry())
        super()._begin(launch)

    def _new_comparison(
        self, arms: tuple[str, str], rewards: Sequence[str], tests: Sequence[DifferenceTest]
    ) -> Comparison:
        # Beside another champion what was earned before says nothing.
        self._entry.visitors.clear()
        return KeptComparison(self._entry.visitors, arms, rewards, tests, by_event=self._by_event)

    def finish(self) -> list[LaunchEntry]:
        """Return the launches, once all rows are read."""
        if self.launch is not None:
            self.entries[self.launch.number].report = self.report()
        return [self.entries[number] for number in sorted(self.entries)]
