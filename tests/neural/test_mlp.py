"""The perceptron: outputs and gradients against numpy, finite differences and torch; training against torch's Adam."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.func import functional_call, grad

from zoosim.core.types import FloatArray, IntArray
from zoosim.nets.heads import fit_heads
from zoosim.nets.network import fresh_weights
from zoosim.neural import mlp

SIZES = ([3, 1], [9, 64, 1], [4, 7, 5, 1], [9, 128, 64, 1])


def network(sizes: list[int]) -> tuple[IntArray, FloatArray, FloatArray]:
    rng = np.random.default_rng(len(sizes))
    shape = np.array(sizes)
    return shape, fresh_weights(mlp.perceptron(shape), rng=rng), rng.normal(size=(6, sizes[0]))


def outputs(params: FloatArray, sizes: IntArray, xs: FloatArray) -> FloatArray:
    """Return the outputs by plain matrix products."""
    place, a = 0, xs
    for n, m in pairwise(sizes):
        w = params[place : place + m * (n + 1)].reshape(m, n + 1)
        a, place = a @ w[:, :n].T + w[:, n], place + m * (n + 1)
        a = np.maximum(a, 0) if place < len(params) else a
    return np.asarray(a[:, 0])


def gradients(params: FloatArray, sizes: IntArray, xs: FloatArray, scale: float = 1.0) -> tuple[FloatArray, FloatArray]:
    factors, out = np.zeros((len(xs), mlp.count_factors(sizes))), np.zeros(len(xs))
    mlp.factorise_rows(params, mlp.perceptron(sizes), xs, scale, factors, out)
    jacobian = np.zeros((len(xs), len(params)))
    for row, target in zip(factors, jacobian, strict=True):
        mlp.expand(row, sizes, 0, target)
    return jacobian, out


def as_torch(params: FloatArray, sizes: IntArray) -> torch.nn.Sequential:
    layers: list[torch.nn.Module] = []
    place = 0
    for n, m in pairwise(sizes.tolist()):
        w = torch.tensor(params[place : place + m * (n + 1)].reshape(m, n + 1))
        layer = torch.nn.Linear(n, m, dtype=torch.float64)
        layer.load_state_dict({"weight": w[:, :n], "bias": w[:, n]})
        layers, place = [*layers, layer, torch.nn.ReLU()], place + m * (n + 1)
    return torch.nn.Sequential(*layers[:-1])


def flat(parts: list[torch.Tensor]) -> FloatArray:
    """Put weights and biases, in turns, in the order of ours."""
    pairs = [np.hstack([w.numpy(), b.numpy()[:, None]]).ravel() for w, b in zip(parts[::2], parts[1::2], strict=True)]
    return np.concatenate(pairs)


def test_sizes_are_those_of_the_publications() -> None:
    assert [mlp.count_weights(np.array(sizes)) for sizes in ([9, 64, 1], [9, 128, 64, 1])] == [705, 9_601]
    assert [mlp.count_factors(np.array(sizes)) for sizes in ([9, 64, 1], [9, 128, 64, 1])] == [138, 394]


def test_a_network_worked_out_by_hand() -> None:
    """Units relu(2 - 1 + 1) = 2 and relu(-2 + 0) = 0; output 3 * 2 + 5 * 0 - 1 = 5; the second unit has no slope."""
    sizes, params = np.array([1, 2, 1]), np.array([1.0, 1.0, -2.0, 0.0, 3.0, 5.0, -1.0])
    jacobian, out = gradients(params, sizes, np.array([[1.0]]))
    assert out.tolist() == [5.0]
    assert jacobian.tolist() == [[3.0, 3.0, 0.0, 0.0, 2.0, 0.0, 1.0]]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_outputs_and_gradients_equal_finite_differences(sizes: list[int]) -> None:
    shape, params, xs = network(sizes)
    jacobian, out = gradients(params, shape, xs)
    np.testing.assert_allclose(out, outputs(params, shape, xs), rtol=0, atol=1e-13)
    places, step = np.random.default_rng(1).choice(len(params), min(len(params), 80), replace=False), 1e-6
    for i in places:
        moved = np.array([params, params])
        moved[:, i] += [step, -step]
        slope = (outputs(moved[0], shape, xs) - outputs(moved[1], shape, xs)) / (2 * step)
        np.testing.assert_allclose(jacobian[:, i], slope, rtol=0, atol=1e-8)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_gradients_equal_those_of_torch(sizes: list[int]) -> None:
    shape, params, xs = network(sizes)
    net = as_torch(params, shape)
    weights = {name: value.detach() for name, value in net.named_parameters()}
    slopes = grad(lambda w, x: functional_call(net, w, (x,))[0])
    jacobian, _ = gradients(params, shape, xs, scale=0.5)
    for x, row in zip(xs, jacobian, strict=True):
        np.testing.assert_allclose(2 * row, flat(list(slopes(weights, torch.tensor(x)).values())), rtol=0, atol=1e-13)


def test_the_last_layers_alone() -> None:
    shape, params, xs = network([4, 7, 5, 1])
    jacobian, _ = gradients(params, shape, xs)
    factors = np.zeros((1, mlp.count_factors(shape)))
    mlp.factorise_rows(params, mlp.perceptron(shape), xs[:1], 1.0, factors, np.zeros(1))
    for first, kept in ((1, 46), (2, 6)):
        part = np.zeros(kept)
        mlp.expand(factors[0], shape, first, part)
        assert np.array_equal(part, jacobian[0, -kept:])


def test_steps_of_adam_equal_those_of_torch() -> None:
    """Three steps on weighted squared errors; weights of 0 count for nothing."""
    shape, params, xs = network([4, 7, 5, 1])
    weights, targets = np.array([1.0, 2.0, 0.0, 0.5, 3.0, 1.0]), np.linspace(0, 1, 6)
    trained = np.stack([params, np.zeros_like(params), np.zeros_like(params)])
    net = as_torch(params, shape)
    adam = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in (1, 2, 3):
        data = (
            xs,
            np.arange(6),
            np.zeros(6, np.int64),
            np.empty((0, 0)),
            np.empty((0, 0)),
            targets,
            weights / weights.sum(),
        )
        fit_heads(trained, mlp.perceptron(shape)[:-1], *data, 0.01, step)
        adam.zero_grad()
        errors = torch.tensor(weights) * (net(torch.tensor(xs))[:, 0] - torch.tensor(targets)) ** 2
        (errors.sum() / weights.sum()).backward()
        adam.step()
    np.testing.assert_allclose(trained[0], flat([p.detach() for p in net.parameters()]), rtol=0, atol=1e-12)
    assert np.abs(trained[0] - params).max() > 0.01
