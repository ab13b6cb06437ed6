"""Limits on single rewards: levels by hand, and coverage that holds in each group and, done wrong, does not."""

import math

import numpy as np
import pytest

from studies.calibration import conformal
from studies.calibration.conformal import calibrate_limits, fit_quantiles, needed_levels
from zoosim.core.errors import ConfigError


def test_needed_levels_by_hand() -> None:
    """Quantiles are the levels themselves, doubled: the reward .5 needs level .25, 3 none, -1 the lowest."""
    rows = np.tile(2 * conformal.LEVELS, (3, 1))
    np.testing.assert_allclose(needed_levels(rows, np.array([0.5, 3.0, -1.0])), [0.25, 2.0, 0.0], atol=1e-12)


def zero_inflated(n: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Return members' predictions (3, n), groups and rewards: zero in 99% of group 0 and in 60% of group 1."""
    groups = rng.integers(0, 2, n)
    level = rng.uniform(1, 5, n)
    members = level + rng.normal(0, 0.3, (3, n))
    rewards = np.where(rng.random(n) < np.where(groups == 0, 0.01, 0.4), level * rng.exponential(5, n), 0.0)
    return members, groups, rewards


def test_limits_cover_what_they_promise_in_each_group() -> None:
    """95% to 4 standard errors of calibration and test together, 2 x 4,000 rows a group; seed 3.

    Without chance a limit must cover the zeros, 99% of group 0. Limits at three fifths of the height do not hold.
    """
    rng = np.random.default_rng(3)
    fitted, held, new = (zero_inflated(8_000, rng) for _ in range(3))
    quantiles = fit_quantiles(fitted[0].mean(axis=0), fitted[2], fitted[1])
    limits = calibrate_limits(quantiles, held[2], held[0], held[1])
    members, groups, rewards = new
    exact, plain = limits.covered(rewards, members, groups, rng=rng), limits.covered(rewards, members, groups)
    error = 4 * math.sqrt(0.95 * 0.05 * 2 / 4_000)
    assert [abs(exact[groups == g].mean() - 0.95) < error for g in (0, 1)] == [True, True]
    assert plain[groups == 0].mean() > 0.98
    assert abs(plain[groups == 1].mean() - 0.95) < error
    high = limits.of(members, groups)
    assert (plain == (rewards <= high + 1e-9)).mean() > 0.999
    assert (rewards <= 0.6 * high)[groups == 1].mean() < 0.95 - error


def test_limits_grow_with_what_is_predicted() -> None:
    rng = np.random.default_rng(4)
    members, groups, rewards = zero_inflated(20_000, rng)
    limits = calibrate_limits(fit_quantiles(members.mean(axis=0), rewards, groups), rewards, members, groups)
    low, high = limits.of(np.array([[1.5, 4.5]] * 3), np.array([1, 1]))
    assert high > 2 * low > 0


def test_too_few_rows_for_bins_are_refused() -> None:
    ones = np.ones(4)
    with pytest.raises(ConfigError, match="groups: got one of 4 rows, expected at least 100"):
        fit_quantiles(ones, ones, np.zeros(4, np.int64))
