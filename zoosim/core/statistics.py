"""Intervals and paired tests over seeds: pure functions of arrays."""

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from scipy import special

from zoosim.core.types import FloatArray, IntArray

MAX_SEEDS = 1_000_000
SIGNIFICANT = 0.05
"""Corrected p below which two policies are told apart."""

ROUNDING = 1e-12
"""A difference in fraction of oracle below this is none."""


Limits = tuple[float, float]
"""Between which values a figure lies."""

ANY: Limits = (-math.inf, math.inf)


class Interval(NamedTuple):
    """A mean with its 95% interval; the ends are None for a single value."""

    mean: float
    low: float | None
    high: float | None


def sign_of(low: float | None, high: float | None) -> int:
    """Return 1 where an interval lies above 0, -1 where it lies below, else 0; an end that is None is open."""
    is_above = low is not None and low > 0.0
    is_below = high is not None and high < 0.0
    return int(is_above) - int(is_below)


class PairedTest(NamedTuple):
    """A mean difference with its 95% interval and the two-sided p of the paired t test; None for a single pair."""

    difference: float
    low: float | None
    high: float | None
    p: float | None


Estimate = TypeVar("Estimate", Interval, PairedTest)


def cut(estimate: Estimate, limits: Limits) -> Estimate:
    """Cut the ends of an interval at the `limits` of what is possible.

    One that is open, or whose mean lies beyond them, stays as it is.
    """
    mean, low, high = estimate[:3]
    if low is None or high is None or not math.isfinite(high - low):
        return estimate
    if not limits[0] - ROUNDING <= mean <= limits[1] + ROUNDING:
        return estimate
    return estimate._replace(low=max(low, limits[0]), high=min(high, limits[1]))


def mean_interval(values: Sequence[float] | FloatArray, tests: int = 1) -> Interval:
    """Return the mean of independent `values (n,)` with its 95% t interval (Student 1908).

    With several `tests`, their intervals hold all together with 95%, at 1 - .05 / tests each (Dunn 1961).
    """
    array = np.asarray(values, float)
    mean = float(array.mean())
    if len(array) < 2:
        return Interval(mean, None, None)
    half = float(_half_widths(array, tests))
    return Interval(mean, mean - half, mean + half)


def mean_intervals(rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean, low and high `(n,)` of `rows (n, m)` of at least 2 values, each as `mean_interval` has them."""
    rows = np.ascontiguousarray(rows)  # so that numpy sums each row as it sums one alone
    mean, half = rows.mean(axis=-1), _half_widths(rows)
    return mean, mean - half, mean + half


def _half_widths(rows: FloatArray, tests: int = 1) -> FloatArray:
    count = rows.shape[-1]
    halves: FloatArray = t_quantile(count - 1, 1 - 0.025 / tests) * rows.std(axis=-1, ddof=1) / math.sqrt(count)
    return halves


def share_intervals(hits: IntArray, trials: int) -> tuple[FloatArray, FloatArray]:
    """Return the ends of 95% intervals of shares, each `(n,)`: `hits (n,)` of at least 1 `trials` (Wilson 1927)."""
    z = float(special.ndtri(0.975))
    share = np.asarray(hits, float) / trials
    middle = (share + z**2 / (2 * trials)) / (1 + z**2 / trials)
    half = z * np.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2)) / (1 + z**2 / trials)
    return middle - half, middle + half


def paired_test(a: Sequence[float] | FloatArray, b: Sequence[float] | FloatArray, tests: int = 1) -> PairedTest:
    """Compare two policies seed by seed: `a (n,)` and `b (n,)` under the same seeds.

    With several `tests` the interval is one of those that hold together; p is not corrected.
    """
    differences = np.asarray(a, float) - np.asarray(b, float)
    mean, low, high = mean_interval(differences, tests)
    if low is None:
        return PairedTest(mean, None, None, None)
    error = float(differences.std(ddof=1)) / math.sqrt(len(differences))
    # All differences are equal: t is infinite, or 0 / 0.
    if error == 0.0:
        return PairedTest(mean, low, high, 1.0 if mean == 0.0 else 0.0)
    p = 2.0 * float(special.stdtr(len(differences) - 1, -abs(mean / error)))
    return PairedTest(mean, low, high, p)


def paired_tests(pairs: Sequence[tuple[FloatArray, FloatArray]]) -> list[PairedTest]:
    """Compare several pairs, seed by seed: p is corrected by Holm, and the intervals hold all together with 95%.

    An interval leaves out 0 just where the corrected p is below .05: Holm's later steps tell pairs apart that intervals
    of one width for all do not, and these end at 0.
    """
    n_tests = sum(len(a) > 1 for a, _ in pairs)
    tests = [paired_test(a, b, max(1, n_tests)) for a, b in pairs]
    corrected = holm([test.p for test in tests])
    return [_cut_at_zero(test._replace(p=p)) for test, p in zip(tests, corrected, strict=True)]


def _cut_at_zero(test: PairedTest) -> PairedTest:
    """Leave the other sign out of the interval of a pair that Holm's correction tells apart."""
    if test.low is None or test.high is None or test.p is None or test.p >= SIGNIFICANT:
        return test
    if test.difference > 0.0:
        return test._replace(low=max(test.low, 0.0))
    return test._replace(high=min(test.high, 0.0))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Correct p values for being several (Holm 1979); a None stays and does not count."""
    order = sorted((p, index) for index, p in enumerate(ps) if p is not None)
    corrected: list[float | None] = [None] * len(ps)
    highest = 0.0
    for rank, (p, index) in enumerate(order):
        # No p falls below that of a smaller one, so that their order stays.
        highest = max(highest, min(1.0, (len(order) - rank) * p))
        corrected[index] = highest
    return corrected


def seeds_to_settle(differences: Sequence[float] | FloatArray, tests: int = 1) -> int | None:
    """Return how many seeds, `MAX_SEEDS` at most, would show the mean difference at 5% with 80% power; None if it is 0.

    `tests` is by how many comparisons the 5% is divided. The smallest n with |mean| sqrt(n) / sd at least the sum of
    the two t quantiles; the mean and sd of few seeds are rough, and so is the answer.
    """
    array = np.asarray(differences, float)
    if len(array) < 2 or abs(array.mean()) < ROUNDING:
        return None
    # Where all differences are equal the smallest n will do; the bound spares a division by 0.
    effect = abs(float(array.mean())) / max(float(array.std(ddof=1)), 1e-300)
    # By normal quantiles, which are below those of t, so n can only be too small.
    least_seeds = ((special.ndtri(1 - 0.025 / tests) + special.ndtri(0.8)) / effect) ** 2
    n = max(2, int(min(least_seeds, MAX_SEEDS)))
    while n < MAX_SEEDS and effect * math.sqrt(n) < t_quantile(n - 1, 1 - 0.025 / tests) + t_quantile(n - 1, 0.8):
        n += 1
    return n


def t_quantile(degrees: int, level: float = 0.975) -> float:
    """Return the quantile of Student's t distribution."""
    return float(special.stdtrit(degrees, level))
