"""Held-out visits: kept in order, in EUR, and what is fitted to them by hand."""

import numpy as np
import pytest

from zoosim.policies.boosts.q_held_out import HeldOutVisits


def test_the_last_visits_are_kept_in_order_and_told_in_eur() -> None:
    visits = HeldOutVisits(3)
    for number in range(5):
        visits.add(0.1 * number, 0.5, 1.0, 10.0, float(number))
    mean, std, reward = visits.judged()
    # A target of 1 means 10 + unit, and the units of the last three are 2, 3 and 4.
    np.testing.assert_allclose(reward, [12.0, 13.0, 14.0])
    np.testing.assert_allclose(mean, [10.0 + 2.0 * 0.2, 10.0 + 3.0 * 0.3, 10.0 + 4.0 * 0.4])
    np.testing.assert_allclose(std, [1.0, 1.5, 2.0])
    assert len(HeldOutVisits(3).judged().mean) == 0


def test_beta_bounds_the_share_that_is_asked_for() -> None:
    visits = HeldOutVisits(100)
    for number in range(19):
        visits.add(0.0, 0.5, float(number), 0.0, 1.0)
    assert visits.beta(0.5) is None, "19 visits are too few"
    visits.add(0.0, 0.5, 19.0, 0.0, 1.0)
    # z = 0, 2, ..., 38; of 20, at 50%: the ceil(21 * .5) = 11th smallest
    assert visits.beta(0.5) == 20.0
    assert visits.beta(0.999) is None, "no visit is so high"


def test_recalibration_mends_a_std_that_is_too_small() -> None:
    rng = np.random.default_rng(0)
    visits = HeldOutVisits(1_000)
    assert visits.recalibration() == (1.0, 0.0, 0.0)
    for error in 3.0 * rng.normal(size=1_000):
        visits.add(0.0, 1.0, float(error), 0.0, 1.0)
    mended = visits.recalibration()
    # 4 standard errors of a standard deviation by 1,000 draws
    assert mended.apply(np.ones(1))[0] == pytest.approx(3.0, abs=4 * 3.0 / np.sqrt(2_000))
