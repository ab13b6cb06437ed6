"""Tabulate a policy's weights by size, by action, by category of products and by segment of visitors."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.blocks import mapped, row_blocks
from zoosim.core.types import FloatArray, IntArray
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
    weights: Any, actions: tuple[ActionShare, ...], groups: Groups, log: Log, *, by_category: bool = False
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
    counts = np.zeros(len(EDGES) - 1, np.int64)
    for rows in row_blocks(n):
        block = weights[rows]
        size_class = np.searchsorted(EDGES, block[block > 0.0], side="right") - 1
        counts += np.bincount(np.clip(size_class, 0, len(counts) - 1), minlength=len(counts))
    segments = tuple(
        part._replace(rests_on=_rows_of_segment(log, weights, groups.labels, label))
        for label, part in _parts_by_label(weights, groups.labels, groups.names).items()
    )
    categories, categories_how = _categories(log, weights) if by_category else ((), "")
    return Overlap(
        unused=1.0 - int(counts.sum()) / n,
        classes=tuple((counts / n).tolist()),
        actions=actions,
        segments=segments,
        how=groups.how,
        categories=categories,
        categories_how=categories_how,
    )


def action_shares(log: Log, actions: Any, weights: Any, n: int, mass: FloatArray | None) -> tuple[ActionShare, ...]:
    """Return the share of `n` choices that each action has, from `actions (m,)`, `weights (m,)` and `mass (K,)`."""
    n_actions = log.n_actions
    logged = np.zeros(n_actions)
    weighted = np.zeros(n_actions)
    for rows in row_blocks(len(actions)):
        logged += np.bincount(actions[rows], minlength=n_actions)
        weighted += np.bincount(actions[rows], weights[rows], n_actions)
    logged /= len(actions)
    weighted /= n
    chosen = [None] * n_actions if mass is None else (mass / n).tolist()
    names = map(log.action_name, range(n_actions))
    return tuple(map(ActionShare, names, logged.tolist(), weighted.tolist(), chosen))


def _categories(log: Log, weights: FloatArray) -> tuple[tuple[OverlapStratum, ...], str]:
    """Sum up by category, those of the catalogue where products share them, else patterns or clusters of features."""
    known = sorted(set(log.categories))
    if 0 < len(known) < log.n_actions:
        category_of = np.searchsorted(known, log.categories)
        return _parts(weights, _labels_of(log, category_of), known), "the catalogue's"
    if not log.products.shape[1]:
        return (), ""
    groups = group_rows(log.products, MOST_PATTERNS, FEW_GROUPS)
    names = [f"group {number + 1}" for number in range(groups.n_groups)]
    return _parts(weights, _labels_of(log, groups.labels), names), groups.how


def _labels_of(log: Log, label_of_product: IntArray) -> Any:
    return mapped(lambda actions: label_of_product[actions], log.actions, dtype=np.int64)


def _rows_of_segment(log: Log, weights: Any, labels: Any, label: int) -> tuple[RewardedRow, ...]:
    inside = mapped(lambda block, own: np.where(own == label, block, 0.0), weights, labels)
    return rewarded_rows(log, inside, ROWS_PER_SEGMENT)


def _parts(weights: Any, labels: Any, names: Sequence[str]) -> tuple[OverlapStratum, ...]:
    return tuple(_parts_by_label(weights, labels, names).values())


def _parts_by_label(weights: Any, labels: Any, names: Sequence[str]) -> dict[int, OverlapStratum]:
    """Sum up by label; labels without rows are left out."""
    rows = np.zeros(len(names), np.int64)
    total, squares, largest = np.zeros((3, len(names)))
    for block in row_blocks(len(weights)):
        own = weights[block]
        label_of_row = labels[block]
        rows += np.bincount(label_of_row, minlength=len(names))
        total += np.bincount(label_of_row, own, len(names))
        squares += np.bincount(label_of_row, own**2, len(names))
        np.maximum.at(largest, label_of_row, own)
    parts = {}
    for label, name in enumerate(names):
        if rows[label]:
            # Kish's effective sample size: the mean of so many rows of equal weight has as large a variance.
            ess = float(total[label] ** 2 / squares[label]) if squares[label] else 0.0
            mean = float(total[label] / rows[label])
            parts[label] = OverlapStratum(name, int(rows[label]), mean, ess, float(largest[label]))
    return parts
