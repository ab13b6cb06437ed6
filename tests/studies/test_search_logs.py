"""Search logs of known truth: the truth is what the target earns, before and after the market shifts."""

import numpy as np
import pytest

from studies.search_logs import SearchLogs, SearchSettings, pool
from zoosim.core.rng import stream

pytestmark = pytest.mark.usefixtures("small_shop")


def test_the_truth_is_what_the_target_earns() -> None:
    """60 logs of 1,000 visits whose actions the target draws, with and without drift: within 4.5 standard errors. With
    drift, what it earns when the log ends lies further off."""
    for drift in (0.0, 1.0):
        logs = SearchLogs(SearchSettings(2.0, 0.2, 1_000, drift), stream(1, "policies"))
        logs.logging = logs.target
        means = [float(logs.draw(stream(seed, "log"))[0].rewards.mean()) for seed in range(60)]
        error = float(np.std(means, ddof=1)) / np.sqrt(60)
        assert abs(float(np.mean(means)) - logs.truth) < 4.5 * error
    assert abs(float(np.mean(means)) - logs.ending) > 4.5 * error


def test_drift_ends_in_the_later_market() -> None:
    still, moved = (SearchLogs(SearchSettings(1.0, 0.2, 100, drift), stream(1, "policies")) for drift in (0.0, 1.0))
    assert still.truth == still.ending
    assert moved.truth == pytest.approx((still.truth + moved.ending) / 2)
    assert moved.ending != pytest.approx(still.ending, rel=0.01)
    assert (still.alike, moved.alike) == (True, False)


def test_a_log_is_of_the_shop() -> None:
    logs = SearchLogs(SearchSettings(1.0, 0.2, 500), stream(1, "policies"))
    log, target = logs.draw(stream(0, "log"))
    low, high = logs.reward_range
    assert target.shape == (500, 8)
    assert low <= log.rewards.min()
    assert log.rewards.max() <= high
    assert set(log.rewards) <= set(pool().rewards[:300].ravel())
    weights = target[np.arange(500), log.actions] / log.propensities
    assert weights.max() <= logs.largest * (1 + 1e-12)
    assert abs(weights.mean() - 1.0) < 4.5 * weights.std() / np.sqrt(500)
    assert 500 / np.mean(weights**2) == pytest.approx(logs.effective, rel=0.3)
