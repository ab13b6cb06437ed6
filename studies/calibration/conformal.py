"""Upper limits for single rewards that are mostly zero: an ensemble's means, and the noise around them, by quantiles.

Rewards of held-out rows are sorted into bins of their predicted mean, for each group apart. A new row gets the bins'
quantiles at what each member predicts, averaged over members (Vincent 1912): where members differ, so do the bins.
Conformal calibration on further rows then says at which level to read them, so that coverage holds whatever the
ensemble is like (nested sets: Gupta, Kuchibhotla & Ramdas 2022).
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.checks import check_array, check_number, check_whole
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.models.calibration import Threshold, conformal_threshold

LEVELS = np.concatenate([np.linspace(0, 0.9, 91), np.linspace(0.901, 1, 100)])


class RewardQuantiles(NamedTuple):
    """For each of G groups: `edges (G, B - 1)` of bins of the predicted mean, and their quantiles `table (G, B, L)`."""

    edges: FloatArray
    table: FloatArray

    def of(self, members: FloatArray, groups: IntArray) -> FloatArray:
        """Return quantiles `(n, L)` at what the members predict, `(M, n)`, for rows of `groups (n,)`."""
        total = np.zeros((members.shape[1], len(LEVELS)))
        for group in range(len(self.edges)):
            chosen = groups == group
            for predicted in members[:, chosen]:
                total[chosen] += self.table[group, np.searchsorted(self.edges[group], predicted)]
        mixed: FloatArray = total / len(members)
        return mixed


class UpperLimits(NamedTuple):
    """Calibrated limits: the quantiles, and for each group the level at which they are read, with its share of ties."""

    quantiles: RewardQuantiles
    thresholds: tuple[Threshold, ...]

    def of(self, members: FloatArray, groups: IntArray) -> FloatArray:
        """Return the upper limit `(n,)` of each row; a reward at it is covered."""
        found = self.quantiles.of(members, groups)
        levels = np.array([threshold.limit for threshold in self.thresholds])[groups]
        rows = zip(np.minimum(levels, 1.0), found, strict=True)
        limits: FloatArray = np.array([np.interp(level, LEVELS, row) for level, row in rows])
        return limits

    def covered(
        self, rewards: FloatArray, members: FloatArray, groups: IntArray, *, rng: np.random.Generator | None = None
    ) -> BoolArray:
        """Tell which rewards `(n,)` are covered.

        With an `rng` ties are broken by chance and the coverage is exact: of a group whose rewards are zero 99 times in
        a hundred, some limits then leave even zero out. Without, ties are covered.
        """
        scores = needed_levels(self.quantiles.of(members, groups), rewards)
        limit = np.array([threshold.limit for threshold in self.thresholds])[groups]
        share = np.array([threshold.share for threshold in self.thresholds])[groups]
        lucky = np.ones(len(scores), bool) if rng is None else rng.random(len(scores)) < share
        inside: BoolArray = (scores < limit) | ((scores == limit) & lucky)
        return inside


def fit_quantiles(predicted: FloatArray, rewards: FloatArray, groups: IntArray, bins: int = 10) -> RewardQuantiles:
    """Return the quantiles of `rewards (n,)` in equally filled bins of `predicted (n,)`, for each group 0, ..., G - 1.

    Raises `ConfigError` unless every group has 10 rows a bin.
    """
    values, means = check_array("rewards", rewards, (None,)), check_array("predicted", predicted, (len(rewards),))
    check_whole("bins", bins, 1, 1_000)
    counts = np.bincount(groups)
    if counts.min() < 10 * bins:
        raise ConfigError(f"groups: got one of {counts.min()} rows, expected at least {10 * bins}, 10 a bin")
    edges = np.array([np.quantile(means[groups == g], np.arange(1, bins) / bins) for g in range(len(counts))])
    table = np.empty((len(counts), bins, len(LEVELS)))
    for g, own in enumerate(edges):
        places = np.searchsorted(own, means[groups == g])
        for b in range(bins):
            inside = values[groups == g][places == b]
            table[g, b] = np.quantile(inside if len(inside) else values[groups == g], LEVELS)
    return RewardQuantiles(edges, table)


def calibrate_limits(
    quantiles: RewardQuantiles, rewards: FloatArray, members: FloatArray, groups: IntArray, level: float = 0.95
) -> UpperLimits:
    """Return limits with coverage `level` in each group, calibrated on rows that `quantiles` were not fitted on."""
    check_number("level", level, 0.0, 1.0)
    if len(np.bincount(groups, minlength=1)) > len(quantiles.edges):
        raise ConfigError(f"groups: got {shown(int(groups.max()))}, expected at most {len(quantiles.edges) - 1}")
    scores = needed_levels(quantiles.of(members, groups), rewards)
    found = [conformal_threshold(scores[groups == g], level) for g in range(len(quantiles.edges))]
    return UpperLimits(quantiles, tuple(found))


def needed_levels(quantiles: FloatArray, rewards: FloatArray) -> FloatArray:
    """Return the lowest level `(n,)` at which the quantiles `(n, L)` reach `rewards (n,)`, 2 where none does."""
    out = np.empty(len(rewards))
    for n, (row, reward) in enumerate(zip(quantiles, rewards, strict=True)):
        place = int(np.searchsorted(row, reward))
        if place == 0 or place == len(row):
            out[n] = 0.0 if place == 0 else 2.0
        else:
            gap = row[place] - row[place - 1]
            out[n] = LEVELS[place - 1] + (LEVELS[place] - LEVELS[place - 1]) * (reward - row[place - 1]) / gap
    return out
