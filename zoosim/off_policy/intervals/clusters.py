"""Rows that belong together, such as those of a user, summed: what intervals are computed from."""

import math
from typing import NamedTuple

import numpy as np

from zoosim.core.errors import DataError
from zoosim.core.types import FloatArray, IntArray
from zoosim.core.user_groups import MAX_GROUPS, group_by_user
from zoosim.off_policy.estimators.terms import Terms


def dot(x: FloatArray, y: FloatArray) -> float:
    """Return the sum of products, with the same bits on any number of threads, as BLAS does not."""
    return float((x * y).sum())


class Clusters(NamedTuple):
    """Groups of rows: that of each `(n,)`, the groups' `sizes (G,)`, and the number of clusters they hold."""

    group: IntArray
    sizes: FloatArray
    n_clusters: int

    def sums(self, values: FloatArray) -> FloatArray:
        """Add `values (n,)` up by group: `(G,)`."""
        if len(values) != len(self.group):
            raise DataError(f"values: got {len(values)} rows, expected {len(self.group)} as in the log")
        return np.bincount(self.group, values, len(self.sizes)).astype(np.float64)


def make_clusters(n: int, user_ids: IntArray | None = None, max_groups: int = MAX_GROUPS) -> Clusters:
    """Put `n` rows together by `user_ids (n,)`; without them, each row is a cluster of its own."""
    group, n_clusters = group_by_user(n, user_ids, max_groups)
    n_groups = min(n, max_groups) if user_ids is None else 0
    return Clusters(group, np.bincount(group, minlength=n_groups).astype(float), n_clusters)


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


def group_sums(clusters: Clusters, terms: Terms) -> ClusterSums:
    """Add an estimate's terms up by group; raises `DataError` when all weights are 0."""
    zeros = np.zeros(len(clusters.sizes))
    no_ratio = (zeros, clusters.sizes)
    base = clusters.sums(terms.base) if terms.base.any() else zeros
    if terms.top is None or terms.bottom is None:
        return ClusterSums(clusters.sizes, base, (no_ratio, no_ratio))
    top = clusters.sums(terms.top)
    bottom = clusters.sums(terms.bottom)
    if not bottom.sum() > 0.0:
        raise DataError("weights: sum to 0, expected the target policy to take some logged action")
    return ClusterSums(clusters.sizes, base, ((top, bottom), no_ratio))


def difference(sums: ClusterSums, less: ClusterSums) -> ClusterSums:
    """Return the difference of two estimates of the same log, neither of which is a difference."""
    top, bottom = less.ratios[0]
    return ClusterSums(sums.sizes, sums.base - less.base, (sums.ratios[0], (-top, bottom)))


def go_together(clusters: Clusters, values: FloatArray) -> bool:
    """Return whether rows of a cluster are so alike that a mean of `values (n,)` varies far more than if independent.

    That is, by half as much again (Kish's design effect, 1965), and by four standard errors of what chance makes of it.
    """
    independent_variance = float(values.var()) / len(values)
    if clusters.n_clusters == len(values) or not independent_variance:
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
