"""The Open Bandit Dataset: a small case of our own, and the published answers on the real logs."""

import os
from pathlib import Path

import numpy as np
import pytest
import yaml

from zoosim.core.errors import ConfigError
from zoosim.logs.open_bandit import open_bandit_folder, read_open_bandit

OWN = Path(__file__).parent / "open_bandit"


@pytest.fixture(scope="session")
def real() -> Path:
    named = os.environ.get("ZOOSIM_DATA")
    if not named:
        pytest.skip("needs the Open Bandit Dataset: set ZOOSIM_DATA to its folder")
    return open_bandit_folder(named)


def test_the_published_layout_is_read() -> None:
    log = read_open_bandit("random", "all", OWN)
    assert log.actions.tolist() == [i % 4 for i in range(12)]
    assert log.positions.tolist() == [i % 3 for i in range(12)]
    assert np.flatnonzero(log.rewards).tolist() == [2, 7]
    assert set(log.propensities) == {0.25}
    assert log.features.shape == (
        12,
        3 + 2 + 2 + 4,
    )  # a column per value of each of the four features, and one for others
    assert log.features.sum(axis=1).tolist() == [4.0] * 12
    assert log.products.tolist() == [[0.0], [0.5], [1.0], [1.5]]
    assert log.user_ids is None


def test_where_the_data_lies_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ZOOSIM_DATA", raising=False)
    with pytest.raises(ConfigError, match="set ZOOSIM_DATA"):
        open_bandit_folder()
    with pytest.raises(ConfigError, match="holds no folder random or bts"):
        open_bandit_folder(tmp_path)
    monkeypatch.setenv("ZOOSIM_DATA", str(OWN.parent))
    assert open_bandit_folder() == OWN
    with pytest.raises(ConfigError, match="got policy 'uniform'"):
        read_open_bandit("uniform", "all", OWN)


def thompson(folder: Path, campaign: str, n_items: int) -> np.ndarray:
    """The item probabilities of Bernoulli Thompson sampling by position `(K, 3)`, over 100,000 draws."""
    prior = yaml.safe_load((folder / "prior_bts.yaml").read_text(encoding="utf-8"))[campaign]
    rng, counts = np.random.RandomState(12345), np.zeros((n_items, 3))
    for _ in range(20):
        best = np.argsort(-rng.beta(prior["alpha"], prior["beta"], (5_000, n_items)), axis=1)[:, :3]
        for position in range(3):
            counts[:, position] += np.bincount(best[:, position], minlength=n_items)
    return counts / 100_000


def test_the_published_ratio_of_thompson_sampling_to_uniform(real: Path) -> None:
    log = read_open_bandit("random", "all", real)
    probabilities = thompson(real, "all", log.n_actions)[log.actions, log.positions]
    assert np.mean(probabilities / log.propensities * log.rewards) / log.rewards.mean() == pytest.approx(
        1.198126, abs=1e-6
    )


def test_all_six_real_logs_are_read(real: Path) -> None:
    for policy in ("random", "bts"):
        sizes = {campaign: read_open_bandit(policy, campaign, real).n_actions for campaign in ("all", "men", "women")}
        assert sizes == {"all": 80, "men": 34, "women": 46}
