"""Group rows by their features alone, never by their clicks, so that the clicks of a group stay a fair sample."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from zoosim.core.types import FloatArray, IntArray

MOSTLY = 0.9
"""Share of a group's rows with a 1 in a column from which on that describes the group."""

FAR = 0.5
"""Standard deviations between a group's mean and that of all rows from which on that describes it."""

MOST_WORDS = 3
"""Features that describe a group."""

SAMPLE = 20_000
"""Rows from which the centres of clusters are learned."""


class Groups(NamedTuple):
    """Groups of rows: their `labels (n,)` from 0, the largest group first, and in words `how` they were told apart.

    `centres (G, d)` are the groups' mean features, `scale (d,)` how much a column counts for likeness, 0 if not at all.
    `descriptions` say what sets each group apart, where somebody asked.
    """

    labels: IntArray
    centres: FloatArray
    scale: FloatArray
    how: str
    descriptions: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the groups: a number, and what sets them apart."""
        descriptions = self.descriptions or ("",) * self.n_groups
        return [f"segment {number}{': ' + text if text else ''}" for number, text in enumerate(descriptions, start=1)]

    def named(self, features: FloatArray, names: Sequence[str]) -> "Groups":
        """Return the groups with what sets each apart from all rows: `features (n, d)` by their `names (d,)`."""
        center = features.mean(axis=0)
        spread = features.std(axis=0)
        is_binary = np.asarray(np.isin(features, (0.0, 1.0)).all(axis=0))
        described = []
        for group in range(self.n_groups):
            mean = self.centres[group]
            distance: FloatArray = np.divide(mean - center, spread, out=np.zeros_like(center), where=spread > 0.0)
            is_typical = (mean > MOSTLY) & (distance > 0.0)
            tells = np.flatnonzero(np.where(is_binary, is_typical, np.abs(distance) > FAR))
            farthest = tells[np.argsort(-np.abs(distance[tells]), kind="stable")][:MOST_WORDS]
            words = [_description(names[place], bool(is_binary[place]), distance[place]) for place in farthest]
            described.append(", ".join(words))
        return self._replace(descriptions=tuple(described))

    @property
    def n_groups(self) -> int:
        """Count the groups."""
        return len(self.centres)

    def assign(self, features: FloatArray) -> IntArray:
        """Return the groups of other rows `(m,)`: those whose mean features are nearest."""
        best = np.full(len(features), np.inf)
        label = np.zeros(len(features), np.int64)
        # Centre by centre, as all distances at once would take rows x groups x features.
        for number, centre in enumerate(self.centres):
            distance = (((features - centre) * self.scale) ** 2).sum(axis=1)
            label[distance < best] = number
            best = np.minimum(best, distance)
        return label


def _description(name: str, is_binary: bool, distance: float) -> str:
    """Say what a group's feature is like: its name alone where it is 0 or 1."""
    if is_binary:
        return name
    return f"{'high' if distance > 0.0 else 'low'} {name}"


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
    # With more threads sums are added in another order, and the groups of a log would go by the machine.
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
