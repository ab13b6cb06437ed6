"""Rows that belong together, such as those of a user, summed: what intervals are computed from."""

from typing import NamedTuple

import numpy as np

from zoosim.core.errors import DataError
from zoosim.core.jit import jit
from zoosim.core.rng import mix
from zoosim.core.types import FloatArray, IntArray
from zoosim.evaluation.off_policy.terms import Terms

MAX_GROUPS = 20_000
"""More clusters than this are put together, whole and at random: variance and skewness of a sum stay what they are on
average, and a bootstrap's standard error is known to 1 / sqrt(2 x 20,000), half a percent."""


class Clusters(NamedTuple):
    """Which group `(n,)` each row is in, the groups' `sizes (G,)`, and how many clusters they hold."""

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
    if user_ids is None:
        group = np.arange(n) if n <= max_groups else _hashed(np.arange(n), max_groups)
        return Clusters(group, np.bincount(group, minlength=min(n, max_groups)).astype(float), n)
    users, codes = np.unique(user_ids, return_inverse=True)
    group = codes.astype(np.int64) if len(users) <= max_groups else _hashed(codes.astype(np.int64), max_groups)
    return Clusters(group, np.bincount(group).astype(float), len(users))


@jit
def _hashed(ids: IntArray, groups: int) -> IntArray:
    """Return a group for each id, the same for the same id."""
    out = np.empty(ids.shape[0], np.int64)
    for i in range(ids.shape[0]):
        out[i] = np.int64(mix(np.uint64(ids[i])) % np.uint64(groups))
    return out


class Sums(NamedTuple):
    """An estimate by group, each `(G,)`: value = sum(base) / sum(sizes) + sum(top) / sum(bottom) - the same of `less`.

    `influence` is each group's share of the estimate's deviation; it sums to 0.
    """

    value: float
    sizes: FloatArray
    base: FloatArray
    ratios: tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
    influence: FloatArray


def group_sums(clusters: Clusters, terms: Terms, less: Terms | None = None) -> Sums:
    """Add an estimate's terms up by group; with `less`, the terms of the difference of the two."""
    if not np.isfinite(terms.value) or (less is not None and not np.isfinite(less.value)):
        raise DataError("weights: sum to 0, expected the target policy to take some logged action")
    value, influence, base = terms.value, terms.influence(), terms.base
    ratios = [_ratio(clusters, terms, 1.0)]
    if less is not None:
        value, influence, base = value - less.value, influence - less.influence(), base - less.base
        ratios.append(_ratio(clusters, less, -1.0))
    first, second = ratios[0], ratios[-1] if less is not None else _none(clusters)
    return Sums(value, clusters.sizes, clusters.sums(base), (first, second), clusters.sums(influence))


def _ratio(clusters: Clusters, terms: Terms, sign: float) -> tuple[FloatArray, FloatArray]:
    if terms.top is None or terms.bottom is None:
        return _none(clusters)
    return sign * clusters.sums(terms.top), clusters.sums(terms.bottom)


def _none(clusters: Clusters) -> tuple[FloatArray, FloatArray]:
    return np.zeros(len(clusters.sizes)), clusters.sizes
