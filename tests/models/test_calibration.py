"""Calibration: numbers by hand, recovery of known errors, and quantiles that cover what they promise."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import ConfigError, DataError
from zoosim.models import calibration

LEVELS = (0.5, 0.8, 0.95)


def test_standardised_errors_and_coverage_by_hand() -> None:
    rewards, mean, std = np.array([3.0, 0.0]), np.array([1.0, 1.0]), np.array([2.0, 0.5])
    assert calibration.z_scores(rewards, mean, std).tolist() == [1.0, -2.0]
    low, high = calibration.normal_interval(mean, std)
    np.testing.assert_allclose(high - mean, 1.959964 * std, rtol=1e-6)
    assert calibration.coverage(rewards, low, high) == 0.5
    # |z| is 1 and 2; central intervals of N(0, 1) at .5, .8 and .95 end at .674, 1.282 and 1.960
    assert calibration.reliability_curve(np.array([1.0, -2.0]), LEVELS).tolist() == [0.0, 0.5, 0.5]


def test_the_printed_statistic_means_overconfidence() -> None:
    """std(z) of 1.35 goes with a 95% interval that covers P(|N(0, 1)| < 1.96 / 1.35) = 85%: std is too small."""
    z = 1.35 * np.random.default_rng(0).normal(size=100_000)
    assert calibration.reliability_curve(z, [0.95])[0] == pytest.approx(0.853, abs=4 * math.sqrt(0.853 * 0.147 / 1e5))


def test_recalibration_recovers_a_scale_and_a_floor() -> None:
    """Errors are N(0, 1.5^2 (std^2 + floor^2)), floor 1 in units of the root mean square of std."""
    rng = np.random.default_rng(1)
    std = rng.uniform(0.1, 2.0, 20_000)
    unit = math.sqrt(np.mean(std**2))
    errors = 1.5 * np.sqrt(std**2 + unit**2) * rng.normal(size=20_000)
    found = calibration.fit_recalibration(errors + 7.0, np.full(20_000, 7.0), std)
    assert found.floor == pytest.approx(unit)
    assert found.scale == pytest.approx(1.5, abs=4 * 1.5 / math.sqrt(40_000))
    assert calibration.z_scores(errors, np.zeros(20_000), found.apply(std)).std() == pytest.approx(1.0, abs=1e-9)


def test_recalibration_recovers_a_growth() -> None:
    """Errors are N(0, (.5 std distance^2)^2); without the distance std(z) is 1 as well, but its tails are heavy."""
    rng = np.random.default_rng(6)
    std, distance = rng.uniform(0.5, 1.0, 20_000), rng.uniform(0.3, 1.7, 20_000)
    errors, mean = 0.5 * std * distance**2 * rng.normal(size=20_000), np.zeros(20_000)
    found, blind = (calibration.fit_recalibration(errors, mean, std, far) for far in (distance, None))
    assert (found.growth, blind.growth) == (2.0, 0.0)
    np.testing.assert_allclose(found.apply(std, distance), 0.5 * std * distance**2, rtol=4 / math.sqrt(20_000))
    fine, coarse = errors / found.apply(std, distance), errors / blind.apply(std)
    assert [np.mean(z**4) > 3.5 for z in (fine, coarse)] == [False, True]


def test_a_conformal_quantile_by_hand() -> None:
    """Of 9 scores, at 90%: the ceil(10 * .9) = 9th smallest; at 95% there are too few."""
    scores = np.arange(9.0)[::-1]
    assert calibration.conformal_quantile(scores, 0.9) == 8.0
    assert calibration.conformal_quantile(scores, 0.1) == 0.0
    assert calibration.conformal_quantile(scores, 0.95) == math.inf


def test_a_share_of_ties_by_hand() -> None:
    """Scores 0, 0, 0, 1 at 50%: 2.5 of 5 places, all among the ties at 0, which take 4 with the new one: .625."""
    assert calibration.conformal_threshold(np.array([0.0, 0, 0, 1]), 0.5) == (0.0, 0.625)


def test_an_adaptive_beta_bounds_as_often_as_asked() -> None:
    rng = np.random.default_rng(2)
    mean, std = rng.normal(size=4_000), rng.uniform(0.5, 2, 4_000)
    rewards = mean + 3.0 * std * rng.normal(size=4_000)
    beta = calibration.adaptive_beta(rewards[:2_000], mean[:2_000], std[:2_000], 0.9)
    covered = np.mean(rewards[2_000:] <= (mean + beta * std)[2_000:])
    assert abs(covered - 0.9) < 4 * math.sqrt(2 * 0.09 / 2_000)
    assert calibration.adaptive_beta(mean - 5, mean, std) == 0.0


def test_refusals() -> None:
    ones = np.ones(4)
    with pytest.raises(ConfigError, match="std: got 0, expected numbers above 0"):
        calibration.z_scores(ones, ones, 0 * ones)
    with pytest.raises(DataError, match=r"rewards: got nan at \(0,\)"):
        calibration.fit_recalibration(np.nan * ones, ones, ones)
    with pytest.raises(DataError, match=r"mean: got an array of shape \(3,\), expected \(4,\)"):
        calibration.z_scores(ones, ones[:3], ones)
    with pytest.raises(ConfigError, match="errors that are all the same"):
        calibration.fit_recalibration(ones, ones, ones)
    with pytest.raises(ConfigError, match="level: got 1, expected a number above 0 and below 1"):
        calibration.normal_interval(ones, ones, 1)


ONES, NAN, SHORT = np.ones(3), np.array([1.0, math.nan, 1.0]), np.ones(2)
MENDING = calibration.Recalibration(1.0, 0.1, 1.0)
BAD: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
    (calibration.z_scores, (ONES, ONES, SHORT), r"std: got an array of shape \(2,\), expected \(3,\)"),
    (calibration.z_scores, (ONES, ONES, -ONES), "std: got -1, expected numbers above 0"),
    (calibration.z_scores, ([], [], []), "rewards: got an empty array"),
    (calibration.normal_interval, (ONES, -ONES), "std: got -1, expected numbers of at least 0"),
    (calibration.normal_interval, (ONES, NAN), r"std: got nan at \(1,\)"),
    (calibration.normal_interval, (ONES, SHORT), r"std: got an array of shape \(2,\)"),
    (calibration.normal_interval, (ONES, ONES, 1.0), "level: got 1.0, expected a number above 0 and below 1"),
    (calibration.normal_interval, (ONES, ONES, "most"), "level: got 'most', expected a number above 0"),
    (calibration.coverage, (NAN, ONES, ONES), r"rewards: got nan at \(1,\)"),
    (calibration.coverage, (ONES, NAN, ONES), "low: got nan in row 1, expected numbers"),
    (calibration.coverage, (ONES, ONES, SHORT), r"high: got an array of shape \(2,\), expected \(3,\)"),
    (calibration.coverage, (ONES, 2 * ONES, ONES), "low: got 2 in row 0, expected at most high = 1"),
    (calibration.coverage, (ONES, ONES, "high"), "high: got 'high', expected an array of numbers"),
    (calibration.coverage, ([], [], []), "rewards: got an empty array"),
    (calibration.reliability_curve, (NAN, LEVELS), r"z: got nan at \(1,\)"),
    (calibration.reliability_curve, ([], LEVELS), "z: got an empty array"),
    (calibration.reliability_curve, (ONES, [math.nan]), "level: got nan"),
    (calibration.fit_recalibration, (ONES, ONES, ONES, SHORT), r"distance: got an array of shape \(2,\)"),
    (calibration.fit_recalibration, (ONES, ONES, ONES, NAN), r"distance: got nan at \(1,\)"),
    (calibration.fit_recalibration, (ONES, ONES, ONES, 0 * ONES), "distance: got 0, expected numbers above 0"),
    (MENDING.apply, (-ONES,), "std: got -1, expected numbers of at least 0"),
    (MENDING.apply, (NAN,), r"std: got nan at \(1,\)"),
    (MENDING.apply, (ONES, SHORT), r"distance: got an array of shape \(2,\)"),
    (MENDING.apply, (ONES, -ONES), "distance: got -1, expected numbers above 0"),
    (calibration.conformal_quantile, (NAN, 0.9), "scores: got nan in row 1, expected numbers"),
    (
        calibration.conformal_quantile,
        (np.ones((2, 2)), 0.9),
        r"scores: got an array of shape \(2, 2\), expected \(n,\)",
    ),
    (calibration.conformal_quantile, (ONES, math.nan), "level: got nan"),
    (calibration.conformal_threshold, (NAN, 0.9), "scores: got nan in row 1, expected numbers"),
    (calibration.adaptive_beta, (ONES, ONES, NAN), r"std: got nan at \(1,\)"),
]


@pytest.mark.parametrize(("function", "arguments", "message"), BAD)
def test_bad_input_is_refused_in_one_line(function: Callable[..., Any], arguments: Any, message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        function(*arguments)


def test_ends_may_be_infinite_or_the_same_for_all() -> None:
    assert calibration.coverage(np.arange(4.0), np.array([-math.inf]), np.array([2.0])) == 0.75
    assert calibration.conformal_quantile(np.zeros(0), 0.9) == math.inf
