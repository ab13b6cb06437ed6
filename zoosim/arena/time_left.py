"""How long a run still takes, from what its cells have taken so far."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from zoosim.arena.store import CellKey


class CellEvent(StrEnum):
    """Lines of a cell's report by which the time left is estimated."""

    STARTED = "started"
    COMPILING = "compiling"
    SAVED = "saved"
    FAILED = "failed"


@dataclass
class _Cell:
    """A cell on its way: what is left of it, and since when its present block has been computed."""

    visits_left: int
    last_time: float = 0.0
    prepared: bool = False
    compiled: bool = False


@dataclass
class _Pace:
    seconds: float = 0.0
    visits: int = 0


class TimeLeft:
    """Estimates how long a run still takes, as soon as all policies that have visits left have shown their pace.

    Policies differ in cost by orders of magnitude, so each has a pace of its own. A cell's first block also pays for
    the world, for training and for loading compiled kernels: it counts as preparation. Blocks in which kernels are
    compiled count for nothing, since later cells find those on disk.
    """

    def __init__(self, cells: Iterable[CellKey], steps: int, jobs: int) -> None:
        self._steps = steps
        self._jobs = jobs
        self._cells = {key: _Cell(steps) for key in cells}
        self._paces: dict[str, _Pace] = defaultdict(_Pace)
        self._preparations: dict[str, list[float]] = defaultdict(list)
        self._savings: list[float] = []
        self._first_block = 0

    @property
    def share_done(self) -> float:
        """The share of all visits that are done, or will never be because the policy failed."""
        total = self._steps * len(self._cells)
        visits_left = sum(cell.visits_left for cell in self._cells.values())
        return 1.0 - visits_left / total if total else 1.0

    def record(self, key: CellKey, visits: int, line: str, now: float) -> None:
        """Take in a report of a cell (see `zoosim.arena.trial.Report`) at the time `now`, in seconds."""
        if line == CellEvent.STARTED:
            self._cells[key] = _Cell(self._steps, now)
            return
        cell = self._cells[key]
        if line == CellEvent.FAILED:
            cell.visits_left = 0
        elif line == CellEvent.COMPILING:
            cell.compiled = True
        elif line == CellEvent.SAVED:
            self._savings.append(now - cell.last_time)
        elif visits:
            self._record_block(key.policy, cell, visits, now)

    def _record_block(self, policy: str, cell: _Cell, visits: int, now: float) -> None:
        seconds = now - cell.last_time
        if not cell.compiled:
            if cell.prepared:
                self._paces[policy].seconds += seconds
                self._paces[policy].visits += visits
            else:
                self._preparations[policy].append(seconds)
                self._first_block = max(self._first_block, visits)
        cell.visits_left -= visits
        cell.last_time = now
        cell.prepared = True
        cell.compiled = False

    def seconds(self) -> float | None:
        """Return about how many seconds are left; None while that cannot be known."""
        total = 0.0
        unfinished = [(key.policy, cell) for key, cell in self._cells.items() if cell.visits_left]
        for policy, cell in unfinished:
            seconds = self._cell_seconds(policy, cell)
            if seconds is None:
                return None
            total += seconds
        return total / max(1, min(self._jobs, len(unfinished)))

    def _cell_seconds(self, policy: str, cell: _Cell) -> float | None:
        """Return about how long one process needs for the rest of a cell; None while that cannot be known."""
        overhead = median(self._savings or [0.0])
        visits = cell.visits_left
        if not cell.prepared:
            if not self._preparations[policy]:
                return None
            # The median, because only the first cell of each process loads the kernels.
            overhead += median(self._preparations[policy])
            visits -= self._first_block
        if visits <= 0:
            return overhead
        pace = self._paces[policy]
        if not pace.visits:
            return None
        return overhead + visits * pace.seconds / pace.visits
