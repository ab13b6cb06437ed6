"""The policies that are evaluated on a log of rankings: what gives probabilities of a position, given those above."""

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from copy import copy
from typing import Any

import numpy as np

from zoosim.core.distributions import Distributions
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.types import FloatArray, IntArray, Progress
from zoosim.logs.log import Log
from zoosim.logs.positions import at_position
from zoosim.logs.schema import MARGINAL
from zoosim.off_policy.targets.base import column_name
from zoosim.off_policy.targets.products import LoggedColumn, PolicyTarget, TabulatedTarget, Target, make_target

MOST_SETS = 2_000
MOST_CELLS = 50_000_000
"""Exact marginal probabilities go through all sets of actions that may stand above: so many at most, times visits."""


class RankingTarget(ABC):
    """A policy of rankings, to be evaluated on a log: a `Target` for each position."""

    whole = True
    """True if the probabilities of all products are known; else those of the logged ones are."""

    @abstractmethod
    def at(self, log: Log, position: int) -> Target:
        """Return what the policy shows at a position, given what the log shows above."""

    @abstractmethod
    def whatever_above(self, log: Log) -> list[Target]:
        """Return for each position what the policy shows there, whatever stands above."""

    def finish(self) -> None:
        """Raise `PolicyError` if asking has changed the policy's state."""
        return None


class RankedColumn(RankingTarget):
    """Target probabilities of the shown products given those above, and marginal ones where known, `(n, L)`."""

    whole = False

    def __init__(self, values: FloatArray, marginals: FloatArray | None) -> None:
        self.values = values
        self.marginals = marginals

    def at(self, log: Log, position: int) -> Target:
        """Return the column's values at a position."""
        return _logged(np.ascontiguousarray(self.values[:, position]))

    def whatever_above(self, log: Log) -> list[Target]:
        """Return the marginal column's values by position; raises `DataError` where there is none."""
        columns = self.values if log.n_positions == 1 else self.marginals
        if columns is None:
            needed = f"the column {MARGINAL}NAME beside the column NAME of the target"
            raise DataError(f"independent estimators need {needed}")
        return [_logged(np.ascontiguousarray(column)) for column in columns.T]


class DrawnRankings(RankingTarget):
    """A policy whose probabilities are known for whatever stands above."""

    @abstractmethod
    def given_above(self, log: Log, above: IntArray, position: int) -> FloatArray:
        """Return the probabilities `(n, K)` of what comes below `above (n, position)`; 0 where nothing can."""

    def at(self, log: Log, position: int) -> Target:
        """Return the probabilities below what the log shows."""
        return TabulatedTarget(Distributions.dense(self.given_above(log, log.actions[:, :position], position)))

    def whatever_above(self, log: Log) -> list[Target]:
        """Return exact marginal probabilities by position; raises `ConfigError` where these are too many."""
        return [TabulatedTarget(Distributions.dense(probabilities)) for probabilities in marginals(log, self)]


class SequentialDraws(DrawnRankings):
    """Draws without replacement by probabilities `(n, K)`, those of what is left (Luce 1959; Plackett 1975)."""

    def __init__(self, target: Target, log: Log) -> None:
        self.shares = target.distributions(at_position(log, 0), 0, len(log)).matrix(log.n_actions)
        n_possible = (~(self.shares <= 0.0)).sum(axis=1)  # NaN counts: it is refused where probabilities are checked
        few = n_possible < log.n_positions
        if few.any():
            row = int(few.argmax())
            got = f"gives {n_possible[row]} actions a probability above 0, a ranking shows {log.n_positions}"
            raise PolicyError(f"visit {row}: {got}; give each that it may show one, however small")

    def given_above(self, log: Log, above: IntArray, position: int) -> FloatArray:
        """Leave out those above, and share out what is left; at the top, as they are."""
        if position == 0:
            return self.shares
        open_to = log.available(0, len(log))
        np.put_along_axis(open_to, above, False, axis=1)
        shares = np.where(open_to, self.shares, 0.0)
        total = shares.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(shares, total, out=np.zeros_like(shares), where=total > 0.0))

    def rows(self, chosen: IntArray) -> "SequentialDraws":
        """Return the same for the `chosen` visits."""
        part = copy(self)
        part.shares = self.shares[chosen]
        return part


class AskedPolicy(DrawnRankings):
    """A policy object, asked with those above no longer available."""

    def __init__(self, target: PolicyTarget) -> None:
        self.target = target

    def given_above(self, log: Log, above: IntArray, position: int) -> FloatArray:
        """Ask the policy."""
        return self.target.distributions(at_position(log, position, above), 0, len(log)).matrix(log.n_actions)

    def finish(self) -> None:
        """Compare the policy's state with what it was before."""
        self.target.finish()


def make_ranking_target(given: Any, log: Log, progress: Progress = lambda line: None) -> RankingTarget:
    """Return the policy to evaluate: a `Policy`, a function, an array `(K,)` or `(n, K)`, or a column of the log."""
    if isinstance(given, str):
        name = column_name(log, given)
        return RankedColumn(log.columns[name], log.columns.get(MARGINAL + name))
    target = make_target(given, at_position(log, 0), progress)
    return AskedPolicy(target) if isinstance(target, PolicyTarget) else SequentialDraws(target, log)


def marginals(log: Log, target: DrawnRankings) -> list[FloatArray]:
    """Return for each position the probabilities `(n, K)` that it shows a product, whatever stands above.

    Exact, over all sets of products that may stand above; raises `ConfigError` where these are too many. Visits that
    are alike are gone through once.
    """
    if not isinstance(target, SequentialDraws):
        return _all_marginals(log, target)
    keys = np.column_stack([log.candidate_set, target.shares])
    _, first, alike = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    distinct = _all_marginals(log.rows(first), target.rows(first))
    return [probabilities[alike.reshape(-1)] for probabilities in distinct]


def _all_marginals(log: Log, target: DrawnRankings) -> list[FloatArray]:
    _check_sets(log)
    n = len(log)
    k = log.n_actions
    by_position = []
    # The probability `(n,)` that a position has this set of products above it, in whatever order.
    chance_of_set: dict[tuple[int, ...], FloatArray] = {(): np.ones(n)}
    for position in range(log.n_positions):
        probabilities = np.zeros((n, k))
        chance_of_longer = defaultdict[tuple[int, ...], Any](float)
        for above, chance in chance_of_set.items():
            above_rows = np.broadcast_to(np.array(above, np.int64), (n, position))
            joint = chance[:, None] * target.given_above(log, above_rows, position)
            probabilities += joint
            for action in set(range(k)) - set(above):
                # By sets, not by orders: what comes below depends on which products stand above, not on how.
                extended = tuple(sorted((*above, action)))
                chance_of_longer[extended] = chance_of_longer[extended] + joint[:, action]
        by_position.append(probabilities)
        chance_of_set = chance_of_longer
    return by_position


def _check_sets(log: Log) -> None:
    """Raise `ConfigError` where too many sets of actions may stand above a position."""
    positions = log.n_positions
    sets = sum(math.comb(log.n_actions, size) for size in range(positions))
    widest = math.comb(log.n_actions, positions - 1)
    if sets > MOST_SETS or widest * len(log) > MOST_CELLS:
        got = f"{sets:,} sets of actions that may stand above the last of {positions} positions, {len(log):,} visits"
        advice = f"name a column:NAME of the log with {MARGINAL}NAME beside it, or leave out the independent estimators"
        raise ConfigError(f"marginal probabilities: got {got}, too many to go through; {advice}")


def _logged(column: FloatArray) -> LoggedColumn:
    """Return target probabilities `(n,)` of the products at one position."""
    return LoggedColumn(lambda log: column)
