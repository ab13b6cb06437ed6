"""The embedding network against torch's autograd and torch's Adam."""

from typing import Any

import numpy as np
import torch

from tests.models.embedding_parts import Network, network
from zoosim.core.types import Float32Array, FloatArray, IntArray
from zoosim.models.embedding_net import embed, embedding_gradient, embedding_layers, new_params
from zoosim.nets.heads import fit_heads
from zoosim.nets.network import with_moments

FIELDS = ("w1", "b1", "w2", "b2", "w3", "b3")


def trained(dim: int, hidden: int, embedding: int) -> Float32Array:
    """Return fresh weights with moments of zero, `(3, p)`."""
    return with_moments(new_params(dim, hidden, embedding, rng=np.random.default_rng(0)))


def fit_batch(
    both: Float32Array, layers: IntArray, xs: Float32Array, targets: FloatArray, batch: IntArray, step: int
) -> None:
    """Take a step of rate .01 on the mean squared error of the rows of a batch, all read by the one head."""
    heads, weights = np.zeros(len(batch), np.int64), np.full(len(batch), 1 / len(batch))
    none = np.empty((0, 0), np.float32)
    fit_heads(both, layers, xs, batch, heads, none, none, targets[batch], weights, 0.01, step)


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


def test_embeddings_of_a_hand_sized_network() -> None:
    # x = (2, -1): hidden before ReLU (2*1 - 1*3 + 0.5, 2*2 - 1*1 - 1) = (-0.5, 2), after (0, 2);
    # embedding (0*5 + 2*4 + 1) = 9.
    params, layers = np.array([1, 2, 3, 1, 0.5, -1, 5, 4, 1, 0, 0], np.float32), embedding_layers(2, 2, 1)
    z = np.empty((1, 1))
    embed(params, layers, np.array([[2.0, -1.0]], np.float32), z)
    assert z.tolist() == [[9.0]]


def test_embeddings_of_many_rows_are_those_of_torch() -> None:
    params, layers, xs = new_params(9, 16, 6, rng=np.random.default_rng(0)), embedding_layers(9, 16, 6), rows(150, 9)
    z = np.empty((150, 6))
    embed(params, layers, xs.astype(np.float32), z)
    expected = torch_embed(torch_weights(network(params, layers)), xs).detach().numpy()
    np.testing.assert_allclose(z, expected, atol=2e-6)


def test_the_gradient_of_a_slope_is_that_of_torch() -> None:
    """Of s . z(x), in all weights below the head."""
    params, layers, xs = new_params(6, 8, 4, rng=np.random.default_rng(0)), embedding_layers(6, 8, 4), rows(1, 6)
    slope = np.random.default_rng(3).normal(0, 1, 4)
    gradient = np.zeros_like(params)
    embedding_gradient(params, layers, xs.astype(np.float32), slope, gradient)
    weights = torch_weights(network(params, layers))
    (torch_embed(weights, xs)[0] @ torch.as_tensor(slope)).backward()
    found = network(gradient, layers)
    for name in FIELDS[:4]:
        assert np.abs(getattr(found, name)).max() > 0.01
        np.testing.assert_allclose(getattr(found, name), weights[name].grad.numpy(), atol=1e-6)
    assert not found.w3.any()
    assert not found.b3.any()


def test_the_gradient_of_a_batch_is_that_of_torch() -> None:
    """Adam's first moment after its first step is a tenth of the gradient."""
    both, xs, targets = trained(7, 16, 5), rows(6, 7), np.random.default_rng(4).random(6)
    layers = embedding_layers(7, 16, 5)
    weights = torch_weights(network(both[0].copy(), layers))
    torch_loss(weights, xs, targets).backward()
    fit_batch(both, layers, xs.astype(np.float32), targets, np.arange(6), 1)
    for name, moment in zip(FIELDS, network(both[1], layers), strict=True):
        expected = weights[name].grad.numpy()
        assert np.abs(expected).max() > 1e-3
        np.testing.assert_allclose(10 * moment, expected, atol=2e-6)


def test_training_follows_torch_step_by_step() -> None:
    """60 Adam steps on minibatches, float32 against float64."""
    both, xs, rng = trained(7, 16, 5), rows(80, 7), np.random.default_rng(6)
    layers = embedding_layers(7, 16, 5)
    net = network(both[0], layers)
    singles = xs.astype(np.float32)
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
        fit_batch(both, layers, singles, targets, batch, step)
        for name in FIELDS:
            np.testing.assert_allclose(getattr(net, name), weights[name].detach().numpy(), atol=2e-4)
    assert np.mean(losses[-10:]) < 0.7 * np.mean(losses[:10])
