"""Page-Hinkley by hand, against its plain form, and against its promise."""

import math

import numpy as np
import pytest

from tests.monitoring.streams import check_delays, false_alarms
from zoosim.monitoring import PageHinkley
from zoosim.monitoring.page_hinkley import new_page_hinkley, observe


def test_a_rise_by_hand() -> None:
    # Means 0, 0, 1/3, 1/2: the third step adds 2/3 - .1 to up, the fourth 1/2 - .1: .5667, then .9667.
    detector = PageHinkley(delta=0.1, threshold=0.9, min_observations=1)
    assert [detector.update(x) for x in (0, 0, 1)] == [False] * 3
    np.testing.assert_allclose(detector.state_dict()["cells"], [[3, 1 / 3, 2 / 3 - 0.1, 0]], rtol=1e-15)
    assert detector.update(1)
    assert not detector.state_dict()["cells"].any()


def test_a_fall_by_hand() -> None:
    detector = PageHinkley(delta=0.1, threshold=0.9, min_observations=1)
    assert [detector.update(x) for x in (1, 1, 0)] == [False] * 3
    np.testing.assert_allclose(detector.state_dict()["cells"], [[3, 2 / 3, 0, 2 / 3 - 0.1]], rtol=1e-15)
    assert detector.update(0)


def test_no_change_before_the_least_number_of_observations() -> None:
    # The ninth sum is past the threshold; only the tenth observation may say so.
    detector = PageHinkley(delta=0.1, threshold=0.5, min_observations=10)
    assert [detector.update(x) for x in (0, 0, 1, 1, 1, 1, 1, 1, 1, 1)] == [False] * 9 + [True]


def plain(stream: np.ndarray, delta: float, threshold: float) -> int:
    """Return where the form of the books first finds a change: m_t - min m or max m - m_t over the threshold."""
    means = np.cumsum(stream) / np.arange(1, len(stream) + 1)
    rise = np.concatenate([[0], np.cumsum(stream - means - delta)])
    fall = np.concatenate([[0], np.cumsum(stream - means + delta)])
    up, down = rise - np.minimum.accumulate(rise), np.maximum.accumulate(fall) - fall
    over = np.flatnonzero(np.maximum(up, down)[1:] > threshold)
    return int(over[0]) if len(over) else -1


@pytest.mark.parametrize("scale", [1.0, 1e6])
@pytest.mark.parametrize("jump", [0.0, 2.0, -0.7])
def test_the_plain_form_agrees(jump: float, scale: float) -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        stream = scale * (rng.normal(3, 1, 400) + jump * (np.arange(400) >= 200))
        detector = PageHinkley(delta=0.1 * scale, threshold=15.0 * scale, min_observations=1)
        found = [detector.update(x) for x in stream.tolist()]
        assert (found.index(True) if True in found else -1) == plain(stream, 0.1 * scale, 15.0 * scale)


def test_the_largest_numbers_make_no_nan() -> None:
    detector, largest = PageHinkley(min_observations=1000), np.finfo(np.float64).max
    for x in np.random.default_rng(3).choice([-largest, 0.0, 1.0, largest], 500):
        assert not detector.update(float(x))
        assert np.isfinite(detector.state_dict()["cells"]).all()


def run_length(p: float, delta: float, threshold: float) -> float:
    """Return the promised mean time between false alarms."""
    variance = p * (1 - p)
    y = 2 * delta * threshold / variance
    return (math.exp(y) - 1 - y) * variance / (4 * delta**2)


@pytest.mark.parametrize(("threshold", "p"), [(80.0, 0.5), (20.0, 0.05)])
def test_false_alarms_are_as_rare_as_promised(threshold: float, p: float) -> None:
    """200 streams of 5,000, seed 1: 19.7 expected at the default and p = .5, 130 at h = 20 and p = .05; 3 s.e."""
    expected = 200 * 5000 / run_length(p, 0.005, threshold)
    found = false_alarms(observe, new_page_hinkley(200, threshold=threshold), p).sum()
    assert found <= expected + 3 * math.sqrt(expected)


def test_the_worst_mean_has_the_run_length_that_the_docstring_says() -> None:
    assert run_length(0.5, 0.005, 80.0) == pytest.approx(50_800, rel=0.01)


@pytest.mark.parametrize(("before", "after"), [(0.4, 0.15), (0.55, 0.35), (0.2, 0.8)])
def test_a_change_is_found_in_time(before: float, after: float) -> None:
    """The sum grows by |c| - delta an observation: 327, 410 and 134 observations."""
    check_delays(observe, new_page_hinkley(200), before, after, 80 / (abs(after - before) - 0.005))
