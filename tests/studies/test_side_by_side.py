"""Functions done side by side: in order, told of as they finish, and one error ends all."""

import os

import pytest

from studies.side_by_side import side_by_side
from zoosim.core.errors import PolicyError


def squared(number: int) -> int:
    if number < 0:
        raise ValueError("below 0")
    return number * number


def gone(number: int) -> int:
    os._exit(number)


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_the_order_of_the_tasks(jobs: int) -> None:
    told: dict[int, int] = {}
    assert side_by_side(squared, [3, 1, 2], jobs=jobs, done=told.__setitem__) == [9, 1, 4]
    assert told == {3: 9, 1: 1, 2: 4}
    with pytest.raises(ValueError, match="below 0"):
        side_by_side(squared, [3, -1], jobs=jobs)


def test_a_process_that_dies_is_told_of() -> None:
    with pytest.raises(PolicyError, match="a process died"):
        side_by_side(gone, [3, 4], jobs=2)
