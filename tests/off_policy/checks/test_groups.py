"""Sums over groups of rows: they vary as those of independent users do, or more."""

import numpy as np
import pytest

from zoosim.core.arrays import codes_of
from zoosim.off_policy.checks.groups import group_growth, neighbour_groups, time_groups
from zoosim.off_policy.checks.rows import rows_in_words


def test_growth_is_that_of_pairs_of_different_users() -> None:
    """Two users in two groups: (1 + 2)^2 + (3 - 1)^2 = 13, of which 1 + 4 + 9 + 1 = 15 are their own.

    User 0 has 1 and 3, user 1 has 2 and -1. Signs of users move the sum of products 1 x 2 + 3 x -1 = -1 alone, twice.
    """
    values, user, group = np.array([1.0, 3.0, 2.0, -1.0]), np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    growth = group_growth(values, user, group)
    assert growth.factor == pytest.approx(13.0 / 15.0)
    assert growth.errors == pytest.approx(-2.0 / 2.0)


@pytest.mark.parametrize("shared", [0.0, 0.3])
def test_growth_tells_what_days_share_from_what_users_do(shared: float) -> None:
    """4,000 rows of 1,000 users with tastes; on 40 days, which share something or nothing."""
    rng = np.random.default_rng(0)
    user = rng.permutation(np.repeat(np.arange(1_000), 4))
    day = np.repeat(np.arange(40), 100)
    values = rng.normal(size=1_000)[user] + shared * rng.normal(size=40)[day] + rng.normal(size=4_000)
    growth = group_growth(values - values.mean(), user, day)
    assert (growth.errors > 6.0) == (shared > 0.0)
    assert abs(growth.errors) < 3.0 or shared
    assert group_growth(values - values.mean(), np.arange(4_000), user).errors > 6.0  # the users themselves


def test_groups_are_of_rows_that_share_a_time_or_a_place() -> None:
    hours = 3_600_000_000 * np.arange(600)
    by_day, by_hour = time_groups(hours)[0], time_groups(hours // 6)[0]
    assert by_day.of_row[[0, 23, 24, 47, 48]].tolist() == [0, 0, 1, 1, 2]
    assert by_hour.of_row[[0, 5, 6]].tolist() == [0, 0, 1]
    assert [int(group.of_row.max()) + 1 for group in neighbour_groups(np.arange(600)[::-1])] == [75, 19]
    assert neighbour_groups(np.arange(600)[::-1])[0].of_row[[599, 592, 591]].tolist() == [0, 0, 1]
    assert codes_of(np.array([5.5, -1.0, 5.5])).tolist() == [1, 0, 1]


def test_rows_are_named_in_runs() -> None:
    assert rows_in_words(np.array([], np.int64)) == ""
    assert rows_in_words(np.array([7])) == " (row 7)"
    assert rows_in_words(np.array([5, 3, 4, 9])) == " (rows 3-5, 9)"
    assert rows_in_words(np.arange(0, 20, 2), "most of all") == " (most of all, rows 0, 2, 4 and on to 18, 10 in all)"
