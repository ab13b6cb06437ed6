"""Put rows together by what is known of them alone, never by their clicks: so a cell's clicks stay a fair sample."""

from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from zoosim.core.types import FloatArray, IntArray

SAMPLE = 20_000
"""Rows from which the centres of clusters are learned."""


class Groups(NamedTuple):
    """`labels (n,)` from 0, most frequent first; how many there are; `how` they were told apart, in words.

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
        best, label = np.full(len(features), np.inf), np.zeros(len(features), np.int64)
        for number, centre in enumerate(self.centres):
            distance = (((features - centre) * self.scale) ** 2).sum(axis=1)
            label[distance < best] = number
            best = np.minimum(best, distance)
        return label


def group_rows(features: FloatArray, most: int, clusters: int) -> Groups:
    """Tell rows apart by `features (n, d)`: one group a pattern of the columns of 0 and 1, if at most `most` occur.

    Otherwise by k-means on all columns, scaled to variance 1, into `clusters` groups (Lloyd 1982), always the same for
    the same rows.
    """
    spread: FloatArray = features.std(axis=0) if len(features) else np.zeros(features.shape[1])
    binary, varied = np.isin(features, (0.0, 1.0)).all(axis=0), spread > 0.0
    one = np.zeros(len(features), np.int64)
    if not varied.any():
        return _ordered(one, features, np.zeros(len(varied)), "one group: nothing tells them apart")
    used = binary & varied
    if used.any():
        patterns, labels = np.unique(_codes(features[:, used]), return_inverse=True)
        if len(patterns) <= most:
            left = f"; {int((~binary).sum())} columns of numbers are not used" if not binary.all() else ""
            how = f"patterns of {int(used.sum())} columns{left}"
            return _ordered(labels.reshape(-1), features, used.astype(float), how)
    if clusters < 2:
        return _ordered(one, features, np.zeros(len(varied)), "one group: too few clicks for more")
    scale: FloatArray = np.where(varied, 1.0 / np.where(varied, spread, 1.0), 0.0)
    how = f"clusters of {int(varied.sum())} columns (k-means), which need not be how tastes differ"
    return _ordered(_clustered((features - features.mean(axis=0)) * scale, clusters), features, scale, how)


def _codes(patterns: FloatArray) -> IntArray:
    """Return a number for each row of 0 and 1, the same for the same pattern alone: a random sum of its bits."""
    rng, codes = np.random.default_rng(0), np.zeros(len(patterns), np.int64)
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
    """Number the groups by their size, the largest first, and where they are as large, that which comes first."""
    _, first, labels = np.unique(labels, return_index=True, return_inverse=True)
    sizes = np.bincount(labels.reshape(-1))
    order = np.lexsort((first, -sizes))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    found = rank[labels.reshape(-1)]
    centres = np.zeros((len(order), features.shape[1]))
    for number, column in enumerate(features.T):
        centres[:, number] = np.bincount(found, column, len(order)) / sizes[order]
    return Groups(found, centres, scale, how)
