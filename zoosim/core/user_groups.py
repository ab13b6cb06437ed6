"""Group rows by user, so that what one user did stays together."""

from typing import NamedTuple

import numpy as np
import polars as pl

from zoosim.core.jit import jit
from zoosim.core.rng import mix
from zoosim.core.types import IntArray

MAX_GROUPS = 20_000
"""More users than this are put together, whole and at random: variance and skewness of a sum stay what they are on
average, and a bootstrap's standard error is known to 1 / sqrt(2 x 20,000), half a percent."""


class UserGroups(NamedTuple):
    """The group `(n,)` of each row, and how many users there are."""

    group: IntArray
    n_users: int


def group_by_user(n: int, user_ids: IntArray | None, max_groups: int = MAX_GROUPS) -> UserGroups:
    """Put `n` rows together by `user_ids (n,)`; without them, each row is a user of its own."""
    if user_ids is None:
        rows = np.arange(n)
        return UserGroups(rows if n <= max_groups else _hashed(rows, max_groups), n)
    n_users = pl.Series(user_ids).n_unique()
    if n_users > max_groups:
        return UserGroups(_hashed(user_ids, max_groups), n_users)
    return UserGroups(np.unique(user_ids, return_inverse=True)[1].astype(np.int64), n_users)


@jit
def _hashed(ids: IntArray, groups: int) -> IntArray:
    """Return a group for each id, the same for the same id."""
    out = np.empty(ids.shape[0], np.int64)
    for i in range(ids.shape[0]):
        out[i] = np.int64(mix(np.uint64(ids[i])) % np.uint64(groups))
    return out
