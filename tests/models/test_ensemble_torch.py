"""Through torch an ensemble predicts and learns what the compiled code does, on the processor and on cards found."""

from typing import Any

import numpy as np
import pytest

from zoosim.core.devices import find_cards
from zoosim.core.types import FloatArray
from zoosim.models import ensemble_torch
from zoosim.policies.q_ensemble import QEnsembleConfig, QEnsembleRegressor

STATES = 5
ACTIONS = 10
CARDS = find_cards()
TOLERANCE = 1e-4


def on_card(device: str) -> Any:
    return pytest.param(device, marks=pytest.mark.skipif(device not in CARDS, reason=f"torch finds no {device} device"))


DEVICES = ["cpu:0", on_card("cuda"), on_card("mps")]
"""torch also calls the processor "cpu:0", a name that `QEnsembleConfig` does not take: for the tests of this path."""


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def made(device: str, seed: int = 1) -> QEnsembleRegressor:
    config = QEnsembleConfig(n_ensembles=3, hidden_sizes=(16, 8), seed=seed)
    object.__setattr__(config, "device", device)
    return QEnsembleRegressor(STATES, ACTIONS, config)


def points(n: int, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    states, actions = rng.normal(size=(n, STATES)), rng.uniform(-0.5, 0.5, (n, ACTIONS))
    return states, actions, 40.0 + 10.0 * (states * actions[:, :STATES]).sum(axis=1)


def assert_close(values: FloatArray, expected: FloatArray) -> None:
    """Compare in units of each value, and where it is close to 0 of how far values are apart."""
    np.testing.assert_allclose(values, expected, rtol=TOLERANCE, atol=TOLERANCE * float(np.std(expected)))


@pytest.mark.parametrize("at_once", [ensemble_torch.LARGEST_PASS, 16 * 3 * 100])
def test_predictions_are_those_of_the_compiled_code(device: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensemble_torch, "LARGEST_PASS", at_once)  # the second: 100 of 1,000 rows
    q = made("cpu")
    q.update_batch(*points(300, 0), n_epochs=3)
    other = made(device)
    other.load_state_dict(q.state_dict())
    states, actions, _ = points(1_000, 1)
    for values, expected in zip(other.predict(states, actions), q.predict(states, actions), strict=True):
        assert_close(values, expected)
    assert_close(other.members(states, actions), q.members(states, actions))


@pytest.mark.parametrize("at_once", [ensemble_torch.LARGEST_PASS, 16 * 3 * 100])
def test_objectives_are_those_of_the_compiled_code(device: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one request and of many, also where a pass ends within a request's 130 actions."""
    monkeypatch.setattr(ensemble_torch, "LARGEST_PASS", at_once)
    q = made("cpu")
    q.update_batch(*points(300, 0), n_epochs=3)
    other = made(device)
    other.load_state_dict(q.state_dict())
    states, _, _ = points(7, 2)
    actions = np.random.default_rng(3).uniform(-0.5, 0.5, (7, 130, ACTIONS))
    many = other.objective(states, -1.0)(actions)
    assert_close(many, q.objective(states, -1.0)(actions))
    for part, expected in zip(other.objective(states[4]).mean_std(actions[4]), many, strict=False):
        assert part.shape == expected.shape == (130,)
    assert_close(other.objective(states[4], -1.0)(actions[4]), many[4])


def test_training_takes_the_same_steps_on_the_same_batches(device: str) -> None:
    """Over 2 calls of 3 epochs of 5 batches, the last one short; rounding aside, which Adam may enlarge."""
    q, other, shuffled_otherwise = made("cpu"), made(device), made("cpu", seed=2)
    shuffled_otherwise.load_state_dict(other.state_dict())
    for regressor in (q, other, shuffled_otherwise):
        regressor.update_batch(*points(300, 0), n_epochs=3, batch_size=64)
        regressor.update_batch(*points(300, 4), n_epochs=3, batch_size=64)
    expected = q.state_dict()
    for name, value in other.state_dict().items():
        assert value.dtype == expected[name].dtype
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=2e-4)
    distance = np.abs(shuffled_otherwise.state_dict()["trained"] - expected["trained"]).max()
    assert distance > 0.01  # in another order the weights are another's


def test_what_is_learned_there_is_loaded_without_torch(device: str) -> None:
    other = made(device)
    other.update_batch(*points(300, 0))
    q = made("cpu")
    q.load_state_dict(other.state_dict())
    assert all(isinstance(value, np.ndarray) for value in other.state_dict().values())
    states, actions, _ = points(50, 1)
    assert_close(other.predict(states, actions)[0], q.predict(states, actions)[0])
