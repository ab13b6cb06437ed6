"""Where a policy's weights lie: by their size, by action and by segment of visitors. Sums alone, no row of a user."""

from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray, IntArray
from zoosim.evaluation.off_policy.groups import Groups
from zoosim.evaluation.off_policy.judging import Judged
from zoosim.evaluation.off_policy.log import Log

MOST_SEGMENTS, FEW_SEGMENTS = 12, 6
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
    """Shares of rows with a weight of 0 (`unused`) and in each class of weights; actions; segments, found by `how`."""

    unused: float
    classes: tuple[float, ...]
    actions: tuple[ActionShare, ...]
    segments: tuple[Part, ...]
    how: str


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
    return Overlap(1.0 - len(above) / n, tuple(classes.tolist()), actions, _parts(weights, groups), groups.how)


def _parts(weights: FloatArray, groups: Groups) -> tuple[Part, ...]:
    labels: IntArray = groups.labels
    rows, total, squares = (np.bincount(labels, values, groups.n_groups) for values in (None, weights, weights**2))
    largest = np.zeros(groups.n_groups)
    np.maximum.at(largest, labels, weights)
    return tuple(
        Part(
            f"segment {s + 1}",
            int(rows[s]),
            float(total[s] / rows[s]),
            float(total[s] ** 2 / squares[s]) if squares[s] else 0.0,
            float(largest[s]),
        )
        for s in range(groups.n_groups)
    )
