"""The compiled network against finite differences, torch's autograd and torch's Adam."""

from typing import Any

import numpy as np
import pytest
import torch

from zoosim.core.types import FloatArray
from zoosim.models.embedding_net import (
    Float32Array,
    Network,
    adam_step,
    backpropagate,
    fit_batch,
    forward,
    layers,
    new_params,
    rectify,
    size_of,
)

FIELDS = ("w1", "b1", "w2", "b2", "w3", "b3")


def network(dim: int, hidden: int, embedding: int, seed: int = 0) -> Network:
    return layers(new_params(dim, hidden, embedding, rng=np.random.default_rng(seed)), dim, hidden, embedding)


def trained(dim: int, hidden: int, embedding: int) -> Float32Array:
    """Return fresh weights with moments of zero, `(3, p)`."""
    params = new_params(dim, hidden, embedding, rng=np.random.default_rng(0))
    return np.stack([params, 0 * params, 0 * params])


def run_forward(net: Network, xs: FloatArray) -> tuple[Float32Array, Float32Array]:
    """Return hidden layer and embedding of each row."""
    hidden = np.empty((len(xs), len(net.b1)), np.float32)
    z = np.empty((len(xs), len(net.b2)), np.float32)
    forward(net, xs.astype(np.float32), hidden, z)
    return hidden, z


def rows(n: int, dim: int, seed: int = 1) -> FloatArray:
    """Return features with zeros among them."""
    rng = np.random.default_rng(seed)
    return np.asarray(rng.normal(0, 1, (n, dim)) * (rng.random((n, dim)) < 0.7))


def torch_weights(net: Network) -> dict[str, Any]:
    return {name: torch.tensor(getattr(net, name), dtype=torch.float64, requires_grad=True) for name in FIELDS}


def torch_embed(w: dict[str, Any], xs: FloatArray) -> Any:
    return torch.relu(torch.as_tensor(xs) @ w["w1"] + w["b1"]) @ w["w2"] + w["b2"]


def torch_loss(w: dict[str, Any], xs: FloatArray, targets: FloatArray) -> Any:
    return ((torch_embed(w, xs) @ w["w3"] + w["b3"] - torch.as_tensor(targets)) ** 2).mean()


def numpy_embed(net: Network, xs: FloatArray) -> FloatArray:
    w1, b1, w2, b2 = (np.asarray(array, np.float64) for array in net[:4])
    return np.asarray(np.maximum(xs @ w1 + b1, 0) @ w2 + b2)


def test_the_layers_are_views_of_one_vector() -> None:
    params = new_params(5, 7, 3, rng=np.random.default_rng(0))
    assert params.size == size_of(5, 7, 3) == 5 * 7 + 7 + 7 * 3 + 3 + 3 + 1
    net = layers(params, 5, 7, 3)
    assert all(np.shares_memory(array, params) for array in net)
    assert [array.shape for array in net] == [(5, 7), (7,), (7, 3), (3,), (3,), (1,)]
    params[:] = np.arange(params.size)
    assert np.array_equal(np.concatenate([array.ravel() for array in net]), params)


def test_fresh_weights_start_as_those_of_torch_do() -> None:
    """Uniform in +-1/sqrt(inputs): bounds, and a variance of bound^2 / 3 within 5 standard errors."""
    net = network(50, 64, 32)
    for array, inputs in zip(net, [50, 50, 64, 64, 32, 32], strict=True):
        bound = 1 / np.sqrt(inputs)
        assert np.abs(array).max() <= np.float32(bound)
        if array.size > 1_000:
            se = bound**2 * np.sqrt(4 / 45 / array.size)  # the variance of u^2 is bound^4 (1/5 - 1/9)
            assert abs(float((array.astype(np.float64) ** 2).mean()) - bound**2 / 3) < 5 * se
    assert np.array_equal(network(50, 64, 32).w1, net.w1)
    assert not np.array_equal(network(50, 64, 32, seed=1).w1, net.w1)


def test_forward_of_a_hand_sized_network() -> None:
    # x = (2, -1): hidden before ReLU (2*1 - 1*3 + 0.5, 2*2 - 1*1 - 1) = (-0.5, 2), after (0, 2);
    # embedding (0*5 + 2*4 + 1) = 9.
    net = network(2, 2, 1)
    net.w1[:], net.b1[:] = [[1, 2], [3, 1]], [0.5, -1]
    net.w2[:], net.b2[:] = [[5], [4]], [1]
    hidden, z = run_forward(net, np.array([[2.0, -1.0]]))
    assert hidden.tolist() == [[0.0, 2.0]]
    assert z.tolist() == [[9.0]]


def test_forward_is_numpys() -> None:
    net, xs = network(9, 16, 6), rows(40, 9)
    np.testing.assert_allclose(run_forward(net, xs)[1], numpy_embed(net, xs), atol=2e-6)


def test_rectify_cuts() -> None:
    out = np.array([-1.0, 0.0, 2.0], np.float32)
    rectify(out)
    assert out.tolist() == [0.0, 0.0, 2.0]


def run_backpropagate(net: Network, xs: FloatArray, slopes: FloatArray) -> Network:
    """Return the gradient that starts from zeros."""
    dim, (hidden, embedding) = xs.shape[1], net.w2.shape
    grad = layers(np.zeros(size_of(dim, hidden, embedding), np.float32), dim, hidden, embedding)
    backpropagate(net, grad, xs.astype(np.float32), run_forward(net, xs)[0], slopes.astype(np.float32))
    return grad


def test_backpropagate_against_finite_differences() -> None:
    """The slope of the sum of s_n . z(x_n) by each weight below the head, in float64 with a step of 1e-6."""
    net, xs = network(6, 8, 4), rows(3, 6)
    slopes = np.random.default_rng(3).normal(0, 1, (3, 4))
    grad = run_backpropagate(net, xs, slopes)
    below = {name: np.asarray(getattr(net, name), np.float64) for name in FIELDS[:4]}
    for name in FIELDS[:4]:
        expected = np.zeros_like(below[name])
        for index in np.ndindex(expected.shape):
            sides = []
            for step in (1e-6, -1e-6):
                w = {key: array.copy() for key, array in below.items()}
                w[name][index] += step
                sides.append(np.sum(slopes * (np.maximum(xs @ w["w1"] + w["b1"], 0) @ w["w2"] + w["b2"])))
            expected[index] = (sides[0] - sides[1]) / 2e-6
        np.testing.assert_allclose(getattr(grad, name), expected, atol=1e-5)
    assert not grad.w3.any()
    assert not grad.b3.any()
    assert all(np.abs(getattr(grad, name)).max() > 0.01 for name in FIELDS[:4])


def test_the_gradient_of_a_batch_is_that_of_torch() -> None:
    """Adam's first moment after its first step is a tenth of the gradient."""
    both, xs, targets = trained(7, 16, 5), rows(6, 7), np.random.default_rng(4).random(6)
    net = layers(both[0].copy(), 7, 16, 5)
    weights = torch_weights(net)
    torch_loss(weights, xs, targets).backward()
    fit_batch(both, 16, xs.astype(np.float32), targets.astype(np.float32), 0.01, 1)
    for name, moment in zip(FIELDS, layers(both[1], 7, 16, 5), strict=True):
        expected = weights[name].grad.numpy()
        assert np.abs(expected).max() > 1e-3
        np.testing.assert_allclose(10 * moment, expected, atol=2e-6)


def test_training_follows_torch_step_by_step() -> None:
    """60 Adam steps on minibatches, float32 against float64."""
    both, xs, rng = trained(7, 16, 5), rows(80, 7), np.random.default_rng(6)
    net = layers(both[0], 7, 16, 5)
    targets = (xs[:, 0] * xs[:, 1] > 0).astype(np.float64)
    weights = torch_weights(net)
    optimizer = torch.optim.Adam(list(weights.values()), lr=0.01)
    losses = []
    for step in range(1, 61):
        batch = rng.permutation(80)[:16]
        optimizer.zero_grad()
        loss = torch_loss(weights, xs[batch], targets[batch])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        fit_batch(both, 16, xs[batch].astype(np.float32), targets[batch].astype(np.float32), 0.01, step)
        for name in FIELDS:
            np.testing.assert_allclose(getattr(net, name), weights[name].detach().numpy(), atol=2e-4)
    assert np.mean(losses[-10:]) < 0.7 * np.mean(losses[:10])


@pytest.mark.parametrize("rate", [0.001, 0.1])
def test_adam_is_that_of_torch(rate: float) -> None:
    """300 given gradients over many orders of magnitude, zeros among them."""
    rng, size = np.random.default_rng(9), 40
    both = np.zeros((3, size), np.float32)
    both[0] = rng.normal(0, 1, size)
    twin = torch.tensor(both[0].copy(), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([twin], lr=rate)
    for step in range(1, 301):
        scale = 10.0 ** rng.uniform(-5, 2, size)
        grad = (rng.normal(0, 1, size) * scale * (rng.random(size) < 0.8)).astype(np.float32)
        grad[0] = 0.0
        twin.grad = torch.tensor(grad, dtype=torch.float64)
        optimizer.step()
        adam_step(both, grad, rate, step)
        np.testing.assert_allclose(both[0], twin.detach().numpy(), atol=rate * 1e-4 * step**0.5 + 1e-6)


def test_the_first_step_of_adam_is_the_rate() -> None:
    # After one step m = .1 g and v = .001 g^2; corrected by .1 and .001, m / sqrt(v) is the sign of g.
    both, grad = np.zeros((3, 3), np.float32), np.array([4.0, -1e-3, 0.0], np.float32)
    adam_step(both, grad, 0.01, 1)
    np.testing.assert_allclose(both[0], [-0.01, 0.01, 0.0], rtol=1e-4)
