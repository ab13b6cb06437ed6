"""Intervals of an estimate: bootstrap (the default), asymptotic, and one that holds for any sample size."""

import math
from functools import partial
from typing import Any

import numpy as np
from scipy import special

from zoosim.core.blocks import dot, mapped, row_blocks
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parameters import shown
from zoosim.core.statistics import Interval, t_quantile
from zoosim.core.types import FloatArray
from zoosim.off_policy.estimators.terms import check_arrays
from zoosim.off_policy.intervals.bootstrap import SAMPLES, Bootstrap, bootstrap
from zoosim.off_policy.intervals.clusters import Clusters, ClusterSums, standard_error

LIMITS = tuple(4.0**k for k in range(7))
"""Limits at which weights are cut in turn for the interval that holds for any sample size: 1, 4, 16, ..., 4,096."""
POWER = 0.8
"""Of all logs of so many rows, the share that would show a difference."""

MOST_SAMPLES = 10_000_000


def asymptotic_interval(sums: ClusterSums, level: float = 0.95) -> Interval:
    """Return value -+ t standard errors: right for many groups of which none weighs much (central limit theorem)."""
    tail = 0.5 + checked_level(level) / 2
    half = t_quantile(max(len(sums.sizes) - 1, 1), tail) * standard_error(sums)
    return Interval(sums.value, sums.value - half, sums.value + half)


def bootstrap_interval(
    sums: ClusterSums, level: float = 0.95, *, samples: int = SAMPLES, seed: int = 0, drawn: Bootstrap | None = None
) -> Interval:
    """Return the studentised bootstrap interval (Efron & Tibshirani 1993, section 12.5), groups resampled whole.

    Each sample's deviation is measured in its own standard error, which corrects for the skewness that rare rewards
    and large weights bring. An end is infinite where more samples than the tail holds have no spread at all: the log
    then has too few rewards for an interval. Samples that are `drawn` already are not drawn again.
    """
    error = standard_error(sums)
    if error == 0.0:
        return Interval(sums.value, sums.value, sums.value)
    if not math.isfinite(error):
        return Interval(sums.value, -math.inf, math.inf)
    tail = (1.0 - checked_level(level)) / 2
    check_samples(samples if drawn is None else len(drawn.errors), level)
    ratios = np.sort((drawn or bootstrap(sums, samples=samples, seed=seed)).ratios)
    samples = len(ratios)
    # A studentised interval turns the tails around: estimates that chance takes far up make the lower end.
    rank = math.floor(tail * (samples + 1)) - 1
    # Never beyond the value itself, however skewed the samples are.
    low = max(ratios[samples - 1 - rank], 0.0)
    high = min(ratios[rank], 0.0)
    return Interval(sums.value, float(sums.value - low * error), float(sums.value - high * error))


def ratio_interval(sums: ClusterSums, to: ClusterSums, below: float, above: float) -> Interval:
    """Return an estimate over a plain mean, `to`, of the same log, with its interval (Fieller 1954).

    A ratio r lies in it where `sums` - r `to` is at most `below` standard errors above 0, and at most `above` below: so
    the interval holds the ratio itself, and leaves out 1 exactly where that of the difference leaves out 0. An end is
    infinite where `to` is not clear of 0 by so many standard errors and nothing on that side can be excluded.
    """
    n = float(sums.sizes.sum())
    groups = len(sums.sizes)
    ratio = sums.value / to.value
    if groups < 2:
        return Interval(ratio, -math.inf, math.inf)
    scale = groups / (groups - 1) / n**2
    variance = scale * dot(sums.influence, sums.influence)
    covariance = scale * dot(sums.influence, to.influence)
    variance_to = scale * dot(to.influence, to.influence)

    def end(errors: float, sign: float) -> float:
        """Solve (value - r to)^2 = errors^2 var(sums - r to) for r on one side of the ratio."""
        if not math.isfinite(errors):
            return sign * math.inf
        # (v - r t)^2 = e^2 (V - 2 r C + r^2 W) is square r^2 - 2 middle r + rest = 0.
        square = to.value**2 - errors**2 * variance_to
        middle = sums.value * to.value - errors**2 * covariance
        rest = sums.value**2 - errors**2 * variance
        spread = math.sqrt(max(middle**2 - square * rest, 0.0))
        if square > 0.0:
            return (middle + sign * spread) / square
        # `to` is not clear of 0: ratios lie outside of both solutions, so the nearest on this side is the end, if any.
        solutions = [] if square == 0.0 or spread == 0.0 else [(middle + spread) / square, (middle - spread) / square]
        ends = [solution for solution in solutions if sign * (solution - ratio) >= 0.0]
        return min(ends, key=lambda solution: abs(solution - ratio), default=sign * math.inf)

    return Interval(ratio, min(end(below, -1.0), ratio), max(end(above, 1.0), ratio))


def bernstein_interval(
    weights: Any, rewards: Any, reward_range: tuple[float, float], clusters: Clusters, level: float = 0.95
) -> Interval:
    """Return an interval of a policy's value that holds at `level` for any number of clusters.

    The empirical Bernstein bound (Maurer & Pontil 2009) for independent cluster sums of cut weights times rewards, of
    known `reward_range`. Weights cut at `LIMITS` bound the value from below, and, with rewards counted from the top of
    their range, from above (as in Thomas, Theocharous & Ghavamzadeh 2015), so it holds without overlap, too. The level
    is shared out over both ends and all limits; the mean is that of plain IPS.
    """
    low, high = checked_range(rewards, reward_range)
    tail = (1.0 - checked_level(level)) / (2 * len(LIMITS))
    total = 0.0
    for rows in row_blocks(len(rewards)):
        check_arrays(weights=weights[rows], rewards=rewards[rows])
        total += float((weights[rows] * rewards[rows]).sum())
    from_below = 0.0
    from_above = 0.0
    for limit in LIMITS:
        clipped = mapped(partial(np.minimum, limit), weights)
        below = clusters.sums(mapped(lambda own, earned: own * (earned - low), clipped, rewards))
        above = clusters.sums(mapped(lambda own, earned: own * (high - earned), clipped, rewards))
        from_below = max(from_below, _bernstein(below, limit, clusters, tail, high - low))
        from_above = max(from_above, _bernstein(above, limit, clusters, tail, high - low))
    return Interval(total / len(rewards), low + from_below, high - from_above)


def _bernstein(sums: FloatArray, limit: float, clusters: Clusters, tail: float, width: float) -> float:
    """Return the lower bound of the mean of values between 0 and limit x width, of which clusters have `sums (G,)`."""
    n = float(clusters.sizes.sum())
    count = len(clusters.sizes)
    if count < 2:
        return 0.0
    most = float(clusters.sizes.max()) * limit * width  # what a cluster's sum can be
    sums = sums / most
    # Maurer & Pontil 2009, theorem 4, for values in [0, 1]; then from the mean of clusters' sums to that of rows.
    log = math.log(2.0 / tail)
    slack = math.sqrt(2.0 * float(sums.var(ddof=1)) * log / count) + 7.0 * log / (3.0 * (count - 1))
    return (float(sums.mean()) - slack) * most * count / n


def rows_to_decide(sums: ClusterSums, reach: float) -> int | None:
    """Return how many rows like these show a difference of this size with 80% power; None where none would.

    Args:
        sums: The difference by group.
        reach: How many standard errors its interval reaches towards 0: at 95%, alone and with normal errors, 1.96.
            Where that of these rows holds 0, more rows are needed than there are.
    """
    if sums.value == 0.0 or not math.isfinite(reach):
        return None
    # Errors fall with the root of rows: so many more that the value is `reach` and the power's quantile from 0.
    growth = ((reach + float(special.ndtri(POWER))) * standard_error(sums) / sums.value) ** 2
    return max(1, math.ceil(min(float(sums.sizes.sum()) * growth, 1e15)))


def checked_level(level: float) -> float:
    """Return a level between 0 and 1, or raise `ConfigError`."""
    if isinstance(level, bool) or not isinstance(level, int | float | np.floating) or not 0.0 < level < 1.0:
        raise ConfigError(f"level: got {shown(level)}, expected between 0 and 1, such as .95")
    return level


def check_samples(samples: int, level: float) -> None:
    """Refuse fewer bootstrap samples than an interval of this level needs, and more than memory takes."""
    least = math.ceil(2.0 / (1.0 - level) - 1e-6)
    is_whole = isinstance(samples, int | np.integer) and not isinstance(samples, bool)
    if not is_whole or not least <= samples <= MOST_SAMPLES:
        expected = f"expected at least {least:,} for a level of {float(level)!r}, and {MOST_SAMPLES:,} at most"
        raise ConfigError(f"samples: got {shown(samples)}, {expected}")


def checked_range(rewards: Any, reward_range: tuple[float, float], unit: str = "row") -> tuple[float, float]:
    """Return the range that all rewards `(n,)` lie in, each of a `unit`, or raise `ConfigError` or `DataError`."""
    try:
        low, high = (float(end) for end in reward_range)
        is_range = -math.inf < low < high < math.inf
    except (TypeError, ValueError):
        is_range = False
    if not is_range:
        raise ConfigError(f"reward_range: got {shown(reward_range)}, expected two finite numbers, the lower first")
    for rows in row_blocks(len(rewards)):
        block = rewards[rows]
        outside = (block < low) | (block > high)
        if outside.any():
            row = int(outside.argmax())
            got = f"got {block[row]:g} in {unit} {rows.start + row}"
            raise DataError(f"rewards: {got}, expected {low:g} to {high:g} (reward_range)")
    return low, high
