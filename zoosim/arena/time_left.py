"""The remaining time of a run, from what its trials have taken so far."""

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from zoosim.arena.store import TrialKey


class TrialEvent(StrEnum):
    """Lines of a trial's report by which the time left is estimated."""

    STARTED = "started"
    COMPILING = "compiling"
    SAVED = "saved"
    FAILED = "failed"


@dataclass
class _Trial:
    """A trial on its way: what is left of it, and since when its present block has been computed."""

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

    Policies differ in cost by orders of magnitude, so each has a pace of its own. A trial's first block also pays for
    the world, for training and for loading compiled kernels: it counts as preparation. Blocks in which kernels are
    compiled count for nothing, since later trials find those on disk.

    Where `jobs` is None, nobody can say how many trials run at once, and reports come when a trial is over: what is
    left then takes as long as what was done, in proportion.
    """

    def __init__(self, trials: Iterable[TrialKey], steps: int, jobs: int | None) -> None:
        self._steps = steps
        self._jobs = jobs
        self._trials = {key: _Trial(steps) for key in trials}
        self._paces: dict[str, _Pace] = defaultdict(_Pace)
        self._preparations: dict[str, list[float]] = defaultdict(list)
        self._savings: list[float] = []
        self._first_block = 0
        self._began = self._now = time.monotonic()

    @property
    def share_done(self) -> float:
        """The share of all visits that are done, or will never be because the policy failed."""
        total = self._steps * len(self._trials)
        visits_left = sum(trial.visits_left for trial in self._trials.values())
        return 1.0 - visits_left / total if total else 1.0

    def record(self, key: TrialKey, visits: int, line: str, now: float) -> None:
        """Take in a report of a trial (see `zoosim.arena.trial.Report`) at the time `now`, by the monotonic clock."""
        self._now = now
        if line == TrialEvent.STARTED:
            self._trials[key] = _Trial(self._steps, now)
            return
        trial = self._trials[key]
        if line == TrialEvent.FAILED:
            trial.visits_left = 0
        elif line == TrialEvent.COMPILING:
            trial.compiled = True
        elif line == TrialEvent.SAVED:
            self._savings.append(now - trial.last_time)
        elif visits:
            self._record_block(key.policy, trial, visits, now)

    def _record_block(self, policy: str, trial: _Trial, visits: int, now: float) -> None:
        seconds = now - trial.last_time
        # The rest of such a block still counts as done: only its time says nothing about later ones.
        if not trial.compiled:
            if trial.prepared:
                self._paces[policy].seconds += seconds
                self._paces[policy].visits += visits
            else:
                self._preparations[policy].append(seconds)
                self._first_block = max(self._first_block, visits)
        trial.visits_left -= visits
        trial.last_time = now
        trial.prepared = True
        trial.compiled = False

    def seconds(self) -> float | None:
        """Return about how many seconds are left; None while that cannot be known."""
        if self._jobs is None:
            done = self.share_done
            return (self._now - self._began) * (1.0 - done) / done if done else None
        total = 0.0
        unfinished = [(key.policy, trial) for key, trial in self._trials.items() if trial.visits_left]
        for policy, trial in unfinished:
            seconds = self._trial_seconds(policy, trial)
            if seconds is None:
                return None
            total += seconds
        return total / max(1, min(self._jobs, len(unfinished)))

    def _trial_seconds(self, policy: str, trial: _Trial) -> float | None:
        """Return about how long one process needs for the rest of a trial; None while that cannot be known."""
        overhead = median(self._savings or [0.0])
        visits = trial.visits_left
        if not trial.prepared:
            if not self._preparations[policy]:
                return None
            # The median, because only the first trial of each process loads the kernels.
            overhead += median(self._preparations[policy])
            visits -= self._first_block
        if visits <= 0:
            return overhead
        pace = self._paces[policy]
        if not pace.visits:
            return None
        return overhead + visits * pace.seconds / pace.visits
