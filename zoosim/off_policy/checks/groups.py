"""Groups of rows that share a time, a place in the log or a number, and so may earn alike."""

import math
from typing import NamedTuple

import numpy as np
from scipy import sparse

from zoosim.core.arrays import codes_of
from zoosim.core.durations import DAY, HOUR
from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.log import Log

NEIGHBOURS = (8, 32, 128, 512)
"""Rows in a row that are put together."""

FEWEST_GROUPS = 12
ROWS_PER_GROUP = 4
"""Fewest groups, and fewest rows in each on average, that tell anything."""

WIDE = 20.0
"""Ratio to the median gap between neighbouring numbers from which on a gap parts clumps of them."""

LEAST_CLUMP, MOST_IN_CLUMP = 20, 0.5
"""Rows that a clump has at least, and the share of the rows that the largest one may have, to count as such."""

MOST_SETS = 0.1
"""Sets of candidates per row up to which they may name something, such as a store."""


class RowGroups(NamedTuple):
    """Rows by what they share: its `name` in the plural, and the number of each row's group from 0 `(n,)`."""

    name: str
    of_row: IntArray


class VarianceRatio(NamedTuple):
    """Ratio of the variance of sums over groups to that of independent users, and its standard errors from 1."""

    factor: float
    errors: float


def group_growth(values: FloatArray, user: IntArray, group: IntArray) -> VarianceRatio:
    """Compare how much sums of `values (n,)` over groups vary with what independent users would make of them.

    The excess is the sum of products over pairs of rows of a group that are of different users, 0 in expectation if
    users are independent; its variance is what changing the signs of users at random makes of it.

    Args:
        values: Numbers of the rows, with a mean near 0.
        user: Which user each row is of `(n,)`.
        group: Which group each row is in `(n,)`.
    """
    n_users = int(user.max()) + 1
    n_groups = int(group.max()) + 1
    # One entry per user and group, which sums up the rows of both.
    table = sparse.csr_array((values, (user, group)), shape=(n_users, n_groups))
    table.sum_duplicates()
    squares = table.multiply(table)
    expected = float(squares.sum())
    if not expected:
        return VarianceRatio(1.0, 0.0)
    excess = float((table.sum(axis=0) ** 2).sum()) - expected
    # Both have the same sum of squares, |T'T| = |TT'|; the one with fewer products is made.
    products = table.T @ table if _pairs(table) <= _pairs(table.T.tocsr()) else table @ table.T
    # Less what each user makes with itself, which no change of signs moves.
    variance = 2.0 * (float((products.data**2).sum()) - float((squares.sum(axis=1) ** 2).sum()))
    if variance <= 1e-9 * expected**2 / max(n_users, 1):
        return VarianceRatio(1.0, 0.0)
    return VarianceRatio(1.0 + excess / expected, excess / math.sqrt(variance))


def _pairs(table: "sparse.csr_array") -> float:
    """Return how many products `table.T @ table` takes."""
    return float((np.diff(table.indptr).astype(np.float64) ** 2).sum())


def time_groups(times: IntArray | None) -> list[RowGroups]:
    """Return rows by their day and by their hour, as far as the log spans enough of them."""
    if times is None:
        return []
    groups = [("rows of a day", DAY), ("rows of an hour", HOUR)]
    by_time = [RowGroups(name, codes_of(times // span)) for name, span in groups]
    return [group for group in by_time if _is_telling(group)]


def neighbour_groups(order: IntArray) -> list[RowGroups]:
    """Return rows in runs of neighbours of several lengths, by an order `(n,)` of the rows."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    groups = [RowGroups("rows near each other", place // size) for size in NEIGHBOURS]
    return [group for group in groups if _is_telling(group)]


def shared_number_groups(log: Log, measured: list[int]) -> list[RowGroups]:
    """Return rows by each measured number, or by where many of them are close, and by what could be chosen."""
    groups = []
    for column in measured:
        name = log.visitor_features[column] if column < len(log.visitor_features) else f"column {column}"
        groups.append(RowGroups(f"rows with the same {name}", codes_of(log.features[:, column])))
        clumps = _clumps(log.features[:, column])
        if clumps is not None:
            groups.append(RowGroups(f"rows with nearly the same {name}", clumps))
    sets = codes_of(log.candidate_set)
    if int(sets.max()) < MOST_SETS * len(log):
        groups.append(RowGroups("rows with the same candidates", sets))
    return [group for group in groups if _is_telling(group)]


def _clumps(values: FloatArray) -> IntArray | None:
    """Return the number of each value's clump, between wide gaps `(n,)`, as towns make them; None without clumps."""
    order = np.argsort(values, kind="stable")
    gaps = np.diff(values[order])
    positive = gaps[gaps > 0.0]
    if not len(positive):
        return None
    clump = np.empty(len(values), np.int64)
    clump[order] = np.append(0, np.cumsum(gaps > WIDE * float(np.median(positive))))
    sizes = np.bincount(clump)
    # Numbers spread without clumps leave gaps like these at their ends alone, around a few of them.
    is_clumped = float(sizes.max()) < MOST_IN_CLUMP * len(values) and int((sizes >= LEAST_CLUMP).sum()) >= FEWEST_GROUPS
    return clump if is_clumped else None


def _is_telling(group: RowGroups) -> bool:
    n_groups = int(group.of_row.max()) + 1
    return n_groups >= FEWEST_GROUPS and n_groups * ROWS_PER_GROUP <= len(group.of_row)
