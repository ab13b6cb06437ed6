"""Windows against a first period: exact tests, and false alarms bounded over all windows together."""

import numpy as np
import pytest
from scipy.stats import fisher_exact

from zoosim.monitoring.windows import counts_above, cuts_of, level_in_window, share_p_values

STREAMS, WINDOWS, ROWS = 200, 40, 150


def test_levels_of_all_windows_add_up_to_the_level() -> None:
    levels = [10 * level_in_window(0.05, window, 10) for window in range(1, 100_001)]
    assert sum(levels) == pytest.approx(0.05, rel=1e-4)
    assert sum(levels) < 0.05


def test_p_values_are_twice_the_smaller_tail_of_fisher() -> None:
    before, after = np.array([3, 40, 0, 5]), np.array([30, 10, 9, 5])
    p_values = share_p_values(before, 80, after, 60)
    for number in range(3):
        table = [[after[number], 60 - after[number]], [before[number], 80 - before[number]]]
        tails = [fisher_exact(table, alternative=side).pvalue for side in ("less", "greater")]
        assert p_values[number] == pytest.approx(2.0 * min(tails))
    assert p_values[3] == 1.0  # nearly alike: not tested


def test_counts_above_the_quantiles_of_both_periods() -> None:
    before, after = np.arange(8.0), np.arange(8.0, 16.0)
    cuts = cuts_of(before, after)
    assert counts_above(before, cuts).tolist() == [4, 0, 0, 0, 0]
    assert counts_above(after, cuts).tolist() == [8, 8, 4, 2, 1]


def share_of_alarms(spends: bool) -> float:
    """Return the share of streams in which nothing changes and some window raises an alarm, at a level of 5%.

    Each has a level that 30% have and one that 2% have, and amounts of which 70% are 0.
    """
    alarms = 0
    for seed in range(1_000, 1_000 + STREAMS):
        rng = np.random.default_rng(seed)
        levels = rng.random((WINDOWS + 1, ROWS, 2)) < [0.3, 0.02]
        amounts = rng.exponential(size=(WINDOWS + 1, ROWS)) * (rng.random((WINDOWS + 1, ROWS)) < 0.3)
        alarms += any(
            least_p_value(levels, amounts, window) <= (level_in_window(0.05, window, 7) if spends else 0.05 / 7)
            for window in range(1, WINDOWS + 1)
        )
    return alarms / STREAMS


def least_p_value(levels: np.ndarray, amounts: np.ndarray, window: int) -> float:
    cuts = cuts_of(amounts[0], amounts[window])
    before, after = (
        np.concatenate([levels[number].sum(axis=0), counts_above(amounts[number], cuts)]) for number in (0, window)
    )
    return float(share_p_values(before, ROWS, after, ROWS).min())


def test_false_alarms_stay_below_the_level_over_all_windows() -> None:
    """Seeds 1000 to 1199; a test that spends the level anew in each window must fail by 3 standard errors."""
    assert share_of_alarms(spends=True) <= 0.05
    assert share_of_alarms(spends=False) > 0.05 + 3.0 * np.sqrt(0.05 * 0.95 / STREAMS)
