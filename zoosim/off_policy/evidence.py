"""The rewarded rows that an estimate rests on: how many there are in effect, and which weigh the most."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from zoosim.action_spaces import find_action_space
from zoosim.core.blocks import row_blocks
from zoosim.core.durations import MICROSECONDS
from zoosim.core.number_format import counted
from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.off_policy.diagnostics import RewardCount

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


def count_rewards(rewards: Any, weights: Any) -> RewardCount:
    """Return how many rewards of equal size tell what an estimate tells.

    The effective ones are the fewer by two counts. One is of the rewarded rows: (sum |w r|)^2 / sum (w r)^2 (Kish
    1965). The other is of all rows: their effective size (sum w)^2 / sum w^2 times the weighted share of them that are
    rewarded. Where the heaviest rows happen to hold no reward, only the second shows that few rows decide. The expected
    ones are that effective size times the share of all rows that are rewarded.

    Args:
        rewards: What each visit earned `(n,)`.
        weights: How much each visit counts in an estimate `(n,)`, 0 or more.
    """
    total = squares = of_rewarded = sizes = square_sizes = 0.0
    n_rewarded = 0
    for rows in row_blocks(len(weights)):
        block = weights[rows]
        block_rewards = rewards[rows]
        is_rewarded = block_rewards != 0.0
        weighted = np.abs(block[is_rewarded] * block_rewards[is_rewarded])
        total += float(block.sum())
        squares += float((block * block).sum())
        of_rewarded += float(block[is_rewarded].sum())
        sizes += float(weighted.sum())
        square_sizes += float((weighted * weighted).sum())
        n_rewarded += int(is_rewarded.sum())
    if not total > 0.0:
        return RewardCount(0.0, 0.0)
    effective_rows = total**2 / squares if squares else 0.0
    of_rewarded_rows = sizes**2 / square_sizes if square_sizes else 0.0
    effective = min(of_rewarded_rows, effective_rows * of_rewarded / total)
    return RewardCount(effective, effective_rows * n_rewarded / len(weights))


def rewards_in_words(count: float) -> str:
    """Write a number of effective rewards as "about 12 rewards"."""
    if count < 0.5:
        return "no reward at all"
    return f"about {counted(max(count, 1.0), 'reward')}"


def rewarded_rows(log: Log, weights: Any, most: int = MOST_ROWS) -> tuple[RewardedRow, ...]:
    """Return the rows of a log with the largest weight x reward, the largest first, at most so many.

    Args:
        log: n visits.
        weights: How much each visit counts in an estimate `(n,)`, 0 or more.
        most: How many rows to return.
    """
    rewards = log.visit_rewards
    total = 0.0
    candidates = np.zeros(0, np.int64)
    sizes = np.zeros(0)
    for rows in row_blocks(len(log)):
        block = np.abs(weights[rows] * rewards[rows])
        total += float(block.sum())
        places = _largest(block, most)
        candidates = np.append(candidates, rows.start + places)
        sizes = np.append(sizes, block[places])
        kept = _largest(sizes, most)
        candidates = candidates[kept]
        sizes = sizes[kept]
    if not total > 0.0:
        return ()
    few = log.rows(candidates)
    heavy = weights[candidates]
    evaluator = find_action_space(log.action_space).evaluator
    return tuple(
        RewardedRow(
            row=int(few.row_numbers[place]),
            user=None if few.user_ids is None else int(few.user_ids[place]),
            time=None if few.times is None else _written(int(few.times[place])),
            action=evaluator.action_shown(few, place),
            reward=float(few.visit_rewards[place]),
            weight=float(heavy[place]),
            share=float(sizes[place]) / total,
        )
        for place in range(len(candidates))
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
