"""The regressor: the chapter's code as printed, its check, spread where data is thin, states, and refusals."""

import math
from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.types import FloatArray
from zoosim.policies.q_ensemble import QEnsembleConfig, QEnsembleRegressor

SMALL = QEnsembleConfig(n_ensembles=3, hidden_sizes=(8,), seed=1)


def quadratic(n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
    x, a = rng.normal(0, 1, (n, 5)), rng.uniform(-0.5, 0.5, (n, 10))
    return x, a, (x * a[:, :5]).sum(axis=1) - 0.1 * (a**2).sum(axis=1)


def test_the_printed_code_runs_and_meets_its_check() -> None:
    """The quadratic of equation 7.11, trained as printed: the mean squared error is to be below .002 (printed: .01)."""
    rng = np.random.default_rng(42)
    x_train, a_train, r_train = quadratic(1000, rng)
    config = QEnsembleConfig(n_ensembles=5, hidden_sizes=(64, 64), learning_rate=3e-3, device="cpu", seed=42)
    q = QEnsembleRegressor(state_dim=5, action_dim=10, config=config)
    q.update_batch(x_train, a_train, r_train, n_epochs=50, batch_size=64)
    x_test, a_test, r_true = quadratic(5_000, rng)
    mu, sigma = q.predict(x_test, a_test)
    assert np.mean((mu - r_true) ** 2) < 0.002
    assert 0.8 < ((mu - r_true) / sigma).std() < 1.3


def trained(config: QEnsembleConfig, rewards: float = 1.0, spread: float = 1.0) -> QEnsembleRegressor:
    rng = np.random.default_rng(0)
    q = QEnsembleRegressor(2, 1, config)
    states, actions = rng.normal(size=(200, 2)), rng.uniform(-1, 1, (200, 1))
    q.update_batch(states, actions, rewards * (states[:, 0] + actions[:, 0] + spread * rng.normal(size=200)), 20, 32)
    return q


def test_members_differ_most_where_there_is_no_data() -> None:
    q = trained(SMALL)
    near, far = q.predict(np.zeros((1, 2)), np.zeros((1, 1)))[1], q.predict(np.full((1, 2), 6.0), np.ones((1, 1)))[1]
    assert far[0] > 3 * near[0]


def test_the_bootstrap_lets_members_see_noise() -> None:
    """Rewards are noise alone: with the bootstrap members differ more (mean over 200 rows, 3 seeds each)."""
    rows = np.random.default_rng(0).normal(size=(200, 2)), np.zeros((200, 1))

    def spread(bootstrap: bool) -> float:
        made = [trained(QEnsembleConfig(hidden_sizes=(8,), seed=s, bootstrap=bootstrap), spread=3.0) for s in range(3)]
        return float(np.mean([q.predict(*rows)[1] for q in made]))

    assert spread(True) > 1.3 * spread(False)


def test_predictions_are_in_units_of_the_rewards() -> None:
    """Rewards 1,000 times as large: standardised they are the same, so predictions are 1,000 times as large."""
    rows = np.random.default_rng(1).normal(size=(50, 2)), np.zeros((50, 1))
    one = [trained(QEnsembleConfig(3, (8,), bootstrap=False), rewards=k).predict(*rows) for k in (1.0, 1000.0)]
    for small, large in zip(*one, strict=True):
        np.testing.assert_allclose(large, 1000 * small, rtol=0, atol=1e-3 * np.abs(large).max())


def test_predict_returns_mean_and_population_deviation_of_the_members() -> None:
    q, rows = trained(SMALL), (np.random.default_rng(2).normal(size=(9, 2)), np.zeros((9, 1)))
    mean, std = q.predict(*rows)
    members = q.members(*rows)
    assert members.shape == (3, 9)
    np.testing.assert_allclose(mean, members.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(std, members.std(axis=0), rtol=1e-9)


def test_distance_is_one_on_average_over_the_data() -> None:
    q, rng = QEnsembleRegressor(2, 1, SMALL), np.random.default_rng(4)
    states, actions = rng.normal(3, 2, (500, 2)), rng.normal(-1, 0.1, (500, 1))
    q.update_batch(states, actions, np.zeros(500))
    assert np.mean(q.distance(states, actions) ** 2) == pytest.approx(1.0)
    far = np.array([[states[:, 0].mean() + 3 * states[:, 0].std(), states[:, 1].mean()]])
    assert q.distance(far, actions.mean(axis=0)[None])[0] == pytest.approx(3 / np.sqrt(3))


def test_the_same_calls_give_the_same_bits_and_a_saved_state_goes_on() -> None:
    a, b = trained(SMALL), trained(SMALL)
    copy = QEnsembleRegressor(2, 1, SMALL)
    copy.load_state_dict(a.state_dict())
    more = np.random.default_rng(3).normal(size=(70, 4))
    for q in (a, b, copy):
        q.update_batch(more[:, :2], more[:, 2:3], more[:, 3], n_epochs=2)
    probe = more[:5, :2], more[:5, 2:3]
    for other in (b, copy):
        assert [part.tolist() for part in other.predict(*probe)] == [part.tolist() for part in a.predict(*probe)]
        assert all(np.array_equal(value, other.state_dict()[name]) for name, value in a.state_dict().items())


def test_an_objective_stays_as_it_was_made() -> None:
    q = trained(SMALL)
    objective, actions = q.objective(np.zeros(2), beta=1.0), np.zeros((4, 1))
    before = objective(actions)
    q.update_batch(np.ones((5, 2)), np.ones((5, 1)), np.full(5, 50.0), n_epochs=5)
    assert objective(actions).tolist() == before.tolist() != q.objective(np.zeros(2), beta=1.0)(actions).tolist()
    mean, std = q.predict(np.zeros((4, 2)), actions)
    assert q.objective(np.zeros(2), beta=1.0)(actions).tolist() == (mean + std).tolist()


def batch(**changed: Any) -> dict[str, Any]:
    return {"states": np.zeros((4, 2)), "actions": np.zeros((4, 1)), "rewards": np.zeros(4), **changed}


REFUSED = {
    "width": (batch(states=np.zeros((4, 3))), r"states: got an array of shape \(4, 3\), expected \(n, 2\)"),
    "count": (batch(actions=np.zeros((3, 1))), r"actions: got an array of shape \(3, 1\), expected \(4, 1\)"),
    "flat": (batch(rewards=np.zeros((4, 1))), r"rewards: got an array of shape \(4, 1\), expected \(4,\)"),
    "empty": (batch(states=np.zeros((0, 2))), "states: got an empty array, expected at least one row"),
    "nan": (batch(rewards=[0, 1, math.nan, 0]), r"rewards: got nan at \(2,\), expected finite numbers"),
    "infinite": (batch(actions=np.full((4, 1), -math.inf)), r"actions: got -inf at \(0, 0\), expected finite"),
    "large": (
        batch(states=np.full((4, 2), 1e10)),
        r"states: got 1e\+10 at \(0, 0\), expected finite numbers up to 1e\+09",
    ),
    "text": (batch(rewards=["a", "b", "c", "d"]), r"rewards: got \['a', 'b', 'c', 'd'\], expected an array of numbers"),
    "ragged": (batch(states=[[1.0], [1.0, 2.0]]), r"states: got .*, expected an array of numbers"),
    "epochs": (batch(n_epochs=0), "n_epochs: got 0, expected a whole number, 1 to"),
    "batch": (batch(batch_size=1.5), "batch_size: got 1.5, expected a whole number"),
}


@pytest.mark.parametrize(("values", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_refused_batch_changes_nothing(values: dict[str, Any], message: str) -> None:
    q = trained(SMALL)
    before = q.state_dict()
    with pytest.raises((DataError, ConfigError), match=message) as caught:
        q.update_batch(**values)
    assert "\n" not in str(caught.value)
    assert all(np.array_equal(value, q.state_dict()[name]) for name, value in before.items())


def test_large_numbers_stay_finite() -> None:
    q = QEnsembleRegressor(2, 1, SMALL)
    q.update_batch(np.full((4, 2), 1e9), np.full((4, 1), -1e9), np.array([1e9, -1e9, 0.0, 1e-9]), n_epochs=50)
    q.update_batch(np.full((4, 2), 1e-9), np.zeros((4, 1)), np.zeros(4), n_epochs=50)
    for part in q.predict(np.full((3, 2), 1e9), np.full((3, 1), 1e9)):
        assert np.isfinite(part).all()


BAD_CONFIGS: list[tuple[dict[str, Any], str]] = [
    ({"n_ensembles": 0}, "n_ensembles: got 0, expected a whole number, 1 to 1,000"),
    ({"hidden_sizes": ()}, r"hidden_sizes: got \(\), expected 1 to 8 widths, such as \(64, 64\)"),
    ({"hidden_sizes": (64, 0)}, "hidden_sizes: got 0, expected a whole number"),
    ({"hidden_sizes": 64}, "hidden_sizes: got 64, expected 1 to 8 widths"),
    ({"learning_rate": math.nan}, "learning_rate: got nan, expected a number"),
    ({"device": "gpu"}, "device: got 'gpu', expected cpu, cuda or mps"),
    ({"seed": -1}, "seed: got -1, expected a whole number"),
    ({"bootstrap": 1}, "bootstrap: got 1, expected true or false"),
]


@pytest.mark.parametrize(("values", "message"), BAD_CONFIGS, ids=[next(iter(v)) for v, _ in BAD_CONFIGS])
def test_refused_configs(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        QEnsembleConfig(**values)


def test_refused_tasks_objectives_and_states() -> None:
    wrong: Any = 5
    with pytest.raises(ConfigError, match="action_dim: got 0, expected a whole number"):
        QEnsembleRegressor(2, 0)
    with pytest.raises(ConfigError, match="config: got 5, expected a QEnsembleConfig"):
        QEnsembleRegressor(2, 1, wrong)
    q = trained(SMALL)
    with pytest.raises(ConfigError, match="beta: got nan, expected a number"):
        q.objective(np.zeros(2), beta=math.nan)
    with pytest.raises(DataError, match=r"states: got nan at \(1,\)"):
        q.objective(np.array([0, math.nan]))
    with pytest.raises(DataError, match=r"actions: got an array of shape \(3, 2\), expected \(n, 1\)"):
        q.objective(np.zeros(2))(np.zeros((3, 2)))
    state = q.state_dict()
    for broken in ({}, {**state, "seen": -state["seen"]}, {**state, "mean": state["mean"][:2]}):
        with pytest.raises(ConfigError, match="QEnsembleRegressor: the saved state is of another policy"):
            QEnsembleRegressor(2, 1, SMALL).load_state_dict(broken)
