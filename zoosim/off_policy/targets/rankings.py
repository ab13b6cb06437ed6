"""The policies that are judged by a log of rankings: what gives probabilities of the next action, given those above."""

import math
from abc import ABC, abstractmethod
from copy import copy
from typing import Any

import numpy as np

from zoosim.core.errors import ConfigError, PolicyError
from zoosim.core.types import FloatArray, IntArray, Progress
from zoosim.logs.log import Log
from zoosim.logs.positions import at_position
from zoosim.logs.schema import MARGINAL
from zoosim.off_policy.targets.base import column_name
from zoosim.off_policy.targets.products import PolicyTarget, Target, make_target

MOST_SETS = 2_000
MOST_CELLS = 50_000_000
"""Exact marginal probabilities go through all sets of actions that may stand above: so many at most, times visits."""


class RankingTarget(ABC):
    """A policy that ranks, to be judged on a log."""

    @abstractmethod
    def given_above(self, log: Log, above: IntArray, position: int) -> FloatArray:
        """Return the probabilities `(n, K)` of what comes below `above (n, position)`; 0 where nothing can."""

    @abstractmethod
    def finish(self) -> None:
        """Check what must hold when all has been asked."""


class SequentialDraws(RankingTarget):
    """Draws without replacement by probabilities `(n, K)`, those of what is left (Luce 1959; Plackett 1975)."""

    def __init__(self, target: Target, log: Log) -> None:
        self.shares = np.asarray(target.probabilities(at_position(log, 0), 0, len(log)), float)
        if self.shares.shape != (len(log), log.n_actions):
            raise ConfigError(f"gives probabilities of shape {self.shares.shape}, expected {(len(log), log.n_actions)}")
        shown = (~(self.shares <= 0.0)).sum(axis=1)
        few = shown < log.n_positions
        if few.any():
            row = int(few.argmax())
            got = f"gives {shown[row]} actions a probability above 0, a ranking shows {log.n_positions}"
            raise PolicyError(f"visit {row}: {got}; give each that it may show one, however small")

    def given_above(self, log: Log, above: IntArray, position: int) -> FloatArray:
        """Leave out those above, and share out what is left; at the top, as they are."""
        if position == 0:
            return self.shares
        open_to = log.candidates[log.candidate_set]
        np.put_along_axis(open_to, above, False, axis=1)
        left = np.where(open_to, self.shares, 0.0)
        total = left.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(left, total, out=np.zeros_like(left), where=total > 0.0))

    def rows(self, chosen: IntArray) -> "SequentialDraws":
        """Return the same for the `chosen` visits."""
        found = copy(self)
        found.shares = self.shares[chosen]
        return found

    def finish(self) -> None:
        """Nothing moves."""


class AskedPolicy(RankingTarget):
    """A policy object, asked with those above no longer available."""

    def __init__(self, target: PolicyTarget) -> None:
        self.target = target

    def given_above(self, log: Log, above: IntArray, position: int) -> FloatArray:
        """Ask the policy."""
        return self.target.probabilities(at_position(log, position, above), 0, len(log))

    def finish(self) -> None:
        """Compare the policy's state with what it was."""
        self.target.finish()


class RankedColumn:
    """Target probabilities of the shown actions given those above, and at their positions, `(n, L)`, where known."""

    def __init__(self, values: FloatArray, marginals: FloatArray | None) -> None:
        self.values, self.marginals = values, marginals


def make_ranking_target(given: Any, log: Log, progress: Progress = lambda line: None) -> RankingTarget | RankedColumn:
    """Return what is judged: a `Policy`, a function, an array `(K,)` or `(n, K)`, or a column of the log by name."""
    if isinstance(given, str):
        name = column_name(log, given)
        return RankedColumn(log.columns[name], log.columns.get(MARGINAL + name))
    target = make_target(given, at_position(log, 0), progress)
    return AskedPolicy(target) if isinstance(target, PolicyTarget) else SequentialDraws(target, log)


def marginals(log: Log, target: RankingTarget) -> list[FloatArray]:
    """Return for each position the probabilities `(n, K)` that it shows an action, whatever stands above.

    Exact, over all sets of actions that may stand above; raises `ConfigError` where these are too many. Visits that are
    alike are gone through once.
    """
    if not isinstance(target, SequentialDraws):
        return _all_marginals(log, target)
    told = np.column_stack([log.candidate_set, target.shares])
    _, first, alike = np.unique(told, axis=0, return_index=True, return_inverse=True)
    few = _all_marginals(log.rows(first), target.rows(first))
    return [shown[alike.reshape(-1)] for shown in few]


def _all_marginals(log: Log, target: RankingTarget) -> list[FloatArray]:
    k, positions = log.n_actions, log.n_positions
    sets, widest = sum(math.comb(k, size) for size in range(positions)), math.comb(k, positions - 1)
    if sets > MOST_SETS or widest * len(log) > MOST_CELLS:
        got = f"{sets:,} sets of actions that may stand above the last of {positions} positions, {len(log):,} visits"
        advice = f"name a column:NAME of the log with {MARGINAL}NAME beside it, or leave out the independent estimators"
        raise ConfigError(f"marginal probabilities: got {got}, too many to go through; {advice}")
    found = list[FloatArray]()
    above: dict[tuple[int, ...], FloatArray] = {(): np.ones(len(log))}
    for position in range(positions):
        shown = np.zeros((len(log), k))
        longer: dict[tuple[int, ...], FloatArray] = {}
        for chosen, share in above.items():
            stack = np.broadcast_to(np.array(chosen, np.int64), (len(log), position))
            following = share[:, None] * target.given_above(log, stack, position)
            shown += following
            for action in set(range(k)) - set(chosen):
                key = tuple(sorted((*chosen, action)))
                longer[key] = longer[key] + following[:, action] if key in longer else following[:, action]
        found.append(shown)
        above = longer
    return found
