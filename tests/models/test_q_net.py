"""The network of action values: its goals and slopes against plain numpy."""

import numpy as np
import pytest

from zoosim.models.q_net import (
    DRAWN,
    QNet,
    averaged,
    forget_kind,
    new_q_net,
    new_transitions,
    next_place,
    train,
    write_kind_values,
)

DIM, KINDS, HIDDEN = 3, 4, 5


def network(rng: np.random.Generator, rows: int = 6, **params: float) -> QNet:
    """Return a network with weights drawn at random, and a memory of transitions."""
    chosen = {
        "discount": 0.9,
        "trail": 0.5,
        "averaging": 0.25,
        "weight_decay": 0.0,
        "longest_error": 1e6,
        "pessimism": 0.0,
        **params,
    }
    net = new_q_net((HIDDEN,), new_transitions(8, DIM, KINDS), key=np.uint64(1), rng=rng, **chosen)
    for params_of in (net.trained[0], net.target, net.average):
        params_of[:] = rng.normal(size=len(params_of))
    for _ in range(rows):
        place = next_place(net)
        net.memory.states[place] = rng.normal(size=DIM)
        net.memory.next_states[place] = rng.normal(size=DIM)
        net.memory.kinds[place] = rng.integers(KINDS)
        net.memory.rewards[place] = rng.normal()
        net.memory.ends[place] = place == 2
        net.memory.next_open[place] = rng.integers(2, size=KINDS)
        net.memory.offered[place] = rng.integers(2, size=KINDS)
        net.memory.offered[place, net.memory.kinds[place]] = 1
    return net


def action_values(params: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return Q `(n, KINDS)` as Wang et al. (2016), equation 9, writes it, by matrices stored by input."""
    params = params.astype(float)
    hidden = params[: DIM * HIDDEN].reshape(DIM, HIDDEN)
    start = DIM * HIDDEN + HIDDEN
    out = params[start : start + HIDDEN * (1 + KINDS)].reshape(HIDDEN, 1 + KINDS)
    top = np.maximum(states @ hidden + params[DIM * HIDDEN : start], 0) @ out + params[start + out.size :]
    return np.asarray(top[:, :1] + top[:, 1:] - top[:, 1:].mean(axis=1, keepdims=True))


def loss(net: QNet, params: np.ndarray) -> float:
    """Return the mean squared error, halved, of all held transitions from their double-DQN goals, and the pessimism."""
    memory = net.memory
    held = int(net.counts[DRAWN])
    ahead = np.where(memory.next_open == 1, action_values(net.trained[0], memory.next_states), -np.inf)[:held]
    best = ahead.argmax(axis=1)
    after = action_values(net.target, memory.next_states)[np.arange(held), best]
    follows = (memory.ends[:held] == 0) & memory.next_open[:held].any(axis=1)
    goals = memory.rewards[:held] + net.discount * np.where(follows, after, 0.0)
    of_all = action_values(params, memory.states)[:held]
    values = of_all[np.arange(held), memory.kinds[:held]]
    likely = np.log((np.exp(of_all) * memory.offered[:held]).sum(axis=1))
    return float(np.mean(0.5 * (values - goals) ** 2 + net.pessimism * (likely - values)))


def test_values_are_those_of_the_dueling_form_by_the_trailing_network_or_by_the_averaged_one() -> None:
    net = network(np.random.default_rng(3))
    user = np.array([0.3, -1.0, 2.0])
    values = np.empty(2)
    for decides, weights in ((net, net.target), (averaged(net), net.average)):
        write_kind_values(decides, user, np.array([3, 0]), values)
        np.testing.assert_allclose(values, action_values(weights, user[np.newaxis])[0, [3, 0]], rtol=1e-5)


@pytest.mark.parametrize("pessimism", [0.0, 2.0])
def test_a_step_goes_down_the_loss_of_conservative_double_q_learning(pessimism: float) -> None:
    # One row is all that can be drawn, so that the batch is known; Adam's first step is the slope's sign.
    net = network(np.random.default_rng(4), rows=1, pessimism=pessimism)
    before = net.trained[0].astype(float)
    slopes = np.array(
        [(loss(net, before + step) - loss(net, before - step)) / 2e-4 for step in 1e-4 * np.eye(len(before))]
    )
    target = net.target.copy()
    train(net, 1, 4, 0.01)
    moved = net.trained[0] - before
    np.testing.assert_allclose(moved[np.abs(slopes) > 1e-3], -0.01 * np.sign(slopes[np.abs(slopes) > 1e-3]), rtol=1e-3)
    assert np.count_nonzero(np.abs(slopes) > 1e-3) > 10
    np.testing.assert_allclose(net.target, 0.5 * (target + net.trained[0]), atol=1e-6)


def test_decay_takes_a_share_of_the_weights_apart_from_the_loss() -> None:
    plain, decayed = (network(np.random.default_rng(8), weight_decay=decay) for decay in (0.0, 0.5))
    before = plain.trained[0].copy()
    for net in (plain, decayed):
        train(net, 1, 4, 0.01)
    np.testing.assert_allclose(decayed.trained[0], plain.trained[0] - 0.01 * 0.5 * before, atol=1e-6)


def test_an_average_reaches_further_back_the_more_steps_there_were() -> None:
    net = network(np.random.default_rng(7))
    average = net.average.astype(float)
    for step in range(1, 41):
        train(net, 1, 4, 0.01)
        # 5/(16 + 4) = .25, which it is from then on.
        average += (5 / (step + 4) if step < 16 else 0.25) * (net.trained[0] - average)
    np.testing.assert_allclose(net.average, average, atol=1e-5)


def test_training_on_a_memory_lowers_the_loss() -> None:
    net = network(np.random.default_rng(5), discount=0.0)
    first = loss(net, net.trained[0])
    train(net, 400, 16, 0.01)
    assert loss(net, net.trained[0]) < 0.1 * first


def test_a_number_that_goes_to_another_kind_is_worth_what_an_unknown_one_is() -> None:
    net = network(np.random.default_rng(6))
    forget_kind(net, 2)
    values = np.empty(2)
    write_kind_values(net, np.array([1.0, 0.5, -1.0]), np.array([0, 2]), values)
    assert values[0] == values[1]
