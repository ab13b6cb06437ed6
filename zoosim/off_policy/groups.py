"""Group rows by their features alone, never by their clicks, so that the clicks of a group stay a fair sample."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from zoosim.core.blocks import block_sums, mapped, row_blocks
from zoosim.core.types import BoolArray, FloatArray, IntArray

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

    labels: Any
    centres: FloatArray
    scale: FloatArray
    how: str
    descriptions: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the groups: a number, and what sets them apart."""
        descriptions = self.descriptions or ("",) * self.n_groups
        return [f"segment {number}{': ' + text if text else ''}" for number, text in enumerate(descriptions, start=1)]

    def named(self, features: Any, names: Sequence[str]) -> "Groups":
        """Return the groups with what sets each apart from all rows: `features (n, d)` by their `names (d,)`."""
        center, spread = _moments(features)
        is_binary = _are_binary(features)
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


def group_rows(features: Any, most: int, clusters: int) -> Groups:
    """Group rows by `features (n, d)`: one group per pattern of the columns of 0 and 1, if at most `most` occur.

    Otherwise by k-means on all columns, scaled to variance 1, into `clusters` groups (Lloyd 1982), always the same for
    the same rows.
    """
    center, spread = _moments(features)
    varied = spread > 0.0
    if not varied.any():
        return _one_group(features, "nothing tells them apart")
    binary = _are_binary(features)
    used = binary & varied
    if used.any():
        codes = mapped(lambda block: _codes(block[:, used]), features, dtype=np.int64)
        patterns = _few_patterns(codes, most)
        if patterns is not None:
            n_numeric = int((~binary).sum())
            unused = f"; {n_numeric} columns of numbers are not used" if n_numeric else ""
            how = f"patterns of {int(used.sum())} columns{unused}"
            labels = mapped(lambda block: np.asarray(np.searchsorted(patterns, block)), codes, dtype=np.int64)
            return _ordered(labels, len(patterns), features, used.astype(float), how)
    if clusters < 2:
        return _one_group(features, "too few clicks for more")
    scale: FloatArray = np.where(varied, 1.0 / np.where(varied, spread, 1.0), 0.0)
    how = f"clusters of {int(varied.sum())} columns (k-means), which need not be how tastes differ"
    scaled = mapped(lambda block: (block - center) * scale, features, width=features.shape[1])
    labels, n_groups = _clustered(scaled, clusters)
    return _ordered(labels, n_groups, features, scale, how)


def _moments(features: Any) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the standard deviation of each column of `features (n, d)`."""
    n = max(len(features), 1)
    center = block_sums(features) / n
    return center, np.sqrt(block_sums(features, lambda block: (block - center) ** 2) / n)


def _are_binary(features: Any) -> BoolArray:
    """Return which columns of `features (n, d)` hold 0 and 1 alone `(d,)`."""
    are_binary = np.ones(features.shape[1], bool)
    for rows in row_blocks(len(features)):
        are_binary &= np.isin(features[rows], (0.0, 1.0)).all(axis=0)
    return are_binary


def _few_patterns(codes: Any, most: int) -> IntArray | None:
    """Return the different ones of `codes (n,)` in order; None where they are more than `most`."""
    patterns = np.zeros(0, np.int64)
    for rows in row_blocks(len(codes)):
        patterns = np.union1d(patterns, codes[rows])
        if len(patterns) > most:
            return None
    return patterns


def _one_group(features: Any, reason: str) -> Groups:
    labels = mapped(lambda block: np.zeros(len(block), np.int64), features, dtype=np.int64)
    return _ordered(labels, 1, features, np.zeros(features.shape[1]), f"one group: {reason}")


def _codes(patterns: FloatArray) -> IntArray:
    """Return a number for each row of 0 and 1, the same for the same pattern alone: a random sum of its bits."""
    rng = np.random.default_rng(0)
    codes = np.zeros(len(patterns), np.int64)
    for column in patterns.T:
        codes += int(rng.integers(1, 2**62)) * column.astype(np.int64)
    return codes


def _clustered(scaled: Any, clusters: int) -> tuple[Any, int]:
    """Return the cluster of each row of `scaled (n, d)`, and how many there are."""
    from sklearn.cluster import KMeans

    sample = scaled[np.arange(0, len(scaled), max(1, len(scaled) // SAMPLE))]
    count = min(clusters, len(np.unique(sample, axis=0)))
    # With more threads sums are added in another order, and the groups of a log would go by the machine.
    with threadpool_limits(1):
        model = KMeans(count, n_init=5, random_state=0).fit(sample)

    def predict(block: FloatArray) -> IntArray:
        with threadpool_limits(1):
            return np.asarray(model.predict(block), np.int64)

    return mapped(predict, scaled, dtype=np.int64), count


def _ordered(labels: Any, n_labels: int, features: Any, scale: FloatArray, how: str) -> Groups:
    """Number the groups by size, the largest first; of groups as large, that which comes first; leave out empty ones.

    `labels (n,)` are from 0 to `n_labels - 1`.
    """
    sizes = np.zeros(n_labels, np.int64)
    first = np.full(n_labels, len(features))
    sums = np.zeros((n_labels, features.shape[1]))
    for rows in row_blocks(len(features)):
        block = labels[rows]
        sizes += np.bincount(block, minlength=n_labels)
        present, place = np.unique(block, return_index=True)
        first[present] = np.minimum(first[present], rows.start + place)
        for number, column in enumerate(features[rows].T):
            sums[:, number] += np.bincount(block, column, n_labels)
    order = np.lexsort((first, -sizes))[: int((sizes > 0).sum())]
    rank = np.zeros(n_labels, np.int64)
    rank[order] = np.arange(len(order))
    centres = sums[order] / sizes[order, None]
    return Groups(mapped(lambda block: rank[block], labels, dtype=np.int64), centres, scale, how)
