"""Where a policy's weights lie: by size, by action, by category of products and by segment of visitors.

Sums alone, no row of a user.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray, IntArray
from zoosim.evaluation.off_policy.groups import Groups, group_rows
from zoosim.evaluation.off_policy.judging import Judged
from zoosim.evaluation.off_policy.log import Log

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


def overlap_of(log: Log, judged: Judged, groups: Groups) -> Overlap:
    """Sum the weights of a policy up by size, action and segment."""
    weights, n = judged.weights, len(log)
    above = weights[weights > 0.0]
    place = np.clip(np.searchsorted(EDGES, above, side="right") - 1, 0, len(EDGES) - 2)
    classes = np.bincount(place, minlength=len(EDGES) - 1) / n
    shares = [np.bincount(log.actions, values, log.n_actions) / n for values in (np.ones(n), weights)]
    wanted = None if judged.mass is None else judged.mass / n
    actions = tuple(
        ActionShare(a, float(shares[0][a]), float(shares[1][a]), None if wanted is None else float(wanted[a]))
        for a in range(log.n_actions)
    )
    segments = _parts(weights, groups.labels, [f"segment {s + 1}" for s in range(groups.n_groups)])
    labels, names, how = _categories(log)
    categories = _parts(weights, labels[log.actions], names) if names else ()
    return Overlap(1.0 - len(above) / n, tuple(classes.tolist()), actions, segments, groups.how, categories, how)


def _categories(log: Log) -> tuple[IntArray, list[str], str]:
    """Return the category of each action `(K,)`, their names, and how they are known; no names where they are not.

    Those of the catalogue, where products share them; else patterns or clusters of the products' features.
    """
    known = sorted(set(log.categories))
    if 0 < len(known) < log.n_actions:
        return np.searchsorted(known, log.categories), known, "the catalogue's"
    if not log.products.shape[1]:
        return np.zeros(log.n_actions, np.int64), [], ""
    groups = group_rows(log.products, MOST_PATTERNS, FEW_GROUPS)
    return groups.labels, [f"group {number + 1}" for number in range(groups.n_groups)], groups.how


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
