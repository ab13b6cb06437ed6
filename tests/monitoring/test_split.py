"""The test of counts by arm: by hand, against its promise, and through a ramp."""

import math
from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import ConfigError, DataError
from zoosim.monitoring import SplitTest
from zoosim.monitoring.split import log_evidence


def test_evidence_by_hand() -> None:
    # A flat prior over the share of the first of two arms (a concentration of 2): three of three events fall to it with
    # a probability of 1/4, under equal shares with 1/8.
    assert log_evidence([3, 0], [0.5, 0.5], 2.0) == pytest.approx(math.log(2.0))
    assert log_evidence([0, 0, 0], [0.2, 0.3, 0.5], 10.0) == 0.0


def test_evidence_is_the_product_of_predictions() -> None:
    shares = np.array([0.2, 0.3, 0.5])
    seen = np.zeros(3)
    expected = 0.0
    for arm in (0, 2, 2, 1, 0, 0):
        expected += math.log((10.0 * shares[arm] + seen[arm]) / (10.0 + seen.sum()) / shares[arm])
        seen[arm] += 1
    assert log_evidence(seen, shares, 10.0) == pytest.approx(expected)


def test_false_alarms_are_as_rare_as_promised() -> None:
    """300 runs of 800 events, looked at each 20, through a step of a ramp: at most 5%, 3 standard errors."""
    rng = np.random.default_rng(1)
    alarms = naive = 0
    for _ in range(300):
        test = SplitTest(2, level=0.05, concentration=100.0)
        is_off = is_naive = False
        for look in range(40):
            shares = (0.9, 0.1) if look < 20 else (0.5, 0.5)
            test.update(rng.multinomial(20, shares), shares)
            is_off |= test.is_off
            count = test.counts[0]
            n = test.counts.sum()
            is_naive |= abs(count - n * shares[0]) > 1.96 * math.sqrt(n * shares[0] * shares[1])
        alarms += is_off
        naive += is_naive
    bound = 300 * 0.05 + 3 * math.sqrt(300 * 0.05 * 0.95)
    assert alarms <= bound < naive


def test_a_wrong_split_is_found_and_told() -> None:
    test = SplitTest(2)
    test.update([48_000, 52_000], [0.5, 0.5])
    assert test.is_off
    assert test.expected.tolist() == [50_000.0, 50_000.0]


def test_steps_of_a_ramp_add_up_and_batches_do_not_matter() -> None:
    one, other = SplitTest(2), SplitTest(2)
    one.update([880, 120], [0.9, 0.1])
    first = one.log_evidence
    one.update([420, 580], [0.5, 0.5])
    assert one.log_evidence == pytest.approx(first + log_evidence([420, 580], [0.5, 0.5], 1_000.0))
    for counts, shares in (([800, 100], [0.9, 0.1]), ([80, 20], [0.9, 0.1]), ([0, 580], [0.5, 0.5])):
        other.update(counts, shares)
    again = SplitTest(2)
    again.load_state_dict(other.state_dict())
    again.update([420, 0], [0.5, 0.5])
    assert again.log_evidence == one.log_evidence


@pytest.mark.parametrize("options", [{"arms": 1}, {"level": 0.0}, {"concentration": 0.0}])
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^split: got .* arms"):
        SplitTest(**{"arms": 2, **options})


@pytest.mark.parametrize(
    ("counts", "shares"),
    [([1], [0.5, 0.5]), ([-1, 2], [0.5, 0.5]), ([0.5, 1], [0.5, 0.5]), ([1, 2], [0.5, 0.4]), ([1, 2], [1.0, 0.0])],
)
def test_what_is_no_count_or_share_is_refused(counts: Any, shares: Any) -> None:
    with pytest.raises(DataError, match=r"^split: got the (counts|shares) .*, expected 2 "):
        SplitTest(2).update(counts, shares)
