"""Tabulate a policy's weights by size, by action, by category of products and by segment of visitors."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.off_policy.evidence import RewardedRow, rewarded_rows
from zoosim.off_policy.groups import Groups, group_rows

MOST_SEGMENTS, FEW_SEGMENTS = 12, 6
MOST_PATTERNS, FEW_GROUPS = 25, 8
ROWS_PER_SEGMENT = 5
EDGES = 10.0 ** np.arange(-3.0, 5.5, 0.5)
"""Ends of the classes of weights above 0; smaller and larger ones fall into the first and the last."""


class OverlapStratum(NamedTuple):
    """Rows that belong together: how many, their mean weight, their effective sample size, and the largest weight.

    Of segments, `rests_on` names the rows with the largest weight x reward, their shares being of the segment's sum.
    """

    name: str
    rows: int
    mean_weight: float
    ess: float
    max_weight: float
    rests_on: tuple[RewardedRow, ...] = ()


class ActionShare(NamedTuple):
    """Shares of a product, by its `name`, in the choices of the log and in those of the policy.

    `weighted` is the share that the log's weights give it, `chosen` that of the policy's probabilities; None where
    they are not known. Where the log overlaps with the policy both are the same, give or take.
    """

    name: str
    logged: float
    weighted: float
    chosen: float | None


class Overlap(NamedTuple):
    """Shares of rows with a weight of 0 (`unused`) and in each class of weights; actions; segments, found by `how`.

    `categories` are those of the logged products, found by `categories_how`; none where nothing is known of them.
    """

    unused: float
    classes: tuple[float, ...]
    actions: tuple[ActionShare, ...]
    segments: tuple[OverlapStratum, ...]
    how: str
    categories: tuple[OverlapStratum, ...] = ()
    categories_how: str = ""


def overlap_of(
    weights: FloatArray, actions: tuple[ActionShare, ...], groups: Groups, log: Log, *, by_category: bool = False
) -> Overlap:
    """Sum up the weights of a policy.

    Args:
        weights: One for each of the log's n visits `(n,)`.
        actions: How often the log shows each action, and how often the policy would.
        groups: The segments of the visits.
        log: The log.
        by_category: Whether to sum up by category of products, too.
    """
    n = len(weights)
    positive = weights[weights > 0.0]
    size_class = np.clip(np.searchsorted(EDGES, positive, side="right") - 1, 0, len(EDGES) - 2)
    classes = np.bincount(size_class, minlength=len(EDGES) - 1) / n
    segments = tuple(
        part._replace(rests_on=_rows_of_segment(log, weights, groups.labels == label))
        for label, part in _parts_by_label(weights, groups.labels, groups.names).items()
    )
    categories, categories_how = _categories(log, weights) if by_category else ((), "")
    return Overlap(
        unused=1.0 - len(positive) / n,
        classes=tuple(classes.tolist()),
        actions=actions,
        segments=segments,
        how=groups.how,
        categories=categories,
        categories_how=categories_how,
    )


def action_shares(
    log: Log, actions: IntArray, weights: FloatArray, n: int, mass: FloatArray | None
) -> tuple[ActionShare, ...]:
    """Return the share of `n` choices that each action has, from `actions (m,)`, `weights (m,)` and `mass (K,)`."""
    n_actions = log.n_actions
    logged = np.bincount(actions, np.ones(len(actions)), n_actions) / len(actions)
    weighted = np.bincount(actions, weights, n_actions) / n
    chosen = [None] * n_actions if mass is None else (mass / n).tolist()
    names = map(log.action_name, range(n_actions))
    return tuple(map(ActionShare, names, logged.tolist(), weighted.tolist(), chosen))


def _categories(log: Log, weights: FloatArray) -> tuple[tuple[OverlapStratum, ...], str]:
    """Sum up by category, those of the catalogue where products share them, else patterns or clusters of features."""
    known = sorted(set(log.categories))
    if 0 < len(known) < log.n_actions:
        category_of = np.searchsorted(known, log.categories)
        return _parts(weights, category_of[log.actions], known), "the catalogue's"
    if not log.products.shape[1]:
        return (), ""
    groups = group_rows(log.products, MOST_PATTERNS, FEW_GROUPS)
    names = [f"group {number + 1}" for number in range(groups.n_groups)]
    return _parts(weights, groups.labels[log.actions], names), groups.how


def _rows_of_segment(log: Log, weights: FloatArray, is_in: BoolArray) -> tuple[RewardedRow, ...]:
    return rewarded_rows(log, np.where(is_in, weights, 0.0), ROWS_PER_SEGMENT)


def _parts(weights: FloatArray, labels: IntArray, names: Sequence[str]) -> tuple[OverlapStratum, ...]:
    return tuple(_parts_by_label(weights, labels, names).values())


def _parts_by_label(weights: FloatArray, labels: IntArray, names: Sequence[str]) -> dict[int, OverlapStratum]:
    """Sum up by label; labels without rows are left out."""
    rows = np.bincount(labels, None, len(names))
    total = np.bincount(labels, weights, len(names))
    squares = np.bincount(labels, weights**2, len(names))
    largest = np.zeros(len(names))
    np.maximum.at(largest, labels, weights)
    parts = {}
    for label, name in enumerate(names):
        if rows[label]:
            # Kish's effective sample size: the mean of so many rows of equal weight has as large a variance.
            ess = float(total[label] ** 2 / squares[label]) if squares[label] else 0.0
            mean = float(total[label] / rows[label])
            parts[label] = OverlapStratum(name, int(rows[label]), mean, ess, float(largest[label]))
    return parts
