"""The rewarded rows that an estimate rests on: how many there are in effect, and which weigh the most."""

from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from zoosim.action_spaces import find_action_space
from zoosim.core.durations import MICROSECONDS
from zoosim.core.number_format import counted
from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.off_policy.diagnostics import RewardCount, effective_size

MOST_ROWS = 10
"""Rows that an estimate names."""

FEW_REWARDS = 20.0
"""With fewer effective rewards behind an estimate, a percentage would be a guess, and so would its sign."""


class RewardedRow(NamedTuple):
    """A row that earned something, and how much of an estimate comes from it.

    `row` counts from 0 in the log as it was read, bad rows and those set aside included; `user` is that log's number
    for the visitor, `time` ISO 8601 in UTC, each None where the log does not say; `action` names what was shown.
    `share` is the row's part of the sum of weight x reward over all rows, sizes alone.
    """

    row: int
    user: int | None
    time: str | None
    action: str
    reward: float
    weight: float
    share: float


def count_rewards(rewards: FloatArray, weights: FloatArray) -> RewardCount:
    """Return how many rewards of equal size tell what an estimate tells.

    The effective ones are the fewer by two counts. One is of the rewarded rows: (sum |w r|)^2 / sum (w r)^2 (Kish
    1965). The other is of all rows: their effective size (sum w)^2 / sum w^2 times the weighted share of them that are
    rewarded. Where the heaviest rows happen to hold no reward, only the second shows that few rows decide. The expected
    ones are that effective size times the share of all rows that are rewarded.

    Args:
        rewards: What each visit earned `(n,)`.
        weights: How much each visit counts in an estimate `(n,)`, 0 or more.
    """
    total = float(weights.sum())
    if not total > 0.0:
        return RewardCount(0.0, 0.0)
    is_rewarded = rewards != 0.0
    rows = effective_size(weights)
    of_all_rows = rows * float(weights[is_rewarded].sum()) / total
    return RewardCount(min(effective_size(np.abs(weights * rewards)), of_all_rows), rows * float(is_rewarded.mean()))


def rewards_in_words(count: float) -> str:
    """Write a number of effective rewards as "about 12 rewards"."""
    if count < 0.5:
        return "no reward at all"
    return f"about {counted(max(count, 1.0), 'reward')}"


def rewarded_rows(log: Log, weights: FloatArray, most: int = MOST_ROWS) -> tuple[RewardedRow, ...]:
    """Return the rows of a log with the largest weight x reward, the largest first, at most so many.

    Args:
        log: n visits.
        weights: How much each visit counts in an estimate `(n,)`, 0 or more.
        most: How many rows to return.
    """
    sizes = np.abs(weights * log.visit_rewards)
    total = float(sizes.sum())
    if not total > 0.0:
        return ()
    numbers = log.row_numbers
    evaluator = find_action_space(log.action_space).evaluator
    return tuple(
        RewardedRow(
            row=int(numbers[row]),
            user=None if log.user_ids is None else int(log.user_ids[row]),
            time=None if log.times is None else _written(int(log.times[row])),
            action=evaluator.action_shown(log, int(row)),
            reward=float(log.visit_rewards[row]),
            weight=float(weights[row]),
            share=float(sizes[row]) / total,
        )
        for row in _largest(sizes, most)
    )


def _largest(sizes: FloatArray, most: int) -> IntArray:
    """Return the places of the largest `sizes (n,)` above 0, the largest first; of equal ones the earliest first."""
    positive = np.flatnonzero(sizes)
    if len(positive) > most:
        threshold = np.partition(sizes[positive], -most)[-most]
        positive = positive[sizes[positive] >= threshold]
    return positive[np.argsort(-sizes[positive], kind="stable")][:most]


def _written(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / MICROSECONDS, UTC).isoformat()
