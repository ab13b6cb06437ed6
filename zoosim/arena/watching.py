"""Figures of a run while it goes on: sums over visits that trials report, by policy, seed and part of the run."""

import math
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from zoosim.arena.block import Block
from zoosim.arena.plan import Plan
from zoosim.arena.store import Trial, TrialKey
from zoosim.arena.time_left import TimeLeft, TrialEvent
from zoosim.core.statistics import mean_interval
from zoosim.core.types import FloatArray, IntArray

POINTS = 60
"""Parts of a run whose sums are kept, and so points of a curve, at most."""

MOST_ACTIONS = 100
"""Actions of a block that are counted, those that were chosen most."""

VISITS, EARNED, EXPECTED, BEST = range(4)
"""Columns of sums: visitors, rewards, expected rewards of what was chosen, and those of the best choice.

Where visitors make several decisions these are returns, as in the figures of a run that is over.
"""


def part_length(steps: int) -> int:
    """Return how many visits each part of a run of `steps` visits has."""
    return max(math.ceil(steps / POINTS), 1)


class BlockSums(NamedTuple):
    """Sums over a block of visits.

    Attributes:
        first: The number of the first part of the run that the block reaches into.
        sums: By part `(parts, 4)`: see `VISITS` and those after it.
        decisions: How many decisions there are whose actions are counted.
        actions: How often each action was chosen, of those that were chosen most; empty where actions are vectors.
    """

    first: int
    sums: FloatArray
    decisions: int
    actions: Mapping[int, int]


def sums_of_block(block: Block, steps: int) -> BlockSums:
    """Return the sums over a block of a run of `steps` visits."""
    visitors = block.start + np.arange(len(block.rewards)) if block.lives is None else block.lives.visitor
    return sums_of(visitors, block.rewards, block.expected_rewards, block.best_rewards, block.actions, steps)


def sums_of(
    visitors: IntArray, earned: FloatArray, expected: FloatArray, best: FloatArray, actions: Any, steps: int
) -> BlockSums:
    """Return the sums over n decisions, or over n returns, of a run of `steps` visits.

    Args:
        visitors: The numbers of their visitors, ascending `(n,)`.
        earned, expected, best: Their rewards, and the expected returns of what was chosen and of the best `(n,)`.
        actions: What was chosen `(m,)`, or vectors `(m, d)`; None where nobody knows.
    """
    parts = visitors // part_length(steps)
    first = int(parts[0])
    places = parts - first
    n_parts = int(places[-1]) + 1
    is_new = np.r_[True, np.diff(visitors) > 0]
    # A visitor's return is the expected one of the first decision, less what later ones gave away, as `_by_visitor` of
    # the store has it.
    columns = (is_new, earned, np.where(is_new, expected, expected - best), np.where(is_new, best, 0.0))
    sums = [np.bincount(places, weights=column, minlength=n_parts) for column in columns]
    counts: dict[int, int] = {}
    if actions is not None and actions.ndim == 1:
        chosen, numbers = np.unique(actions, return_counts=True)
        newest = np.argsort(-numbers, kind="stable")[:MOST_ACTIONS]
        counts = {int(chosen[place]): int(numbers[place]) for place in newest}
    return BlockSums(first, np.stack(sums, axis=1), len(actions) if counts else 0, counts)


class BlockLine(str):
    """The line of a trial's report on a block of visits, with the sums over it.

    Attributes:
        block: The sums.
    """

    block: BlockSums

    def __new__(cls, text: str, block: BlockSums) -> "BlockLine":
        """Add sums to a line."""
        line = super().__new__(cls, text)
        line.block = block
        return line

    def __getnewargs__(self) -> tuple[str, BlockSums]:  # type: ignore[override]
        """Return what a copy, in another process, is made of."""
        return str(self), self.block


@dataclass
class _TrialSums:
    """Sums of a trial so far, by part of the run `(parts, 4)`, and how often each action was chosen."""

    sums: FloatArray
    decisions: int = 0
    actions: Counter[int] = field(default_factory=Counter)
    state: str = "waiting"


WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"
"""States of a trial."""


class Curve(NamedTuple):
    """Means over seeds with their 95% intervals, each `(n,)`; NaN where no seed has come so far, or one alone has."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray


class PolicyFigures(NamedTuple):
    """What a policy has done so far.

    Attributes:
        name: Its name.
        states: How many of its trials are in each state.
        reward: What a visitor brings, by part of the run.
        fraction: The fraction of what the best choice would earn, by part of the run.
        reward_so_far, fraction_so_far: The same of all visits so far: mean, low and high; None where nobody knows.
        actions: The shares of what it chose most, by action.
    """

    name: str
    states: Counter[str]
    reward: Curve
    fraction: Curve
    reward_so_far: tuple[float | None, float | None, float | None]
    fraction_so_far: tuple[float | None, float | None, float | None]
    actions: Mapping[int, float]


class RunProgress(NamedTuple):
    """How far a run is.

    Attributes:
        done, total: Trials that are over, and all.
        share_done: The share of the visits that are done of the trials that were missing.
        seconds_left: About how long it still takes; None while that cannot be known.
        visits: Up to which visit each part of the run reaches `(n,)`.
        policies: What each policy has done, in the order of the plan.
    """

    done: int
    total: int
    share_done: float
    seconds_left: float | None
    visits: IntArray
    policies: list[PolicyFigures]


class RunFigures:
    """Follows a run by the reports of its trials; one thread may report while others look."""

    def __init__(
        self, plan: Plan, finished: Mapping[TrialKey, Trial], trials: Sequence[TrialKey], jobs: int | None
    ) -> None:
        """Begin.

        Args:
            plan: The run.
            finished: Trials that were there before.
            trials: Trials that are to be computed.
            jobs: In how many processes.
        """
        self._steps = plan.steps
        self._policies = [entry.name for entry in plan.entries]
        self._length = part_length(plan.steps)
        self._visits = np.minimum(np.arange(1, math.ceil(plan.steps / self._length) + 1) * self._length, plan.steps)
        self._lengths = np.diff(self._visits, prepend=0)
        self._time_left = TimeLeft(trials, plan.steps, jobs)
        self._trials = {key: self._new_trial() for key in trials}
        self._lock = threading.Lock()
        for key, trial in finished.items():
            self._trials[key] = self._new_trial()
            self._trials[key].state = DONE
            visits = np.arange(len(trial.rows.rewards))
            self._add(key, sums_of(visits, *trial.rows, trial.actions, plan.steps))

    def _new_trial(self) -> _TrialSums:
        return _TrialSums(np.zeros((len(self._visits), 4)))

    def _add(self, key: TrialKey, block: BlockSums) -> None:
        trial = self._trials[key]
        trial.sums[block.first : block.first + len(block.sums)] += block.sums
        trial.decisions += block.decisions
        trial.actions.update(block.actions)

    def report(self, key: TrialKey, visits: int, line: str, now: float) -> None:
        """Take in a report of a trial (see `zoosim.arena.trial.Report`) at the time `now`, in seconds."""
        with self._lock:
            self._time_left.record(key, visits, line, now)
            if line == TrialEvent.STARTED:  # maybe again, where its process died
                self._trials[key] = self._new_trial()
            if line == TrialEvent.FAILED:
                self._trials[key].state = FAILED
            elif line == TrialEvent.SAVED:
                self._trials[key].state = DONE
            else:
                self._trials[key].state = RUNNING
            if isinstance(line, BlockLine):
                self._add(key, line.block)

    def progress(self) -> RunProgress:
        """Return how far the run is."""
        with self._lock:
            states = Counter(trial.state for trial in self._trials.values())
            return RunProgress(
                states[DONE] + states[FAILED],
                len(self._trials),
                self._time_left.share_done,
                self._time_left.seconds(),
                self._visits,
                [self._of_policy(name) for name in self._policies],
            )

    def _of_policy(self, name: str) -> PolicyFigures:
        trials = [trial for key, trial in self._trials.items() if key.policy == name]
        begun = [trial.sums for trial in trials if trial.sums[:, VISITS].any()]
        wholes = [sums.sum(axis=0) for sums in begun]
        actions = sum((trial.actions for trial in trials), Counter[int]())
        decisions = sum(trial.decisions for trial in trials)
        return PolicyFigures(
            name,
            Counter(trial.state for trial in trials),
            self._curve(begun, EARNED, VISITS),
            self._curve(begun, EXPECTED, BEST),
            _so_far([_ratio(whole[EARNED], whole[VISITS]) for whole in wholes]),
            _so_far([_ratio(whole[EXPECTED], whole[BEST]) for whole in wholes]),
            {action: count / decisions for action, count in actions.most_common(MOST_ACTIONS)},
        )

    def _curve(self, trials: Sequence[FloatArray], top: int, bottom: int) -> Curve:
        """Return the mean over trials of the ratio of two sums, by part of the run, of those parts that are over."""
        curve = Curve(*np.full((3, len(self._visits)), np.nan))
        for part, length in enumerate(self._lengths):
            rows = [sums[part] for sums in trials if sums[part, VISITS] >= length]
            for values, value in zip(curve, _so_far([_ratio(row[top], row[bottom]) for row in rows]), strict=True):
                values[part] = np.nan if value is None else value
        return curve


def _ratio(top: float, bottom: float) -> float:
    return float(top / bottom) if bottom else math.nan


def _so_far(values: Iterable[float]) -> tuple[float | None, float | None, float | None]:
    """Return the mean of values with its 95% interval, without those that nobody knows."""
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return None, None, None
    mean, low, high = mean_interval(known)
    return mean, low, high
