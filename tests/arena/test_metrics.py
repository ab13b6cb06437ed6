"""Figures of one run against numbers worked out by hand."""

import numpy as np
import pytest

from zoosim.arena.metrics import WINDOW, TrialRows, curves, mean_reward, oracle_fraction, recovery, sample_steps
from zoosim.core.types import FloatArray


def rows(chosen: FloatArray | list[float], best: FloatArray | list[float] | float = 1.0) -> TrialRows:
    """Return rows with these true probabilities, and a click at every second visit."""
    true = np.asarray(chosen, float)
    return TrialRows(np.resize([0.0, 1.0], len(true)), true, np.broadcast_to(np.asarray(best, float), true.shape))


def late(bad: int, n: int, after: float = 1.0) -> TrialRows:
    """Return rows of a policy that earns nothing for `bad` visits and then `after`, where 1 could be had."""
    return rows(np.where(np.arange(n) < bad, 0.0, after))


def test_fraction_of_oracle_is_a_ratio_of_sums() -> None:
    """(.1 + .4 + .3) / (.5 + .4 + .6) = .8 / 1.5; of the last two alone .7 / 1. A mean of ratios would be .567."""
    three = rows([0.1, 0.4, 0.3], [0.5, 0.4, 0.6])
    assert oracle_fraction(three, 0, 3) == pytest.approx(0.8 / 1.5)
    assert oracle_fraction(three, 1, 3) == pytest.approx(0.7)
    assert oracle_fraction(three, 1, 2) == 1.0


def test_where_nothing_can_be_earned_all_of_it_was() -> None:
    assert oracle_fraction(rows([0.0, 0.0], 0.0), 0, 2) == 1.0


def test_mean_reward() -> None:
    """Rewards 0 1 0 1 0: two of five; visits 1 to 3 (stop excluded) two of three."""
    five = rows([0.5] * 5)
    assert mean_reward(five, 0, 5) == 0.4
    assert mean_reward(five, 1, 4) == pytest.approx(2 / 3)


def test_recovery_counts_from_the_shock_to_the_first_good_window() -> None:
    """0 until visit 700, then all: 475 of 500 are reached when a window has 25 zeros, at k = 700 - 25 = 675."""
    assert recovery(late(700, 2_000), 0, 2_000) == 675
    assert recovery(late(700, 2_000), 100, 2_000) == 575
    assert recovery(late(700, 2_000), 675, 2_000) == 0
    assert recovery(late(700, 2_000), 674, 2_000) == 1


def test_a_window_of_exactly_95_percent_will_do() -> None:
    """.19 of .2 at every visit is 95%, though neither sum is exact in binary; .1899 is not."""
    assert recovery(rows(np.full(600, 0.19), 0.2), 0, 600) == 0
    assert recovery(rows(np.full(600, 0.1899), 0.2), 0, 600) is None


def test_the_target_follows_what_could_be_earned() -> None:
    """Where the best falls to a tenth, a tenth is enough."""
    best = np.where(np.arange(1_500) < 500, 1.0, 0.1)
    assert recovery(rows(np.full(1_500, 0.1), best), 0, 1_500) is not None
    assert recovery(rows(np.full(1_500, 0.1), best), 500, 1_500) == 0
    assert recovery(rows(np.full(1_500, 0.1)), 0, 1_500) is None


def test_a_window_may_not_cross_the_next_shock() -> None:
    """Bad for 600 visits, so the first good window is 575 to 1,074: there if the next shock is at 1,075, not before."""
    assert recovery(late(600, 3_000), 0, 1_075) == 575
    assert recovery(late(600, 3_000), 0, 1_074) is None


def test_what_was_good_before_the_shock_does_not_count() -> None:
    before = rows(np.where(np.arange(2_000) < 1_000, 1.0, 0.0))
    assert recovery(before, 1_000, 2_000) is None
    assert recovery(before, 0, 1_000) == 0


def test_a_phase_shorter_than_the_window_has_no_recovery() -> None:
    perfect = late(0, 2_000)
    assert recovery(perfect, 1_000, 1_000 + WINDOW) == 0
    assert recovery(perfect, 1_000, 1_000 + WINDOW - 1) is None
    assert recovery(perfect, 1_900, 2_000) is None


def test_never() -> None:
    assert recovery(late(0, 2_000, after=0.94), 0, 2_000) is None


def test_curves_after_each_number_of_visits() -> None:
    """Rewards 0 1 0 1 ...; regret .25 a visit. The average over the last 500 of 501 visits has 250 clicks."""
    found = curves(rows(np.full(1_200, 0.5), 0.75), [1, 2, 3, 500, 501, 1_200])
    assert found["clicks"].tolist() == [0, 1, 1, 250, 250, 600]
    assert found["ctr"].tolist() == [0, 0.5, 1 / 3, 0.5, 0.5, 0.5]
    assert found["regret"].tolist() == [0.25, 0.5, 0.75, 125, 125.25, 300]


def test_the_moving_average_forgets() -> None:
    """500 visits without a click, then 500 clicks: after 750 visits half of the last 500 were clicked."""
    run = TrialRows(np.repeat([0.0, 1.0], 500), np.ones(1_000), np.ones(1_000))
    assert curves(run, [500, 750, 1_000])["ctr"].tolist() == [0.0, 0.5, 1.0]


def test_the_share_of_the_oracle_is_of_the_last_visits() -> None:
    """.2 of 1 for 500 visits, then .6 of .8: after 750 visits 250 (.2 + .6) / (250 (1 + .8)) = .8 / 1.8."""
    run = TrialRows(np.zeros(1_000), np.repeat([0.2, 0.6], 500), np.repeat([1.0, 0.8], 500))
    assert curves(run, [500, 750, 1_000])["share"] == pytest.approx([0.2, 0.8 / 1.8, 0.75])
    nothing = TrialRows(np.zeros(10), np.zeros(10), np.zeros(10))
    assert curves(nothing, [10])["share"].tolist() == [1.0]


@pytest.mark.parametrize("steps", [1, 2, 399, 400, 401, 1_000, 40_000])
def test_curves_are_sampled_evenly_up_to_the_end(steps: int) -> None:
    at = list(sample_steps(steps))
    assert len(at) == min(steps, 400)
    assert at[-1] == steps
    assert at[0] == max(1, steps // 400)
    gaps = np.diff(at)
    assert len(gaps) == 0 or gaps.max() - gaps.min() <= 1


def test_fewer_points_can_be_asked_for() -> None:
    assert sample_steps(800)[:4] == [2, 4, 6, 8]
