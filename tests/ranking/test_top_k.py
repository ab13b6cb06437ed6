"""The highest scores: by hand, and against a stable sort."""

import numpy as np
import pytest

from zoosim.ranking.top_k import top_of


def test_the_best_come_first_and_ties_go_to_the_lowest_index() -> None:
    assert top_of(np.array([1.0, 3.0, 2.0, 3.0, 0.0]), 3).tolist() == [1, 3, 2]
    assert top_of(np.zeros(5), 3).tolist() == [0, 1, 2]


@pytest.mark.parametrize("count", [1, 2, 7, 50])
def test_they_are_those_of_a_stable_sort(count: int) -> None:
    values = np.random.default_rng(0).integers(0, 20, 50).astype(float)
    assert top_of(values, count).tolist() == np.argsort(-values, kind="stable")[:count].tolist()
