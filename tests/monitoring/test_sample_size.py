"""What is said of the events that a test needs: against closed forms, and against the test itself."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from zoosim.core.errors import ConfigError
from zoosim.monitoring import HARM, NOT_WORSE, DifferenceTest, Reward, events_needed
from zoosim.monitoring.sample_size import fixed_test_events, information_needed


@pytest.mark.parametrize("power", [0.2, 0.5, 0.8])
def test_one_account_meets_a_straight_line(power: float) -> None:
    """X - t / 2 reaches ln 100 at a time of the inverse Gaussian distribution."""
    time = information_needed(100.0, [0.0, 1.0, 0.0], 0.0, power=power)
    level = math.log(100.0)
    passed = ndtr((time / 2 - level) / math.sqrt(time)) + math.exp(level) * ndtr(-(time / 2 + level) / math.sqrt(time))
    assert passed == pytest.approx(power, abs=0.01)


def test_more_accounts_and_later_looks() -> None:
    # With the drop known the median is 7.6; a fixed test needs 2.326^2 = 5.41, so the price of looking at any time is
    # 1.40, and of not knowing the drop 1.67 in all.
    assert information_needed(100.0, [0.0, 1.0, 0.0], 0.0) / norm.ppf(0.99) ** 2 == pytest.approx(1.40, abs=0.01)
    assert information_needed(100.0) / norm.ppf(0.99) ** 2 == pytest.approx(1.67, abs=0.01)
    assert (
        information_needed(10_000.0) > information_needed(100.0) > information_needed(100.0, [1.0, 9.0, 0.5], 0.1) > 0
    )
    assert information_needed(100.0, [40.0, 40.0, 40.0], 0.1) == 0.0


def test_a_fixed_test_by_hand() -> None:
    # 2.326^2 x (.1 x .9) / (.9 x .1 x .02^2) = 13,530 events at a holdback of 10%; at equal shares 9/25 of that.
    assert fixed_test_events(0.02, 0.09, 0.9) == pytest.approx(13_530, abs=1)
    assert fixed_test_events(0.02, 0.09, 0.5) == pytest.approx(13_530 * 0.36, abs=1)
    assert fixed_test_events(0.02, 0.09, 0.9, power=0.8) == pytest.approx(13_530 * (1 + 0.8416 / 2.3263) ** 2, rel=1e-3)


def test_all_of_several_tests_need_more_than_one() -> None:
    assert events_needed(0.02, 0.09, 0.5, tests=2) == events_needed(0.02, 0.09, 0.5, power=0.75)


def test_a_drop_is_found_when_it_was_said() -> None:
    """200 runs at a click rate of 30%: the standard error of the median is 5%."""
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        treated = rng.random(8_000) < 0.5
        test = DifferenceTest(Reward("click"))
        test.update(treated, 0.5, (rng.random(8_000) < np.where(treated, 0.24, 0.3)).astype(float))
        found.append(int(test.shown_at[HARM]) or math.inf)
    for power in (0.5, 0.8):
        said = events_needed(0.06, (0.24 * 0.76 + 0.3 * 0.7) / 2, 0.5, power=power)
        assert float(np.quantile(found, power, method="lower")) == pytest.approx(said, rel=0.15)


def test_what_remains_is_what_was_said_less_what_was_learned() -> None:
    test = DifferenceTest(Reward("click", margin=0.1))
    test.update([True], 0.5, [1.0])
    # Nothing was staked on the first event. The mean is 1/2 now, and the variance (1 + 1/4) / 2.
    assert test.remaining(NOT_WORSE, 0.5) == pytest.approx(events_needed(0.1 / 2, 0.625, 0.5))
    assert test.remaining(NOT_WORSE, 0.9) == pytest.approx(test.remaining(NOT_WORSE, 0.5) * 25 / 9)
    rng = np.random.default_rng(1)
    treated = rng.random(60_000) < 0.5
    clicks = (rng.random(60_000) < 0.3).astype(float)
    test.update(treated[:1_500], 0.5, clicks[:1_500])
    said = events_needed(0.1 * 0.3, 0.21, 0.5)
    assert 0.0 < test.remaining(NOT_WORSE, 0.5) < said
    test.update(treated[1_500:], 0.5, clicks[1_500:])
    assert test.shown[NOT_WORSE]
    assert test.remaining(NOT_WORSE, 0.5) == 0.0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"distance": 0.0}, "events needed: distance: got 0, expected above 0"),
        ({"variance": -1.0}, "events needed: variance: got -1, expected above 0"),
        ({"share": 1.0}, r"events needed: share: got 1, expected inside \(0, 1\)"),
        ({"level": 0.0}, "events needed: level: got 0, "),
        ({"power": 1.0}, "events needed: power: got 1, "),
        ({"tests": 0}, "events needed: tests: got 0, expected at least 1"),
    ],
)
def test_numbers_out_of_range_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        events_needed(**{"distance": 0.02, "variance": 0.09, "share": 0.5, **changed})
