"""Layers in every storage and with all units: against numpy, finite differences, and Adam by hand."""

from typing import Any

import numpy as np
import pytest

from zoosim.core.types import FloatArray, IntArray
from zoosim.nets import network as nets
from zoosim.nets.adam import adam_step
from zoosim.nets.heads import heads_gradient

STORAGES: tuple[Any, ...] = ("by output", "by input", "with bias")
UNITS = {"relu": nets.RELU, "smooth": nets.SMOOTH, "linear": nets.LINEAR}
ROWS = 5


def network(sizes: list[int], kind: int, storage: Any = "by output", top: int = nets.LINEAR) -> Any:
    """Return layers, weights in double precision, and rows of data in columns."""
    rng = np.random.default_rng(len(sizes))
    layers = nets.make_layers(sizes, [kind] * (len(sizes) - 2) + [top], storage)
    return layers, nets.fresh_weights(layers, rng=rng), rng.normal(size=(sizes[0], ROWS))


def parts(params: FloatArray, layer: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the matrix and the bias of a layer, a number at a time."""
    matrix = np.zeros((layer[nets.OUTPUTS], layer[nets.INPUTS]))
    for i, k in np.ndindex(*matrix.shape):
        matrix[i, k] = params[layer[nets.WEIGHTS] + i * layer[nets.OUTPUT_STEP] + k * layer[nets.INPUT_STEP]]
    places = layer[nets.BIASES] + np.arange(len(matrix)) * layer[nets.BIAS_STEP]
    return matrix, params[places]


def plain(params: FloatArray, layers: IntArray, inputs: FloatArray) -> FloatArray:
    """Return what the network puts out `(n_L, w)` by plain matrix products."""
    a = inputs
    for layer in layers:
        matrix, bias = parts(params, layer)
        z = matrix @ a + bias[:, None]
        bent = {nets.LINEAR: z, nets.RELU: np.maximum(z, 0), nets.SMOOTH: 0.5 * z * (1 + z / np.sqrt(z * z + 4))}
        a = bent[int(layer[nets.UNITS])]
    return np.asarray(a)


def up(params: FloatArray, layers: IntArray, inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
    units, slopes = np.empty((2, nets.count_units(layers), inputs.shape[1]), params.dtype)
    nets.go_up(params, layers, np.ascontiguousarray(inputs), units, slopes)
    return units, slopes


def test_a_network_worked_out_by_hand() -> None:
    """Units relu(2 - 1 + 1) = 2 and relu(-2 + 0) = 0; output 3 * 2 + 5 * 0 - 1 = 5; the second unit has no slope."""
    layers = nets.make_layers([1, 2, 1], [nets.RELU, nets.LINEAR])
    units, slopes = up(np.array([2.0, -2.0, 0.0, 0.0, 3.0, 5.0, -1.0]), layers, np.array([[1.0]]))
    assert units[:, 0].tolist() == [2.0, 0.0, 5.0]
    assert slopes[:, 0].tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kind", UNITS)
@pytest.mark.parametrize("sizes", [[3, 1], [4, 7, 1], [1, 5, 2], [4, 7, 5, 3]], ids=str)
def test_outputs_and_gradients_equal_finite_differences(sizes: list[int], kind: str, storage: Any) -> None:
    """The slopes of sum s y over outputs y, s drawn at random, in all weights and in the inputs."""
    layers, params, inputs = network(sizes, UNITS[kind], storage)
    assert nets.count_weights(layers) == len(params)
    units, slopes = up(params, layers, inputs)
    np.testing.assert_allclose(units[-sizes[-1] :], plain(params, layers, inputs), rtol=0, atol=1e-13)
    loss = np.random.default_rng(1).normal(size=(sizes[-1], ROWS))
    slopes[-sizes[-1] :] = loss
    work = nets.new_workspace(layers, ROWS, params[:1])
    nets.descend(params, layers, slopes, work.scratch)
    gradient = np.zeros(len(params))
    nets.add_gradient(layers, inputs, units, slopes, work, gradient)
    below = np.zeros((sizes[0] - 1, ROWS))
    nets.add_input_slopes(params, layers[0], slopes, below)

    def value(params: FloatArray, inputs: FloatArray) -> float:
        return float((loss * plain(params, layers, inputs)).sum())

    step = 1e-6
    for place in range(len(params)):
        moved = np.array([params, params])
        moved[:, place] += [step, -step]
        expected = (value(moved[0], inputs) - value(moved[1], inputs)) / (2 * step)
        assert gradient[place] == pytest.approx(expected, abs=1e-8)
    for i, j in np.ndindex(*below.shape):
        sides = np.array([inputs, inputs])
        sides[:, i + 1, j] += [step, -step]
        assert below[i, j] == pytest.approx((value(params, sides[0]) - value(params, sides[1])) / (2 * step), abs=1e-8)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_row_has_the_same_bits_in_every_batch_and_storage(storage: Any) -> None:
    sizes = [9, 64, 32, 1]
    layers, params, _ = network(sizes, nets.SMOOTH)
    stored = nets.make_layers(sizes, layers[:, nets.UNITS].tolist(), storage)
    moved = np.empty_like(params)
    for one, other in zip(layers, stored, strict=True):
        matrix, bias = parts(params, one)
        for i, k in np.ndindex(*matrix.shape):
            moved[other[nets.WEIGHTS] + i * other[nets.OUTPUT_STEP] + k * other[nets.INPUT_STEP]] = matrix[i, k]
        moved[other[nets.BIASES] + np.arange(len(bias)) * other[nets.BIAS_STEP]] = bias
    inputs = np.random.default_rng(2).normal(size=(9, 70))
    for dtype in (np.float32, np.float64):
        whole, _ = up(params.astype(dtype), layers, inputs.astype(dtype))
        for width in (1, 3, 64, 70):
            part, _ = up(moved.astype(dtype), stored, inputs[:, :width].astype(dtype))
            assert np.array_equal(part, whole[:, :width])


def test_fresh_weights_are_uniform_within_one_over_the_root_of_the_inputs() -> None:
    """Bounds, and a variance of bound^2 / 3 within 5 standard errors, sqrt(4 / 45 / n) of bound^2."""
    layers = nets.make_layers([50, 64, 32], [nets.RELU, nets.LINEAR])
    params = nets.fresh_weights(layers, rng=np.random.default_rng(0))
    for part, inputs in ((params[: 51 * 64], 50), (params[51 * 64 :], 64)):
        scaled = part * np.sqrt(inputs)
        assert np.abs(scaled).max() <= 1.0
        assert abs(float((scaled**2).mean()) - 1 / 3) < 5 * np.sqrt(4 / 45 / len(scaled))


@pytest.mark.parametrize(("traits", "masked"), [(0, False), (2, False), (2, True)])
def test_gradients_of_heads_equal_finite_differences(traits: int, masked: bool) -> None:
    sizes, heads = [4, 7], 3
    layers, lower, inputs = network(sizes, nets.RELU, top=nets.RELU)
    rng = np.random.default_rng(5)
    params = np.concatenate([lower, rng.normal(size=(heads + traits) * (7 + 1))])
    scores, chosen = rng.normal(size=(heads, traits)), np.array([0, 2, 1, 2, 0])
    targets, weights = rng.normal(size=(2, ROWS))
    masks = 2.0 * (rng.random((ROWS, 7)) < 0.5) if masked else np.empty((0, 7))

    def loss(params: FloatArray) -> float:
        top = plain(params, layers, inputs) * (masks.T if masked else 1.0)
        matrix = params[len(lower) : -(heads + traits)].reshape(-1, 7)
        outputs = matrix @ top + params[-(heads + traits) :, None]
        estimates = [outputs[head, n] + scores[head] @ outputs[heads:, n] for n, head in enumerate(chosen)]
        return float((weights * (np.array(estimates) - targets) ** 2).sum())

    data = np.ascontiguousarray(inputs.T), np.arange(ROWS), chosen, scores, masks, targets, weights
    gradient = np.zeros(len(params))
    found = heads_gradient(params, layers, *data, gradient)
    assert found == pytest.approx(loss(params))
    for place in range(len(params)):
        moved = np.array([params, params])
        moved[:, place] += [1e-6, -1e-6]
        assert gradient[place] == pytest.approx((loss(moved[0]) - loss(moved[1])) / 2e-6, abs=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_adam_worked_out_by_hand(dtype: Any) -> None:
    """Three steps of rate .1 against the published formulas in double precision; the gradient is used up.

    In float32 1 - .999 is off by a share of 1.3e-5, so each step by half of that: 1e-6 of a rate of .1.
    """
    trained, rng = np.zeros((3, 6), dtype), np.random.default_rng(0)
    trained[0] = rng.normal(size=6)
    weights, first, second = trained.astype(float)
    for step in (1, 2, 3):
        slopes = (rng.normal(size=6) * 10.0 ** np.arange(-3, 3)).astype(dtype)
        gradient = slopes.copy()
        adam_step(trained, gradient, 0.1, step)
        first = 0.9 * first + 0.1 * slopes
        second = 0.999 * second + 0.001 * slopes.astype(float) ** 2
        weights = weights - 0.1 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        assert not gradient.any()
    np.testing.assert_allclose(trained[0], weights, rtol=0, atol=4e-6 if dtype == np.float32 else 1e-14)


def test_the_first_step_of_adam_is_the_rate() -> None:
    # After one step m = .1 g and v = .001 g^2; corrected by .1 and .001, m / sqrt(v) is the sign of g.
    trained = np.zeros((3, 3), np.float32)
    adam_step(trained, np.array([4.0, -1e-3, 0.0], np.float32), 0.01, 1)
    np.testing.assert_allclose(trained[0], [-0.01, 0.01, 0.0], rtol=1e-4)
