"""Where a policy's weights lie: by size, by action, by category of products and by segment of visitors.

Sums alone, no row of a user.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.off_policy.groups import Groups, group_rows

MOST_SEGMENTS, FEW_SEGMENTS = 12, 6
MOST_PATTERNS, FEW_GROUPS = 25, 8
EDGES = 10.0 ** np.arange(-3.0, 5.5, 0.5)
"""Ends of the classes of weights above 0; smaller and larger ones fall into the first and the last."""


class Part(NamedTuple):
    """Rows that belong together: how many, their mean weight, their effective sample size, and the largest weight."""

    name: str
    rows: int
    mean_weight: float
    ess: float
    max_weight: float


class ActionShare(NamedTuple):
    """How often the log shows an action, and how often the policy would: shares of all choices.

    `found` is the share that the log's weights give it, `wanted` that which the policy's probabilities do; None where
    they are not known. Where the log overlaps with the policy both are the same, give or take.
    """

    action: int
    logged: float
    found: float
    wanted: float | None


class Overlap(NamedTuple):
    """Shares of rows with a weight of 0 (`unused`) and in each class of weights; actions; segments, found by `how`.

    `categories` are those of the logged products, found by `categories_how`; none where nothing is known of them.
    """

    unused: float
    classes: tuple[float, ...]
    actions: tuple[ActionShare, ...]
    segments: tuple[Part, ...]
    how: str
    categories: tuple[Part, ...] = ()
    categories_how: str = ""


def overlap_of(
    weights: FloatArray, actions: tuple[ActionShare, ...], groups: Groups, log: Log | None = None
) -> Overlap:
    """Sum the `weights (n,)` of a policy up by size and segment, and by category in a log of single actions."""
    n = len(weights)
    above = weights[weights > 0.0]
    place = np.clip(np.searchsorted(EDGES, above, side="right") - 1, 0, len(EDGES) - 2)
    classes = np.bincount(place, minlength=len(EDGES) - 1) / n
    segments = _parts(weights, groups.labels, [f"segment {s + 1}" for s in range(groups.n_groups)])
    head = (1.0 - len(above) / n, tuple(classes.tolist()), actions, segments, groups.how)
    return Overlap(*head, *((), "") if log is None else _categories(log, weights))


def action_shares(
    actions: IntArray, weights: FloatArray, n_actions: int, n: int, mass: FloatArray | None
) -> tuple[ActionShare, ...]:
    """Return the share of `n` choices that each action has, from `actions (m,)`, `weights (m,)` and `mass (K,)`."""
    counts = np.bincount(actions, np.ones(len(actions)), n_actions) / len(actions)
    found = np.bincount(actions, weights, n_actions) / n
    wanted = None if mass is None else mass / n
    return tuple(
        ActionShare(a, float(counts[a]), float(found[a]), None if wanted is None else float(wanted[a]))
        for a in range(n_actions)
    )


def _categories(log: Log, weights: FloatArray) -> tuple[tuple[Part, ...], str]:
    """Sum up by category, those of the catalogue where products share them, else patterns or clusters of features."""
    known = sorted(set(log.categories))
    if 0 < len(known) < log.n_actions:
        return _parts(weights, np.searchsorted(known, log.categories)[log.actions], known), "the catalogue's"
    if not log.products.shape[1]:
        return (), ""
    groups = group_rows(log.products, MOST_PATTERNS, FEW_GROUPS)
    return _parts(weights, groups.labels[log.actions], [f"group {g + 1}" for g in range(groups.n_groups)]), groups.how


def _parts(weights: FloatArray, labels: IntArray, names: Sequence[str]) -> tuple[Part, ...]:
    """Sum up by label; what has no rows is left out."""
    rows, total, squares = (np.bincount(labels, values, len(names)) for values in (None, weights, weights**2))
    largest = np.zeros(len(names))
    np.maximum.at(largest, labels, weights)
    return tuple(
        Part(
            name,
            int(rows[s]),
            float(total[s] / rows[s]),
            float(total[s] ** 2 / squares[s]) if squares[s] else 0.0,
            float(largest[s]),
        )
        for s, name in enumerate(names)
        if rows[s]
    )
