"""Learning boosts from a log alone: pessimism stays where the log has been, its absence does not."""

import numpy as np
import pytest

from zoosim.core.errors import ConfigError, DataError
from zoosim.policies.boosts.q_offline import PESSIMISM, QOffline
from zoosim.policies.checks.search_shop import LARGER

CENTRE = np.array([0.3, 0.0, -0.3, 0.0])


def log(n: int = 600, seed: int = 0) -> dict[str, np.ndarray]:
    """Return a log of noisy rewards around one vector of boosts; far from it there is nothing."""
    rng = np.random.default_rng(seed)
    features = np.array([LARGER.context(visit).features for visit in range(n)])
    actions = CENTRE + rng.normal(0.0, 0.03, (n, 4))
    rewards = 1.0 - 4.0 * ((actions - CENTRE) ** 2).sum(axis=1) + rng.normal(0.0, 0.5, n)
    return {"features": features, "action": np.clip(actions, -0.5, 0.5), "reward": rewards}


def distance(pessimism: str, seed: int) -> float:
    """Return how far recommendations lie from the log, on average over some visits."""
    policy = QOffline(LARGER.spec, np.random.default_rng(seed), pessimism=pessimism)
    assert policy.fit(log(seed=seed)) == {"visits": 600.0}
    contexts = [LARGER.context(10_000 + visit) for visit in range(10)]
    return float(np.mean([np.linalg.norm(policy.recommend(context) - CENTRE) for context in contexts]))


def test_conservative_training_stays_near_the_log_and_the_plain_mean_does_not() -> None:
    near, far = (np.mean([distance(name, seed) for seed in range(3)]) for name in ("conservative", "mean"))
    assert near < 0.25
    assert far > 0.5


@pytest.mark.parametrize("pessimism", PESSIMISM)
def test_a_fitted_policy_is_saved_and_loaded(pessimism: str) -> None:
    policy = QOffline(LARGER.spec, np.random.default_rng(0), pessimism=pessimism, epochs=1)
    np.testing.assert_array_equal(policy.recommend(LARGER.context(0)), np.zeros(4))
    policy.fit(log())
    loaded = QOffline(LARGER.spec, np.random.default_rng(1), pessimism=pessimism, epochs=1)
    loaded.load_state_dict(policy.state_dict())
    found = loaded.select_action(LARGER.context(0))
    np.testing.assert_array_equal(found, policy.recommend(LARGER.context(0)))
    assert 0.0 < np.abs(found).max() <= LARGER.a_max


def test_bad_logs_are_refused_and_change_nothing() -> None:
    policy = QOffline(LARGER.spec, np.random.default_rng(0), epochs=1)
    with pytest.raises(DataError, match="q-offline: the log has no reward"):
        policy.fit({"features": np.zeros((1, 8)), "action": np.zeros((1, 4))})
    with pytest.raises(DataError, match="q-offline: reward: got nan"):
        policy.fit({**log(2), "reward": np.array([1.0, np.nan])})
    with pytest.raises(DataError, match="q-offline: features: got an empty array"):
        policy.fit({"features": np.zeros((0, 8)), "action": np.zeros((0, 4)), "reward": np.zeros(0)})
    np.testing.assert_array_equal(policy.recommend(LARGER.context(0)), np.zeros(4))
    with pytest.raises(ConfigError, match="q-offline: the saved state is of another policy"):
        policy.load_state_dict({})
