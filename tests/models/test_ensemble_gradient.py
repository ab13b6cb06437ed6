"""Gradients of an ensemble in the actions: the same in every batch, and against finite differences."""

import numpy as np
import pytest

from tests.models.test_ensemble import ACTIONS, HIDDEN, STATES, network, plain
from zoosim.core.types import FloatArray
from zoosim.models.ensemble_gradient import gradient
from zoosim.models.ensemble_objective import EnsembleObjective


@pytest.mark.parametrize("hidden", HIDDEN, ids=str)
def test_an_action_has_the_same_bits_in_every_batch(hidden: list[int]) -> None:
    net, rng = network(hidden), np.random.default_rng(1)
    objective = EnsembleObjective(net, rng.normal(size=STATES), 0.5)
    actions = rng.normal(size=(130, ACTIONS))
    _, slopes = gradient(objective, actions)
    for width in (1, 2, 3, 63, 64, 65, 129):
        value, slope = gradient(objective, actions[:width])
        assert value.tolist() == objective(actions[:width]).tolist()
        assert slope.tolist() == slopes[:width].tolist()


@pytest.mark.parametrize("beta", [0.0, 2.0, -1.0])
@pytest.mark.parametrize("hidden", HIDDEN, ids=str)
def test_gradients_equal_finite_differences(hidden: list[int], beta: float) -> None:
    net, rng = network(hidden), np.random.default_rng(2)
    states, actions = rng.normal(size=(2, STATES)), rng.normal(size=(2, 70, ACTIONS))
    _, slope = gradient(EnsembleObjective(net, states, beta), actions)

    def value(moved: FloatArray) -> FloatArray:
        rows = np.concatenate([np.repeat(states, 70, axis=0), moved.reshape(-1, ACTIONS)], axis=1)
        outputs = plain(net, rows)
        values: FloatArray = outputs.mean(axis=0) + beta * outputs.std(axis=0)
        return values.reshape(2, 70)

    for i in range(ACTIONS):
        step = 1e-5 * np.eye(ACTIONS)[i]
        numeric = (value(actions + step) - value(actions - step)) / 2e-5
        np.testing.assert_allclose(slope[..., i], numeric, rtol=0, atol=2e-3 * np.abs(numeric).max())


def test_members_that_agree_have_no_slope_of_their_spread() -> None:
    net = network([5])
    net.trained[:] = net.trained[0]
    objective = EnsembleObjective(net, np.zeros(STATES), 5.0)
    calm = EnsembleObjective(net, np.zeros(STATES), 0.0)
    actions = np.ones((2, ACTIONS))
    assert gradient(objective, actions)[1].tolist() == gradient(calm, actions)[1].tolist()
