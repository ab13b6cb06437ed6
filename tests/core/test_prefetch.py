"""Asking for memory ahead changes nothing, wherever it lies."""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.prefetch import prefetch


@jit
def sum_rows(rows: np.ndarray) -> float:
    """Return the sum of all numbers, and ask for the row behind each, and the last row, in turn."""
    total = 0.0
    for i in range(len(rows)):
        prefetch(rows[min(i + 1, len(rows) - 1)])
        for value in rows[i]:
            total += value
    return total


def test_sums_are_those_of_a_loop_without() -> None:
    rows = np.arange(12.0).reshape(4, 3)
    assert sum_rows(rows) == rows.sum()
    assert sum_rows(np.ones((0, 3))) == 0.0
    np.testing.assert_array_equal(rows, np.arange(12.0).reshape(4, 3))
