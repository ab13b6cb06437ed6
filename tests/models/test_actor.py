"""The actor: near the ensemble's best on a smooth problem, inside the box, never worse for a step more."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.types import FloatArray
from zoosim.models.actor import Actor
from zoosim.models.ensemble_gradient import gradient
from zoosim.models.ensemble_objective import EnsembleObjective
from zoosim.policies.q_ensemble import QEnsembleConfig, QEnsembleRegressor

A_MAX = 0.5


@pytest.fixture(scope="module")
def critic() -> QEnsembleRegressor:
    """Return an ensemble that knows Q = x . a - |a|^2, whose best action is x / 2 cut to the box."""
    rng = np.random.default_rng(0)
    x, a = rng.normal(size=(2_000, 3)), rng.uniform(-A_MAX, A_MAX, (2_000, 3))
    q = QEnsembleRegressor(3, 3, QEnsembleConfig(n_ensembles=3, hidden_sizes=(32, 32), seed=0))
    q.update_batch(x, a, (x * a).sum(axis=1) - (a**2).sum(axis=1), n_epochs=40)
    return q


@pytest.fixture(scope="module")
def states() -> FloatArray:
    return np.random.default_rng(1).normal(size=(300, 3))


def trained(critic: QEnsembleRegressor, states: FloatArray, beta: float = 0.0) -> Actor:
    actor = Actor(critic.network(), A_MAX, beta=beta, seed=3)
    actor.fit(states, n_steps=600)
    return actor


def best_value(objective: EnsembleObjective, m: int) -> FloatArray:
    """Return the best of 200 projected gradient steps from 8 starts each."""
    points, best = np.random.default_rng(2).uniform(-A_MAX, A_MAX, (m, 8, 3)), np.full(m, -np.inf)
    for step in 0.3 * 0.97 ** np.arange(200):
        value, slope = gradient(objective, points)
        best = np.maximum(best, value.max(axis=1))
        length = np.maximum(np.abs(slope).max(axis=2, keepdims=True), 1e-12)
        points = np.clip(points + step * slope / length, -A_MAX, A_MAX)
    return best


@pytest.mark.slow
@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_its_actions_are_near_the_best(critic: QEnsembleRegressor, states: FloatArray, beta: float) -> None:
    """On states it was not trained on, at 98.9% of the best objective with 3 steps; untrained, far below."""
    fresh = np.random.default_rng(9).normal(size=(200, 3))
    objective = critic.objective(fresh, beta)
    best = best_value(objective, 200).mean()
    actor, untrained = trained(critic, states, beta), Actor(critic.network(), A_MAX, beta=beta, seed=3)
    shares = [objective(a.act(fresh, k)[:, None]).mean() / best for a, k in ((actor, 0), (actor, 3), (untrained, 0))]
    assert shares[0] > 0.97
    assert shares[1] > 0.989
    assert shares[2] < 0.7


def test_it_knows_the_answer(critic: QEnsembleRegressor, states: FloatArray) -> None:
    actions = trained(critic, states).act(states, refine=10)
    assert np.abs(actions - np.clip(states / 2, -A_MAX, A_MAX)).mean() < 0.06


def test_a_step_more_never_harms(critic: QEnsembleRegressor, states: FloatArray) -> None:
    actor, objective = Actor(critic.network(), A_MAX, beta=0.5, seed=1), critic.objective(states, 0.5)
    values = [objective(actor.act(states, steps)[:, None])[:, 0] for steps in (0, 1, 2, 5)]
    for fewer, more in pairwise(values):
        assert (more >= fewer).all()
    assert values[-1].mean() > values[0].mean() + 0.1


def test_actions_lie_in_the_box_and_do_not_depend_on_the_batch(critic: QEnsembleRegressor, states: FloatArray) -> None:
    actor = trained(critic, states)
    for refine in (0, 3):
        actions = actor.act(20 * states, refine)
        assert np.abs(actions).max() <= A_MAX
        assert [actor.act(20 * state, refine).tolist() for state in states[:70]] == actions[:70].tolist()


def test_it_repeats_saves_and_goes_on(critic: QEnsembleRegressor, states: FloatArray) -> None:
    one, two, copy = trained(critic, states), trained(critic, states), Actor(critic.network(), A_MAX, seed=3)
    copy.load_state_dict(one.state_dict())
    for actor in (one, two, copy):
        actor.fit(states, n_steps=20, net=critic.network())
    assert one.act(states).tolist() == two.act(states).tolist() == copy.act(states).tolist()
    with pytest.raises(ConfigError, match=r"Actor: the saved state is of another .* \(trained is of shape"):
        Actor(critic.network(), A_MAX, hidden_sizes=(5,)).load_state_dict(one.state_dict())


def test_refusals(critic: QEnsembleRegressor) -> None:
    net = critic.network()
    with pytest.raises(ConfigError, match="a_max: got 0, expected a number"):
        Actor(net, 0)
    with pytest.raises(ConfigError, match="hidden_sizes: got 0, expected a whole number"):
        Actor(net, 1.0, hidden_sizes=(0,))
    wrong: Any
    for wrong in (4, (), "64", (8,) * 9):
        with pytest.raises(ConfigError, match=r"hidden_sizes: got .*, expected 1 to 8 widths, such as \(64, 64\)"):
            Actor(net, 1.0, hidden_sizes=wrong)
    for wrong in (None, critic):
        with pytest.raises(ConfigError, match=r"net: got .*, expected an ensemble, such as QEnsembleRegressor.network"):
            Actor(wrong, 1.0)
    actor = Actor(net, 1.0)
    with pytest.raises(ConfigError, match=r"Actor\.fit: net: got"):
        actor.fit(np.zeros((2, 3)), net=wrong)
    with pytest.raises(DataError, match=r"states: got nan at \(1,\)"):
        actor.act(np.array([0.0, math.nan, 0.0]))
    with pytest.raises(DataError, match=r"states: got an array of shape \(2, 4\), expected \(n, 3\)"):
        actor.fit(np.zeros((2, 4)))
    with pytest.raises(ConfigError, match="refine: got -1"):
        actor.act(np.zeros(3), refine=-1)


def test_an_ensemble_over_other_states_is_refused(critic: QEnsembleRegressor, states: FloatArray) -> None:
    net = critic.network()
    other = QEnsembleRegressor(net.states + 1, len(net.centre) - net.states, QEnsembleConfig(hidden_sizes=(4,)))
    with pytest.raises(DataError, match=r"Actor\.fit: net is an ensemble over other states"):
        Actor(net, 1.0).fit(states, net=other.network())


def test_it_imitates_the_ends_of_searches(critic: QEnsembleRegressor, states: FloatArray) -> None:
    ends = np.clip(0.5 * states, -0.9 * A_MAX, 0.9 * A_MAX)
    actor = Actor(critic.network(), A_MAX, seed=3)
    far = np.abs(actor.act(states) - ends).mean()
    actor.imitate(states, ends, n_steps=800)
    fresh = np.random.default_rng(9).normal(size=(200, 3))
    near = np.abs(actor.act(fresh) - np.clip(0.5 * fresh, -0.9 * A_MAX, 0.9 * A_MAX)).mean()
    assert near < 0.05 < 0.2 < far
    before = actor.act(fresh)
    with pytest.raises(DataError, match=r"actions: got an array of shape \(300, 2\), expected \(300, 3\)"):
        actor.imitate(states, ends[:, :2])
    np.testing.assert_array_equal(actor.act(fresh), before)
