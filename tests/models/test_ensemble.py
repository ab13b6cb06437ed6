"""The compiled ensemble: against plain numpy at every width, finite differences, and torch's autograd and Adam."""

from typing import Any

import numpy as np
import pytest
import torch

from zoosim.core.types import FloatArray
from zoosim.models.ensemble_net import Ensemble, ensemble_layers, predict_rows
from zoosim.models.ensemble_objective import EnsembleObjective
from zoosim.models.ensemble_training import _occurrences, bootstrap_weights, fit, new_weights
from zoosim.models.moments import Moments
from zoosim.nets.network import count_weights

HIDDEN = ([5], [7, 6], [64, 64], [3, 9, 4])
STATES, ACTIONS, MEMBERS = 3, 2, 4


def network(hidden: list[int]) -> Ensemble:
    rng = np.random.default_rng(len(hidden))
    layers = ensemble_layers([STATES + ACTIONS, *hidden, 1])
    trained = new_weights(layers, MEMBERS, rng=rng)
    centre, scale = rng.normal(size=5), rng.uniform(0.5, 2, 5)
    return Ensemble(trained, layers, STATES, centre, scale, np.array([3.0, 10.0]))


def parts_of(net: Ensemble, member: int) -> list[FloatArray]:
    """Return matrices and biases, in turns."""
    place, parts = 0, []
    for n, m in net.layers[:, :2].tolist():
        for size, shape in ((m * n, (m, n)), (m, (m,))):
            parts.append(net.trained[member, 0, place : place + size].reshape(shape).astype(float))
            place += size
    return parts


def plain(net: Ensemble, rows: FloatArray) -> FloatArray:
    """Return what the members put out, `(M, n)`, by plain matrix products in double precision."""
    outputs = []
    for member in range(len(net.trained)):
        a, parts = (rows - net.centre) * net.scale, parts_of(net, member)
        for matrix, bias in zip(parts[::2], parts[1::2], strict=True):
            z = a @ matrix.T + bias
            a = 0.5 * z * (1 + z / np.sqrt(z * z + 4))
        outputs.append(z[:, 0])
    values: FloatArray = net.reward[0] + net.reward[1] * np.array(outputs)
    return values


def predicted(net: Ensemble, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    mean, std = np.empty(len(rows)), np.empty(len(rows))
    predict_rows(net, rows, mean, std)
    return mean, std


@pytest.mark.parametrize("hidden", HIDDEN, ids=str)
def test_mean_and_population_deviation_equal_plain_numpy(hidden: list[int]) -> None:
    net, rows = network(hidden), np.random.default_rng(0).normal(size=(130, 5))
    mean, std = predicted(net, rows)
    np.testing.assert_allclose(mean, plain(net, rows).mean(axis=0), rtol=0, atol=1e-4)
    np.testing.assert_allclose(std, plain(net, rows).std(axis=0), rtol=0, atol=1e-4)


@pytest.mark.parametrize("hidden", HIDDEN, ids=str)
def test_a_row_has_the_same_bits_in_every_batch(hidden: list[int]) -> None:
    net, rng = network(hidden), np.random.default_rng(1)
    states, actions = rng.normal(size=(3, STATES)), rng.normal(size=(3, 130, ACTIONS))
    rows = np.concatenate([np.repeat(states, 130, axis=0), actions.reshape(-1, ACTIONS)], axis=1)
    whole = predicted(net, rows)
    for width in (1, 2, 3, 63, 64, 65, 129):
        assert [part[:width].tolist() for part in whole] == [part.tolist() for part in predicted(net, rows[:width])]
        together = EnsembleObjective(net, states, 0.5).mean_std(actions[:, :width])
        for i in range(3):
            one = EnsembleObjective(net, states[i], 0.5)
            for part, many, all_rows in zip(one.mean_std(actions[i, :width]), together, whole, strict=True):
                assert part.tolist() == many[i].tolist() == all_rows.reshape(3, 130)[i, :width].tolist()
            assert one(actions[i, :width]).tolist() == one(actions[i])[:width].tolist()


def as_torch(net: Ensemble, member: int) -> list[torch.Tensor]:
    return [torch.tensor(part, requires_grad=True) for part in parts_of(net, member)]


def loss_of(
    parts: list[torch.Tensor], net: Ensemble, rows: FloatArray, targets: FloatArray, weights: FloatArray
) -> Any:
    a = torch.tensor((rows - net.centre) * net.scale)
    for matrix, bias in zip(parts[::2], parts[1::2], strict=True):
        z = a @ matrix.T + bias
        a = 0.5 * z * (1 + z / torch.sqrt(z * z + 4))
    return (torch.tensor(weights) * (z[:, 0] - torch.tensor(targets)) ** 2).mean()


@pytest.mark.parametrize("hidden", HIDDEN, ids=str)
def test_training_equals_torch(hidden: list[int]) -> None:
    """One batch an epoch, so that the order does not matter; 4 steps of Adam in double precision."""
    net, rng = network(hidden), np.random.default_rng(3)
    rows, targets = rng.normal(size=(20, 5)), rng.normal(size=20)
    weights = rng.exponential(size=(MEMBERS, 20)).astype(np.float32)
    before = [as_torch(net, member) for member in range(MEMBERS)]
    steps = np.zeros(2, np.int64)
    fit(net, rows, targets, weights, np.uint64(1), steps, 4, 32, 0.01)
    assert steps.tolist() == [4, 4]
    for member, parts in enumerate(before):
        adam = torch.optim.Adam(parts, lr=0.01)
        for _ in range(4):
            adam.zero_grad()
            loss_of(parts, net, rows, targets, weights[member].astype(float)).backward()
            adam.step()
        for ours, theirs in zip(parts_of(net, member), parts, strict=True):
            np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=0, atol=2e-4)


def test_batches_hold_every_row_once_an_epoch() -> None:
    """Only rows of weight above 0 move weights: with batches of 1 and one such row a member, one step in 9 does."""
    layers = ensemble_layers([5, 1])
    net = Ensemble(np.zeros((2, 3, count_weights(layers)), np.float32), layers, 3, np.zeros(5), np.ones(5), np.ones(2))
    weights = np.zeros((2, 9), np.float32)
    weights[0, 4] = weights[1, 7] = 1.0
    steps = np.zeros(2, np.int64)
    fit(net, np.eye(9, 5) + 1.0, np.ones(9), weights, np.uint64(5), steps, 1, 1, 0.01)
    assert steps.tolist() == [9, 1]
    assert (net.trained[:, 1] != 0).all()


def test_bootstrap_weights_belong_to_rows() -> None:
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(4_000, 3))
    weights = bootstrap_weights(np.uint64(9), rows, 3)
    order = rng.permutation(4_000)
    assert np.array_equal(bootstrap_weights(np.uint64(9), rows[order], 3), weights[:, order])
    assert not np.array_equal(bootstrap_weights(np.uint64(8), rows, 3), weights)
    # Exp(1) has mean 1 and sd 1; the mean of 12,000 has a standard error of .0091, members do not correlate
    assert abs(float(weights.mean()) - 1) < 4 * 0.0091
    assert abs(float(weights.std()) - 1) < 0.05
    assert np.abs(np.corrcoef(weights) - np.eye(3)).max() < 4 / np.sqrt(4_000)


def test_equal_rows_have_weights_of_their_own() -> None:
    weights = bootstrap_weights(np.uint64(9), np.ones((5, 2)), 2)
    assert len(np.unique(weights)) == 10
    assert np.array_equal(bootstrap_weights(np.uint64(9), np.ones((3, 2)), 2), weights[:, :3])
    assert _occurrences(np.array([7, 5, 7, 7, 5], np.uint64)).tolist() == [0, 0, 1, 2, 1]


def test_moments_equal_those_of_all_rows_at_once() -> None:
    rows = np.random.default_rng(5).normal(3, 2, size=(50, 2))
    rows[:, 1] = 4.0
    moments = Moments.none(2).joined(rows[:1]).joined(rows[1:20]).joined(rows[20:])
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.deviation(), [rows[:, 0].std(), 1.0], rtol=1e-12)
