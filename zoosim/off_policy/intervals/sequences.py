"""A confidence sequence: an interval after every row, right at all of them at once, however often one looks."""

import math
from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray
from zoosim.off_policy.estimators.terms import check_arrays
from zoosim.off_policy.intervals.intervals import checked_level, checked_range

LARGEST_BET = 0.5


class Sequence(NamedTuple):
    """Ends of the interval after each row, each `(n,)`; they only ever close in."""

    low: FloatArray
    high: FloatArray


class SequenceEnds:
    """The ends of a confidence sequence so far: rows are added in their order, a block after the other.

    Args:
        reward_range: (low, high) of rewards.
        level: Confidence level in (0, 1).
    """

    def __init__(self, reward_range: tuple[float, float], level: float = 0.95) -> None:
        self._low, self._high = reward_range
        self._log = math.log(2.0 / (1.0 - checked_level(level)))
        self._below = _new_bound()
        self._above = _new_bound()

    def add(self, weights: FloatArray, rewards: FloatArray) -> Sequence:
        """Return the ends after each row of a block `(m,)`."""
        check_arrays(weights=weights, rewards=rewards)
        width = self._high - self._low
        below = _lower(weights * (rewards - self._low) / width, self._log, self._below)
        above = _lower(weights * (self._high - rewards) / width, self._log, self._above)
        return Sequence(self._low + width * below, self._high - width * above)


def confidence_sequence(
    weights: FloatArray, rewards: FloatArray, reward_range: tuple[float, float], level: float = 0.95
) -> Sequence:
    """Return intervals of a policy's value that hold at all times at once with probability `level`.

    The predictable plug-in empirical Bernstein sequence (Waudby-Smith & Ramdas 2024) in its form for importance weights
    of any size (Waudby-Smith, Wu, Ramdas, Karampatziakis & Mineiro 2024, from the inequality of Fan, Grama & Liu 2015):
    w r bounds the value from below; with rewards counted from the top of `reward_range`, from above.

    Conditions: rows in the order in which they came, propensities as they were when the action was drawn (the logging
    policy may learn), each row's context a fresh draw of the same visitors, rewards in `reward_range`. The target
    policy may not depend on the log. Overlap is not needed: without it the interval is wide.
    """
    return SequenceEnds(checked_range(rewards, reward_range), level).add(weights, rewards)


def _new_bound() -> FloatArray:
    """Return the state of a bound before the first row: mean, squares, total, gained, bets, charged, best and rows."""
    # One observation of 1/2 with a square of 1/4 comes first, so that the first bet is defined.
    return np.array([0.5, 0.25, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0])


@jit
def _lower(values: FloatArray, log: float, state: FloatArray) -> FloatArray:
    """Return the running lower bound of the mean, in [0, 1], of `values (n,)` of 0 or more; `log` is log(1 / alpha).

    `state` is what the rows before these have come to, and is brought up to date.
    """
    out = np.empty(values.shape[0])
    mean, squares, total, gained, bets, charged, best, before = state
    for i in range(values.shape[0]):
        t = before + i + 1.0
        # By rows before this one alone (predictable), else the bound would not hold: mean and squares
        # follow below. `squares` is about t variances.
        bet = min(LARGEST_BET, np.sqrt(2.0 * log / (squares * np.log(1.0 + t))))
        difference = values[i] - mean
        gained += bet * values[i]
        bets += bet
        charged += difference * difference * (-np.log(1.0 - bet) - bet)
        best = max(best, (gained - log - charged) / bets)
        out[i] = min(best, 1.0)
        total += values[i]
        mean = min(1.0, total / (t + 1.0))
        squares += (values[i] - mean) * (values[i] - mean)
    state[:] = (mean, squares, total, gained, bets, charged, best, before + values.shape[0])
    return out
