"""Simulated logs of rankings and of boosts: their truth is what the target earns, and their chances are right."""

import numpy as np
import pytest

from studies.boost_logs import BoostLogs, BoostSettings
from studies.ranking_logs import RankingLogs, RankingSettings, without_replacement
from zoosim.core.rng import stream
from zoosim.core.types import FloatArray


def test_chances_without_replacement_by_hand() -> None:
    """Of .5, .3, .2: the second after the first is .3 / .5, the third after both is sure."""
    found = without_replacement(np.array([[0.5, 0.3, 0.2]]), np.array([[0, 1, 2]]))
    np.testing.assert_allclose(found, [[0.5, 0.6, 1.0]])


def test_the_truth_of_rankings_is_what_the_target_earns() -> None:
    """60 logs of 1,000 visits whose rankings the target draws: within 4.5 standard errors; the log's own lies off."""
    logs = RankingLogs(RankingSettings(2.0, 0.2, 1_000), stream(1, "policies"))
    own = _mean(logs)
    logs.logging = logs.target
    mean, error = _mean(logs)
    assert abs(mean - logs.truth) < 4.5 * error
    assert abs(own[0] - logs.truth) > 4.5 * error


def _mean(logs: RankingLogs) -> tuple[float, float]:
    means = [float(logs.draw(stream(seed, "log"))[0].visit_rewards.mean()) for seed in range(60)]
    return float(np.mean(means)), float(np.std(means, ddof=1)) / np.sqrt(60)


def test_a_log_of_rankings_says_how_likely_its_choices_were() -> None:
    """Weights of whole rankings have mean 1, and as few effective rows as was said; none is larger than the largest."""
    logs = RankingLogs(RankingSettings(1.0, 0.2, 20_000), stream(1, "policies"))
    log, target = logs.draw(stream(0, "log"))
    weights, rewards = logs.bounded(log, target)
    assert abs(weights.mean() - 1.0) < 4.5 * weights.std() / np.sqrt(len(log))
    assert weights.sum() ** 2 / (weights**2).sum() == pytest.approx(logs.effective, rel=0.1)
    assert weights.max() <= logs.largest
    assert (rewards <= logs.reward_range[1]).all()
    assert all(len(set(shown)) == 3 for shown in log.actions[:100].tolist())


@pytest.mark.parametrize("kinked", [False, True])
def test_the_truth_of_boosts_is_what_the_target_earns(kinked: bool) -> None:
    """The rewards of boosts that happen to lie within .1 of the target's, in 200,000 visits."""
    logs = BoostLogs(BoostSettings(1, 0.3, 200_000, kinked), stream(1, "policies"))
    log, target = logs.draw(stream(0, "log"))
    near: FloatArray = log.rewards[(np.abs(log.actions - target) < 0.1)[:, 0]]
    assert abs(near.mean() - logs.truth) < 4.5 * near.std() / np.sqrt(len(near)) + 0.1**2 / 3
    assert (np.abs(target) <= 1.0).all()
