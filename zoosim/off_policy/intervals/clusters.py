"""Rows that belong together, such as those of a user, summed: what intervals are computed from."""

import math
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.blocks import RowArray, StoredRows, block_sum, dot, mapped, row_blocks
from zoosim.core.errors import DataError
from zoosim.core.types import FloatArray, IntArray
from zoosim.core.user_groups import MAX_GROUPS, group_by_user
from zoosim.off_policy.estimators.terms import RowTerms, Terms


class Clusters(NamedTuple):
    """Groups of rows: that of each `(n,)`, the groups' `sizes (G,)`, and the number of clusters they hold."""

    group: Any
    sizes: FloatArray
    n_clusters: int

    def sums(self, values: FloatArray) -> FloatArray:
        """Add `values (n,)` up by group: `(G,)`."""
        if len(values) != len(self.group):
            raise DataError(f"values: got {len(values)} rows, expected {len(self.group)} as in the log")
        total = np.zeros(len(self.sizes))
        for rows in row_blocks(len(values)):
            total += np.bincount(self.group[rows], values[rows], len(total))
        return total


def make_clusters(n: int, user_ids: IntArray | None = None, max_groups: int = MAX_GROUPS) -> Clusters:
    """Put `n` rows together by `user_ids (n,)`; without them, each row is a cluster of its own."""
    group, n_clusters = group_by_user(n, user_ids, max_groups)
    n_groups = min(n if user_ids is None else n_clusters, max_groups)
    # Kept where rows are read in blocks, as each estimate goes through them.
    kept = StoredRows((n,), np.int32) if isinstance(group, RowArray) else None
    sizes = np.zeros(n_groups)
    for rows in row_blocks(n):
        block = group[rows]
        sizes += np.bincount(block, minlength=n_groups)
        if kept is not None:
            kept[rows] = block
    if kept is not None:
        group = mapped(lambda block: block.astype(np.int64), kept, dtype=np.int64)
    return Clusters(group, sizes, n_clusters)


class ClusterSums(NamedTuple):
    """An estimate, or a difference of two, by group: arrays `(G,)`.

    value = sum(base) / sum(sizes) + sum(top) / sum(bottom) over the `ratios` (top, bottom), of which there are two; one
    that is not needed has a top of 0.
    """

    sizes: FloatArray
    base: FloatArray
    ratios: tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]

    @property
    def value(self) -> float:
        """Return the estimate."""
        mean = float(self.base.sum() / self.sizes.sum())
        return mean + sum(float(top.sum() / bottom.sum()) for top, bottom in self.ratios)

    @property
    def influence(self) -> FloatArray:
        """Return each group's influence on the estimate, times the number of rows: its rows' influences, summed."""
        n = self.sizes.sum()
        shares: FloatArray = self.base - self.base.sum() / n * self.sizes
        for top, bottom in self.ratios:
            total = bottom.sum()
            shares += n / total * (top - top.sum() / total * bottom)
        return shares


class GroupTerms(NamedTuple):
    """Terms of an estimate added up by group, arrays `(G,)`: how many rows there are, and what they share in it."""

    sizes: FloatArray
    base: FloatArray
    top: FloatArray
    bottom: FloatArray


def group_sums(clusters: Clusters, terms: RowTerms) -> ClusterSums:
    """Add an estimate's terms up by group; raises `DataError` when all weights are 0."""
    return halved_sums(clusters, terms, None)[0]


def halved_sums(clusters: Clusters, terms: RowTerms, later: Any) -> tuple[ClusterSums, GroupTerms | None]:
    """Add an estimate's terms up by group, and those of the rows that `later (n,)` marks, where it is not None.

    Raises `DataError` when all weights are 0.
    """
    if terms.n_rows != len(clusters.group):
        raise DataError(f"values: got {terms.n_rows} rows, expected {len(clusters.group)} as in the log")
    n_groups = len(clusters.sizes)
    every_row = GroupTerms(clusters.sizes, *np.zeros((3, n_groups)))
    later_rows = None if later is None else GroupTerms(*np.zeros((4, n_groups)))
    has_ratio = False
    for rows in row_blocks(terms.n_rows):
        group = clusters.group[rows]
        block = terms.at(rows)
        has_ratio |= block.top is not None
        _add_up(every_row, group, block, n_groups)
        if later is not None and later_rows is not None:
            is_later = later[rows]
            later_group = group[is_later]
            later_rows.sizes[:] += np.bincount(later_group, minlength=n_groups)
            _add_up(later_rows, later_group, block.at(is_later), n_groups)
    sizes, base, top, bottom = every_row
    no_ratio = (np.zeros(n_groups), sizes)
    if not has_ratio:
        return ClusterSums(sizes, base, (no_ratio, no_ratio)), later_rows
    if not bottom.sum() > 0.0:
        raise DataError("weights: sum to 0, expected the target policy to take some logged action")
    return ClusterSums(sizes, base, ((top, bottom), no_ratio)), later_rows


def _add_up(sums: GroupTerms, group: IntArray, terms: Terms, n_groups: int) -> None:
    """Add the terms of some rows, by their `group (m,)`, to sums."""
    for total, values in zip(sums[1:], terms, strict=True):
        if values is not None and values.any():
            total += np.bincount(group, values, n_groups)


def difference(sums: ClusterSums, less: ClusterSums) -> ClusterSums:
    """Return the difference of two estimates of the same log, neither of which is a difference."""
    top, bottom = less.ratios[0]
    return ClusterSums(sums.sizes, sums.base - less.base, (sums.ratios[0], (-top, bottom)))


def go_together(clusters: Clusters, values: Any) -> bool:
    """Return whether rows of a cluster are so alike that a mean of `values (n,)` varies far more than if independent.

    That is, by half as much again (Kish's design effect, 1965), and by four standard errors of what chance makes of it.
    """
    n = len(values)
    independent_variance = max(dot(values, values) / n - (block_sum(values) / n) ** 2, 0.0) / n
    if clusters.n_clusters == n or not independent_variance:
        return False
    design_effect = standard_error(group_sums(clusters, Terms(values))) ** 2 / independent_variance
    return design_effect > 1.0 + max(0.5, 4.0 * math.sqrt(2.0 / len(clusters.sizes)))


def standard_error(sums: ClusterSums) -> float:
    """Return the estimate's standard error, with groups as independent units (Liang & Zeger 1986)."""
    groups = len(sums.sizes)
    if groups < 2:
        return math.inf
    n = float(sums.sizes.sum())
    influence = sums.influence
    # groups / (groups - 1): the mean that influences are taken from is estimated by the same groups.
    return math.sqrt(dot(influence, influence) * groups / (groups - 1)) / n
