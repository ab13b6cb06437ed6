"""The largest of some numbers are those of a sort, also where many are equal."""

import numpy as np
import pytest

from zoosim.retrieval.selection import kth_largest, largest_places


@pytest.mark.parametrize("n_distinct", [1, 3, 1_000_000])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (2, 1), (700, 1), (700, 30), (700, 699), (700, 700)])
def test_finds_what_a_sort_finds(n: int, k: int, n_distinct: int) -> None:
    for seed in range(20):
        values = np.random.default_rng(seed).integers(-n_distinct, n_distinct, n) / 7
        order = np.argsort(-values, kind="stable")
        assert kth_largest(values.copy(), k) == values[order[k - 1]]
        np.testing.assert_array_equal(largest_places(values, k), np.sort(order[:k]))


def test_a_guess_from_a_few_may_be_wrong() -> None:
    """Every sixteenth number, from which the guess is made, is large: fewer than k are as large as the guess."""
    values = np.zeros(3_200)
    values[::16] = 1.0
    expected = np.sort(np.argsort(-values, kind="stable")[:250])
    np.testing.assert_array_equal(largest_places(values, 250), expected)


def test_none_and_infinite_ones() -> None:
    assert len(largest_places(np.ones(5), 0)) == 0
    values = np.full(100, -np.inf)
    values[7] = 0.0
    assert largest_places(values, 2).tolist() == [0, 7]
