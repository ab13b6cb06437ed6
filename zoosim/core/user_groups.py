"""Group rows by user, so that what one user did stays together."""

from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.blocks import RowArray, mapped, row_blocks
from zoosim.core.jit import jit
from zoosim.core.rng import mix
from zoosim.core.types import IntArray

MAX_GROUPS = 20_000
"""More users than this are put together, whole and at random: variance and skewness of a sum stay what they are on
average, and a bootstrap's standard error is known to 1 / sqrt(2 x 20,000), half a percent."""


MOST_SORTED = 8_000_000
"""Users that are told apart at once: of more rows that are read in blocks, one part of the users after another."""


class UserGroups(NamedTuple):
    """The group `(n,)` of each row, and how many users there are."""

    group: Any
    n_users: int


def group_by_user(n: int, user_ids: Any, max_groups: int = MAX_GROUPS) -> UserGroups:
    """Put `n` rows together by `user_ids (n,)`; without them, each row is a user of its own.

    Ids that are read in blocks have groups that are, too.
    """
    if user_ids is None:
        rows = np.arange(n)
        return UserGroups(rows if n <= max_groups else _hashed(rows, max_groups), n)
    n_users = _count_users(user_ids)
    if n_users > max_groups:
        return UserGroups(mapped(lambda ids: _hashed(ids, max_groups), user_ids, dtype=np.int64), n_users)
    users = _distinct(user_ids, 0, 1)
    return UserGroups(mapped(lambda ids: np.asarray(np.searchsorted(users, ids)), user_ids, dtype=np.int64), n_users)


def _count_users(user_ids: Any) -> int:
    """Count the users; where ids are read in blocks, one part of them after another, by a hash, to bound memory."""
    if not isinstance(user_ids, RowArray):
        return pl.Series(user_ids).n_unique()
    parts = -(-len(user_ids) // MOST_SORTED)
    return sum(len(_distinct(user_ids, part, parts)) for part in range(parts))


def _distinct(user_ids: Any, part: int, parts: int) -> IntArray:
    """Return the different ids in order, of one of so many parts of the users."""
    chosen = []
    for rows in row_blocks(len(user_ids)):
        ids = user_ids[rows]
        chosen.append(_sorted_distinct(ids if parts == 1 else ids[_hashed(ids, parts) == part]))
    return _sorted_distinct(np.concatenate(chosen))


def _sorted_distinct(ids: IntArray) -> IntArray:
    # numpy's own `unique` goes through a table of hashes, and takes several times as long.
    ids = np.sort(ids)
    is_first = np.ones(len(ids), bool)
    is_first[1:] = ids[1:] != ids[:-1]
    return np.asarray(ids[is_first])


@jit
def _hashed(ids: IntArray, groups: int) -> IntArray:
    """Return a group for each id, the same for the same id."""
    out = np.empty(ids.shape[0], np.int64)
    for i in range(ids.shape[0]):
        out[i] = np.int64(mix(np.uint64(ids[i])) % np.uint64(groups))
    return out
