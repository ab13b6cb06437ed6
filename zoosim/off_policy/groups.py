"""Group rows by their features alone, never by their clicks, so that the clicks of a group stay a fair sample."""

from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from zoosim.core.types import FloatArray, IntArray

SAMPLE = 20_000
"""Rows from which the centres of clusters are learned."""


class Groups(NamedTuple):
    """Groups of rows: their `labels (n,)` from 0, the largest group first, and in words `how` they were told apart.

    `centres (G, d)` are the groups' mean features, `scale (d,)` how much a column counts for likeness, 0 if not at all.
    """

    labels: IntArray
    centres: FloatArray
    scale: FloatArray
    how: str

    @property
    def n_groups(self) -> int:
        """Count the groups."""
        return len(self.centres)

    def assign(self, features: FloatArray) -> IntArray:
        """Return the groups of other rows `(m,)`: those whose mean features are nearest."""
        best = np.full(len(features), np.inf)
        label = np.zeros(len(features), np.int64)
        for number, centre in enumerate(self.centres):
            distance = (((features - centre) * self.scale) ** 2).sum(axis=1)
            label[distance < best] = number
            best = np.minimum(best, distance)
        return label


def group_rows(features: FloatArray, most: int, clusters: int) -> Groups:
    """Group rows by `features (n, d)`: one group per pattern of the columns of 0 and 1, if at most `most` occur.

    Otherwise by k-means on all columns, scaled to variance 1, into `clusters` groups (Lloyd 1982), always the same for
    the same rows.
    """
    spread: FloatArray = features.std(axis=0) if len(features) else np.zeros(features.shape[1])
    varied = spread > 0.0
    if not varied.any():
        return _one_group(features, "nothing tells them apart")
    binary = np.isin(features, (0.0, 1.0)).all(axis=0)
    used = binary & varied
    if used.any():
        patterns, labels = np.unique(_codes(features[:, used]), return_inverse=True)
        if len(patterns) <= most:
            n_numeric = int((~binary).sum())
            unused = f"; {n_numeric} columns of numbers are not used" if n_numeric else ""
            how = f"patterns of {int(used.sum())} columns{unused}"
            return _ordered(labels.reshape(-1), features, used.astype(float), how)
    if clusters < 2:
        return _one_group(features, "too few clicks for more")
    scale: FloatArray = np.where(varied, 1.0 / np.where(varied, spread, 1.0), 0.0)
    how = f"clusters of {int(varied.sum())} columns (k-means), which need not be how tastes differ"
    return _ordered(_clustered((features - features.mean(axis=0)) * scale, clusters), features, scale, how)


def _one_group(features: FloatArray, reason: str) -> Groups:
    labels = np.zeros(len(features), np.int64)
    return _ordered(labels, features, np.zeros(features.shape[1]), f"one group: {reason}")


def _codes(patterns: FloatArray) -> IntArray:
    """Return a number for each row of 0 and 1, the same for the same pattern alone: a random sum of its bits."""
    rng = np.random.default_rng(0)
    codes = np.zeros(len(patterns), np.int64)
    for column in patterns.T:
        codes += int(rng.integers(1, 2**62)) * column.astype(np.int64)
    return codes


def _clustered(scaled: FloatArray, clusters: int) -> IntArray:
    from sklearn.cluster import KMeans

    sample = scaled[:: max(1, len(scaled) // SAMPLE)]
    count = min(clusters, len(np.unique(sample, axis=0)))
    with threadpool_limits(1):
        model = KMeans(count, n_init=5, random_state=0).fit(sample)
        return np.asarray(model.predict(scaled), np.int64)


def _ordered(labels: IntArray, features: FloatArray, scale: FloatArray, how: str) -> Groups:
    """Number the groups by size, the largest first; of groups as large, that which comes first."""
    _, first, labels = np.unique(labels, return_index=True, return_inverse=True)
    labels = labels.reshape(-1)
    sizes = np.bincount(labels)
    order = np.lexsort((first, -sizes))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    ranked = rank[labels]
    centres = np.zeros((len(order), features.shape[1]))
    for number, column in enumerate(features.T):
        centres[:, number] = np.bincount(ranked, column, len(order)) / sizes[order]
    return Groups(ranked, centres, scale, how)
