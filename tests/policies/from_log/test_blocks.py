"""Blocks of columns: which belong together, and how they are scaled."""

import numpy as np

from zoosim.policies.from_log.blocks import exclusive_blocks, scale_blocks


def test_blocks_are_columns_that_exclude_each_other() -> None:
    levels = np.eye(3)[[0, 1, 2, 0]]
    number = np.array([[0.5], [-1.0], [0.0], [2.0]])
    missing = np.array([[0.0], [0.0], [1.0], [0.0]])
    blocks = exclusive_blocks(np.hstack([levels, number, missing, levels[:, :1]]))
    assert blocks.tolist() == [0, 0, 0, 1, 1, 2]
    assert exclusive_blocks(np.zeros((4, 0))).tolist() == []


def test_levels_of_a_category_are_scaled_alike() -> None:
    """Variances 3/16, 3/16 and 1/4 have the mean 5/24; a column that does not vary becomes 0."""
    levels = np.eye(3)[[0, 1, 2, 2]]
    scaling = scale_blocks(np.hstack([levels, np.ones((4, 1))]))
    np.testing.assert_allclose(scaling.scale, [*[np.sqrt(24 / 5)] * 3, 0.0])
    np.testing.assert_allclose(scaling.centre, [0.25, 0.25, 0.5, 1.0])
