"""Features are brought to mean 0 and standard deviation 1, whatever their scale."""

import numpy as np

from zoosim.models.standard_scores import FARTHEST, new_scales, see_row, unit_row


def test_rows_are_standardised_and_of_unit_length_on_average() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 3)) * [1.0, 1e6, 1e-6] + [0.0, 1e7, 5.0]
    rows = np.column_stack([rows, rng.integers(0, 2, 500)])
    binary = np.array([False, False, False, True])
    scales = new_scales(4)
    for row in rows:
        see_row(scales, row, binary)
    units = np.array([unit_row(scales, row, binary) for row in rows])
    assert (units[:, 0] == 1.0).all()
    expected = (rows[:, :3] - rows[:, :3].mean(axis=0)) / rows[:, :3].std(axis=0)
    expected = np.clip(expected, -FARTHEST, FARTHEST)
    factor = units[0, 1] / expected[0, 0]
    assert np.allclose(units[:, 1:4], factor * expected, atol=1e-6)
    assert np.isclose((units[:, 1:] ** 2).sum(axis=1).mean(), 1.0, atol=0.05)


def test_what_does_not_vary_says_nothing_and_what_is_far_is_cut() -> None:
    binary = np.zeros(2, bool)
    scales = new_scales(2)
    assert unit_row(scales, np.array([3.0, 4.0]), binary).tolist() == [1.0, 0.0, 0.0]
    for number in range(10):
        see_row(scales, np.array([0.1, number]), binary)
    far = unit_row(scales, np.array([0.1, 1e9]), binary)
    assert far[1] == 0.0
    assert np.isclose(far[2], FARTHEST / np.sqrt(scales.norm[0]))
