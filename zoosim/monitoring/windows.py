"""Compare windows of a stream with its first period, so that false alarms stay bounded however long it goes on.

Each test of each window has a level of its own, and all of them add up to one (a union bound, so that tests may depend
on one another). A test is exact for rows that come in any order: whatever two periods hold together, each of their rows
is as likely to stand in one as in the other.
"""

from functools import lru_cache

import numpy as np

from zoosim.core.types import FloatArray, IntArray

QUANTILES = (0.25, 0.5, 0.75, 0.9, 0.99)
"""Quantiles of both periods together above which numbers are counted: which of both a number is from they do not say,
so that counts above them are tested exactly, too."""

SURELY_ALIKE = 3.0
"""Standard deviations up to which a difference is not tested, to save time: none is significant at a level in use."""


def level_in_window(level: float, window: int, n_tests: int) -> float:
    """Return the level of each of the tests in a window.

    1 / (k (k + 1)) adds up to 1 over all windows k = 1, 2, ..., so that all tests ever made add up to `level`.

    Args:
        level: The most probability of any false alarm, ever.
        window: The number of the window, from 1.
        n_tests: How many tests each window has.
    """
    return level / (window * (window + 1) * n_tests)


def share_p_values(before: IntArray, n_before: int, after: IntArray, n_after: int) -> FloatArray:
    """Return the p-values of differences between shares of two periods `(m,)`: twice the smaller tail of Fisher (1935).

    Args:
        before: Rows of the first period that each share counts `(m,)`.
        n_before: How many rows that period has, at least 1.
        after: Rows of the window that each share counts `(m,)`.
        n_after: How many rows the window has, at least 1.
    """
    hits = np.asarray(before) + np.asarray(after)
    n_rows = n_before + n_after
    share = hits / n_rows
    deviation = np.sqrt(share * (1.0 - share) * n_after * (n_before / n_rows))
    p_values = np.ones(len(hits))
    differ = np.flatnonzero(np.abs(after - share * n_after) > SURELY_ALIKE * deviation)
    logs = _log_factorials(n_rows)
    for place in differ:
        p_values[place] = min(2.0 * _smaller_tail(int(after[place]), int(hits[place]), n_after, n_rows, logs), 1.0)
    return p_values


def _smaller_tail(count: int, hits: int, n_after: int, n_rows: int, logs: FloatArray) -> float:
    """Return the probability that so many of the `hits` rows or more, or so many or fewer, fall into the window.

    It is that of the hypergeometric distribution, of whose tails the one that `count` lies in; `logs (n_rows + 1,)` are
    the logarithms of factorials.
    """
    misses = n_rows - hits
    low, high = max(0, n_after - misses), min(hits, n_after)
    counts = np.arange(count, high + 1) if count * n_rows > hits * n_after else np.arange(low, count + 1)
    ways = logs[hits] - logs[counts] - logs[hits - counts]
    others = n_after - counts
    ways += logs[misses] - logs[others] - logs[misses - others]
    all_ways = logs[n_rows] - logs[n_after] - logs[n_rows - n_after]
    return float(np.exp(ways - all_ways).sum())


# Not by scipy.stats, whose import takes longer than a service takes to start.
@lru_cache(maxsize=4)
def _log_factorials(n: int) -> FloatArray:
    """Return the logarithms of 0! to n! `(n + 1,)`."""
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])


def cuts_of(before: FloatArray, after: FloatArray) -> FloatArray:
    """Return the `QUANTILES` of the numbers of both periods together `(5,)`."""
    return np.asarray(np.quantile(np.concatenate([before, after]), QUANTILES))


def counts_above(numbers: FloatArray, cuts: FloatArray) -> IntArray:
    """Return how many numbers `(n,)` lie above each of `cuts (m,)`."""
    in_order = np.sort(numbers)
    return np.asarray(len(numbers) - np.searchsorted(in_order, cuts, side="right"))
