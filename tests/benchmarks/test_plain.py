"""The plain loops against numbers derived by hand, direct sums and finite differences."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from benchmarks.plain import (
    PlainInteractionUCB,
    PlainLinUCB,
    PlainNeuralLinearOnline,
    PlainNeuralLinearStable,
    PlainRandom,
    PlainStaticMLP,
)

FloatArray = NDArray[np.float64]
Weights = dict[str, FloatArray]


def _rng() -> np.random.Generator:
    return np.random.default_rng(20240611)


def _network_weights(dim: int, hidden: int, embedding: int) -> Weights:
    rng = _rng()
    shapes: dict[str, tuple[int, ...]] = {
        "w1": (dim, hidden),
        "b1": (hidden,),
        "w2": (hidden, embedding),
        "b2": (embedding,),
        "w3": (embedding,),
        "b3": (),
    }
    return {name: np.asarray(rng.normal(0.0, 0.5, shape)) for name, shape in shapes.items()}


def _embed(weights: Weights, features: FloatArray) -> FloatArray:
    hidden: FloatArray = np.maximum(features @ weights["w1"] + weights["b1"], 0.0)
    return np.asarray(hidden @ weights["w2"] + weights["b2"])


def _central_differences(loss: Callable[[Weights], float], weights: Weights, step: float = 1e-6) -> Weights:
    gradients = {name: np.zeros_like(weight) for name, weight in weights.items()}
    for name, weight in weights.items():
        for index in np.ndindex(weight.shape):
            sides = []
            for sign in (1.0, -1.0):
                moved = {key: value.copy() for key, value in weights.items()}
                moved[name][index] += sign * step
                sides.append(loss(moved))
            gradients[name][index] = (sides[0] - sides[1]) / (2.0 * step)
    return gradients


def test_lin_ucb_scores_are_the_hand_computed_ones() -> None:
    agent = PlainLinUCB(n_arms=2, dim=2, alpha=0.5)
    ones = np.ones((2, 2))
    # Nothing seen: A = I, theta = 0, so the score is alpha |x| = 0.5 sqrt(2) for both, and the tie goes to arm 0.
    np.testing.assert_allclose(agent.scores(ones), [0.5 * math.sqrt(2.0)] * 2, rtol=1e-14)
    assert agent.select(ones) == 0

    agent.update(np.array([[1.0, 0.0], [9.0, 9.0]]), 0, 1.0)
    agent.update(np.array([[9.0, 9.0], [1.0, 1.0]]), 1, 1.0)
    agent.update(np.array([[9.0, 9.0], [1.0, 0.0]]), 1, 0.0)
    # Arm 0: A = [[2, 0], [0, 1]], b = (1, 0), theta = (1/2, 0); at x = (1, 1): 1/2 and x'A^-1 x = 1/2 + 1.
    # Arm 1: A = I + [[1, 1], [1, 1]] + [[1, 0], [0, 0]] = [[3, 1], [1, 2]], det 5, A^-1 = [[2, -1], [-1, 3]] / 5,
    #        b = (1, 1), theta = (1/5, 2/5); at x = (1, 1): 3/5 and x'A^-1 x = (2 - 2 + 3) / 5.
    np.testing.assert_allclose(agent.scores(ones), [0.5 + 0.5 * math.sqrt(1.5), 0.6 + 0.5 * math.sqrt(0.6)], rtol=1e-14)
    assert agent.select(ones) == 0
    agent.alpha = 0.0
    assert agent.select(ones) == 1


def test_lin_ucb_regularization_scales_the_prior() -> None:
    agent = PlainLinUCB(n_arms=1, dim=2, alpha=1.0, regularization=4.0)
    # A = 4 I, so the bonus of x = (2, 0) is sqrt(4 / 4).
    np.testing.assert_allclose(agent.scores(np.array([[2.0, 0.0]])), [1.0], rtol=1e-14)


def test_interaction_ucb_scores_are_the_hand_computed_ones() -> None:
    agent = PlainInteractionUCB(1, 1, alpha=1.0, regularization=2.0, discount=0.5, period=2)
    user, product = np.array([1.0]), np.array([1.0])
    # x = (1, 1, 1). With A = s xx' + 2 I and b = c x: theta'x = 3c / (3s + 2), x'A^-1 x = 3 / (3s + 2).
    expected = [(0.0, 0.0), (1.0, 1.0), (0.5, 0.25), (1.5, 1.25), (0.625, 0.5625)]
    # s: +1, then (1 + 1) / 4, +1, (1.5 + 1) / 4; rewards 1, 0, 1, 1 give c: +1, (1 + 0) / 4, +1, (1.25 + 1) / 4.
    for reward, (s, c) in zip([1.0, 0.0, 1.0, 1.0, 0.0], expected, strict=True):
        score = 3.0 * c / (3.0 * s + 2.0) + math.sqrt(3.0 / (3.0 * s + 2.0))
        np.testing.assert_allclose(agent.scores(user, product[None, :]), [score], rtol=1e-14)
        agent.update(user, product, reward)


def test_interaction_ucb_forgets_in_stairs_at_every_prefix() -> None:
    rng, period, discount, regularization, alpha = _rng(), 3, 0.9, 0.7, 0.4
    agent = PlainInteractionUCB(2, 3, alpha, regularization, discount, period)
    rows, rewards = [], []
    products = rng.normal(size=(4, 3))
    for t in range(1, 14):
        user, product, reward = rng.normal(size=2), rng.normal(size=3), float(rng.random())
        agent.update(user, product, reward)
        rows.append([*user, *product, *(u * p for u in user for p in product)])
        rewards.append(reward)
        # Update i of t has lived through the stairs at the multiples of `period` in i..t.
        stairs = [t // period - (i - 1) // period for i in range(1, t + 1)]
        X, weight = np.array(rows), discount ** (period * np.array(stairs))
        A = X.T @ (weight[:, None] * X) + regularization * np.eye(11)
        theta = np.linalg.solve(A, X.T @ (weight * np.array(rewards)))
        Q = np.array([[*user, *p, *(u * v for u in user for v in p)] for p in products])
        expected = Q @ theta + alpha * np.sqrt(np.einsum("ki,ij,kj->k", Q, np.linalg.inv(A), Q))
        np.testing.assert_allclose(agent.scores(user, products), expected, rtol=1e-10)
        assert agent.select(user, products) == int(np.argmax(expected))


def test_neural_online_scores_are_lin_ucb_on_the_embedding() -> None:
    weights, features = _network_weights(3, 5, 4), _rng().normal(size=(6, 3))
    agent = PlainNeuralLinearOnline(3, 0.3, 0.0, 5, 4, weights=weights, dtype=torch.float64)
    for arm, reward in [(2, 1.0), (0, 0.0), (5, 1.0)]:
        agent.update(features, arm, reward)
    # With a learning rate of zero the network stands still, so A and b are plain sums of its embeddings.
    z = _embed(weights, features)
    A = np.eye(4) + z[[2, 0, 5]].T @ z[[2, 0, 5]]
    theta = np.linalg.solve(A, z[2] + z[5])
    expected = z @ theta + 0.3 * np.sqrt(np.einsum("ki,ij,kj->k", z, np.linalg.inv(A), z))
    np.testing.assert_allclose(agent.scores(features), expected, rtol=1e-12)
    assert agent.select(features) == int(np.argmax(expected))


def test_neural_online_step_is_the_finite_difference_gradient_with_theta_held() -> None:
    features, learning_rate = _rng().normal(size=(4, 3)), 0.05
    agent = PlainNeuralLinearOnline(3, 0.2, learning_rate, 5, 4, weights=_network_weights(3, 5, 4), dtype=torch.float64)
    A, b = np.eye(4), np.zeros(4)
    for arm, reward in [(1, 1.0), (3, 0.0), (0, 1.0)]:
        before, x = agent.weights(), features[arm]
        agent.update(features, arm, reward)
        z = _embed(before, x)  # stale on purpose: later steps move the network, never this term of A and b
        A, b = A + np.outer(z, z), b + reward * z
        theta: FloatArray = np.linalg.inv(A) @ b

        def loss(weights: Weights, x: FloatArray = x, theta: FloatArray = theta, reward: float = reward) -> float:
            return float((_embed(weights, x) @ theta - reward) ** 2)

        gradients = _central_differences(loss, before)
        for name, weight in agent.weights().items():
            np.testing.assert_allclose(weight, before[name] - learning_rate * gradients[name], atol=1e-9)
        assert any(np.abs(gradient).max() > 1e-2 for gradient in gradients.values())
    np.testing.assert_allclose(agent.A, A, rtol=1e-12)
    np.testing.assert_allclose(agent.b, b, rtol=1e-12)


def test_neural_online_first_reward_of_zero_moves_no_weight() -> None:
    agent = PlainNeuralLinearOnline(3)
    before = agent.weights()
    agent.update(np.ones((2, 3)), 0, 0.0)
    for name, weight in agent.weights().items():
        np.testing.assert_array_equal(weight, before[name])


def test_neural_stable_samples_ring_slots_when_it_is_time() -> None:
    calls: list[tuple[int, int]] = []

    def sample(n_in_memory: int, batch_size: int) -> list[int]:
        calls.append((n_in_memory, batch_size))
        return [2, 0, 1]

    agent = PlainNeuralLinearStable(1, memory=4, batch_size=3, train_every=2, sample=sample)
    features = np.zeros((1, 1))  # one buffer, refilled by the caller: the memory keeps copies
    for t in range(7):
        features[0, 0] = t
        agent.update(features, 0, float(t % 2))
    # Trained after updates 4 and 6; after update 2 the memory held 2 < 3. Updates 4, 5, 6 went to slots 0, 1, 2.
    assert calls == [(4, 3), (4, 3)]
    assert [(x[0], reward) for x, reward in agent.slots] == [(4.0, 0.0), (5.0, 1.0), (6.0, 0.0), (3.0, 1.0)]


def test_neural_stable_first_adam_step_is_the_sign_of_the_sampled_heads_gradient() -> None:
    weights, features, learning_rate = _network_weights(3, 5, 4), _rng().normal(size=(7, 3)), 0.01
    agent = PlainNeuralLinearStable(
        3, 0.3, learning_rate, 5, 4, 5, 3, 7, lambda _n, _k: [4, 1, 0], weights=weights, dtype=torch.float64
    )
    rewards = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0])
    for arm, reward in enumerate(rewards):
        agent.update(features, arm, float(reward))
    # A ring of 5 after updates 0..6: slots 4, 1, 0 hold updates 4, 6, 5.
    batch = [4, 6, 5]

    def loss(moved: Weights) -> float:
        predictions = _embed(moved, features[batch]) @ moved["w3"] + moved["b3"]
        return float(np.mean((predictions - rewards[batch]) ** 2))

    # Adam's first step is -lr g / (|g| + 1e-8) (Kingma and Ba, 2015, with both bias corrections at t = 1); below
    # 1e-3 the error of the difference would show through that ratio.
    gradients = _central_differences(loss, weights)
    n_checked = 0
    for name, weight in agent.weights().items():
        g = gradients[name]
        clear = np.abs(g) > 1e-3
        step = -learning_rate * g / (np.abs(g) + 1e-8)
        np.testing.assert_allclose((weight - weights[name])[clear], step[clear], atol=1e-9)
        np.testing.assert_array_equal(weight[g == 0.0], weights[name][g == 0.0])
        n_checked += int(clear.sum())
    assert n_checked > 20
    # A and b are sums over the network as it was before the step.
    z = _embed(weights, features)
    np.testing.assert_allclose(agent.A, np.eye(4) + z.T @ z, rtol=1e-12)
    np.testing.assert_allclose(agent.b, z.T @ rewards, rtol=1e-12)


def test_neural_stable_default_minibatch_trains_and_repeats_no_slot() -> None:
    agent = PlainNeuralLinearStable(2, memory=6, batch_size=4, train_every=1)
    for _ in range(20):
        slots = agent.sample(6, 4)
        assert len(set(slots)) == 4
        assert set(slots) <= set(range(6))
    before, features = agent.weights(), _rng().normal(size=(8, 2))
    for arm in range(8):
        agent.update(features, arm, 1.0)
    assert not np.array_equal(agent.weights()["w3"], before["w3"])


def test_neural_default_dtype_is_close_to_double() -> None:
    weights, features = _network_weights(9, 64, 32), _rng().normal(size=(50, 9))
    single = PlainNeuralLinearOnline(9, weights=weights)
    double = PlainNeuralLinearOnline(9, weights=weights, dtype=torch.float64)
    assert single.layer_1.weight.dtype == torch.float32
    np.testing.assert_allclose(single.scores(features), double.scores(features), rtol=1e-4)


def test_static_mlp_scores_are_the_numpy_forward() -> None:
    rng = _rng()
    shapes: dict[str, tuple[int, ...]] = {
        "users": (3, 32),
        "products": (5, 32),
        "w1": (64, 64),
        "b1": (64,),
        "w2": (64, 32),
        "b2": (32,),
        "w3": (32,),
        "b3": (),
    }
    weights = {name: np.asarray(rng.normal(0.0, 0.2, shape)) for name, shape in shapes.items()}
    agent = PlainStaticMLP(3, 5, weights)
    for user_id in range(3):
        pair = np.hstack([np.tile(weights["users"][user_id], (5, 1)), weights["products"]])
        hidden = np.maximum(pair @ weights["w1"] + weights["b1"], 0.0)
        hidden = np.maximum(hidden @ weights["w2"] + weights["b2"], 0.0)
        expected = 1.0 / (1.0 + np.exp(-(hidden @ weights["w3"] + weights["b3"])))
        np.testing.assert_allclose(agent.scores(user_id), expected, rtol=1e-5)
        agent.update(user_id, 0, 1.0)
        assert agent.select(user_id) == int(np.argmax(expected))


def test_ties_go_to_the_lowest_index() -> None:
    flat = {name: np.zeros_like(weight) for name, weight in _network_weights(2, 64, 32).items()}
    features = np.ones((4, 2))
    assert PlainLinUCB(4, 2, 1.0).select(features) == 0
    assert PlainInteractionUCB(2, 2, 1.0, 1.0, 1.0, 1).select(np.ones(2), features) == 0
    assert PlainNeuralLinearOnline(2, weights=flat).select(features) == 0
    assert PlainNeuralLinearStable(2, weights=flat).select(features) == 0


def test_agents_leave_their_inputs_alone() -> None:
    features = _rng().normal(size=(4, 3))
    kept = features.copy()
    agents: list[PlainLinUCB | PlainNeuralLinearOnline | PlainNeuralLinearStable] = [
        PlainLinUCB(4, 3, 1.0),
        PlainNeuralLinearOnline(3, dtype=torch.float64),
        PlainNeuralLinearStable(3, batch_size=1, train_every=1, dtype=torch.float64),
    ]
    for agent in agents:
        agent.update(features, agent.select(features), 1.0)
        np.testing.assert_array_equal(features, kept)


@pytest.mark.parametrize("n_arms", [1, 3])
def test_random_reaches_every_arm(n_arms: int) -> None:
    agent = PlainRandom(n_arms, _rng())
    assert {agent.select(np.zeros((n_arms, 2))) for _ in range(100)} == set(range(n_arms))
