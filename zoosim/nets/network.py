"""Fully connected layers, from the inputs up to the outputs and back: what all networks of the package compute.

The weights of a network are one flat vector `(p,)` in float32 or float64, of which a table of `layers (L, 8)` says
where each matrix and bias stands. Training adds to the vector the moments of Adam (`adam`), and policies add parts of
their own, such as heads (`heads`) or embeddings.

Rows of data stand in columns: inputs are `(n_0, w)`, and `units (n_1 + ... + n_L, w)` hold what the layers put out, one
below the other. Compilers then make vector code over rows of data, and the sums of each row run in an order that does
not depend on how many there are. Every function is compiled once per number type, whatever the layers are.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import Float32Array, IntArray
from zoosim.linear.dense import add_matrix, add_product

LINEAR, RELU, SMOOTH = range(3)
"""Activations of a layer's units, by their sums x: x; max(x, 0); or x (1 + x / sqrt(x^2 + 4)) / 2, a SiLU (Elfwing,
Uchibe & Doya 2018) with an algebraic sigmoid: smooth, and made of operations that every machine rounds alike."""

INPUTS, OUTPUTS, UNITS, WEIGHTS, OUTPUT_STEP, INPUT_STEP, BIASES, BIAS_STEP = range(8)
"""Columns of `layers`: n_in, n_out and the units of a layer; where its matrix begins, and how far apart its weights by
output and by input stand; where its biases begin, and how far apart they stand."""

HALF = np.float32(0.5)
ONE = np.float32(1.0)
FOUR = np.float32(4.0)

NARROW = 8
"""Rows of data below which a layer that is stored by input is computed row by row."""

Storage = Literal["by output", "by input", "with bias"]


class Workspace(NamedTuple):
    """Room for a pass up and down on so many rows of data, as flat arrays, of which `block` takes what a pass needs."""

    inputs: np.ndarray
    units: np.ndarray
    slopes: np.ndarray
    scratch: np.ndarray
    sums: np.ndarray


def make_layers(sizes: Sequence[int], units: Sequence[int], storage: Storage = "by output", start: int = 0) -> IntArray:
    """Return the table of fully connected layers.

    Args:
        sizes: n_0, ..., n_L, from the inputs to the outputs.
        units: Of each of the L layers: `LINEAR`, `RELU` or `SMOOTH`.
        storage: The order of weights in a layer: a matrix `(n_out, n_in)`, then the biases; a matrix `(n_in, n_out)`,
            then the biases; or a matrix `(n_out, n_in + 1)` with the biases in its last column.
        start: Where in the vector of weights the first layer begins.
    """
    rows = []
    for (n, m), kind in zip(pairwise(map(int, sizes)), units, strict=True):
        places = {
            "by output": (n, 1, start + m * n, 1),
            "by input": (1, m, start + m * n, 1) if m > 1 else (n, 1, start + n, 1),
            "with bias": (n + 1, 1, start + n, n + 1),
        }
        rows.append((n, m, kind, start, *places[storage]))
        start += m * (n + 1)
    return np.array(rows)


def count_weights(layers: IntArray) -> int:
    """Return how many weights the layers have, biases included."""
    return int((layers[:, OUTPUTS] * (layers[:, INPUTS] + 1)).sum())


def fresh_weights(layers: IntArray, gain: float = 1.0, *, rng: np.random.Generator) -> np.ndarray:
    """Return weights `(p,)` for layers that begin at 0, uniform in +-gain/sqrt(n_in): as torch starts, with gain 1."""
    inputs = np.repeat(layers[:, INPUTS], layers[:, OUTPUTS] * (layers[:, INPUTS] + 1))
    return np.asarray(gain * rng.uniform(-1, 1, len(inputs)) / np.sqrt(inputs))


def flat_weights(layers: IntArray, *, rng: np.random.Generator) -> Float32Array:
    """Return weights `(p,)` for layers that begin at 0: fresh, but for the last layer, which puts out 0 at first."""
    weights = fresh_weights(layers, rng=rng).astype(np.float32)
    last = int(layers[-1, INPUTS] + 1) * int(layers[-1, OUTPUTS])
    weights[-last:] = 0.0
    return weights


def with_moments(params: np.ndarray) -> np.ndarray:
    """Return `trained (3, p)`: weights, and the first and second moments of Adam, which are 0."""
    return np.stack([params, np.zeros_like(params), np.zeros_like(params)])


@jit
def new_workspace(layers: IntArray, width: int, like: np.ndarray) -> Workspace:
    """Return room for passes on at most `width` rows, in the number type of `like (1,)`."""
    total = 0
    widest = layers[0, INPUTS]
    largest = 0
    for layer in range(layers.shape[0]):
        total += layers[layer, OUTPUTS]
        widest = max(widest, layers[layer, OUTPUTS])
        largest = max(largest, layers[layer, OUTPUTS] * layers[layer, INPUTS])
    return Workspace(
        np.empty(layers[0, INPUTS] * width, like.dtype),
        np.empty(total * width, like.dtype),
        np.empty(total * width, like.dtype),
        np.empty(widest * width, like.dtype),
        np.empty(largest, like.dtype),
    )


@jit
def count_units(layers: IntArray) -> int:
    """Return n_1 + ... + n_L."""
    total = 0
    for layer in range(layers.shape[0]):
        total += layers[layer, OUTPUTS]
    return total


@jit
def block(room: np.ndarray, rows: int, width: int) -> np.ndarray:
    """Return the start of a flat array as a matrix `(rows, width)`, a view."""
    return room[: rows * width].reshape(rows, width)


@jit
def weights_of(params: np.ndarray, layer: IntArray) -> np.ndarray:
    """Return the matrix `(n_out, n_in)` of a layer, a row of the table, as a view."""
    start = layer[WEIGHTS]
    if layer[INPUT_STEP] == 1:
        step = layer[OUTPUT_STEP]
        return params[start : start + layer[OUTPUTS] * step].reshape(layer[OUTPUTS], step)[:, : layer[INPUTS]]
    step = layer[INPUT_STEP]
    return params[start : start + layer[INPUTS] * step].reshape(layer[INPUTS], step)[:, : layer[OUTPUTS]].T


@jit
def start_sums(params: np.ndarray, layer: IntArray, out: np.ndarray) -> None:
    """Fill each row of `out (n_out, w)` with its bias."""
    for i in range(out.shape[0]):
        bias = params[layer[BIASES] + i * layer[BIAS_STEP]]
        for j in range(out.shape[1]):
            out[i, j] = bias


@jit
def add_inputs(params: np.ndarray, layer: IntArray, end: int, inputs: np.ndarray, out: np.ndarray) -> None:
    """Add to `out (n_out, w)` what `inputs (n, w)` bring: the layer's inputs number `end` - n to `end` - 1."""
    if layer[INPUT_STEP] == 1 or inputs.shape[1] >= NARROW:
        add_matrix(weights_of(params, layer)[:, end - inputs.shape[0] : end], inputs, out)
        return
    # A few rows alone: vector code over outputs, whose weights stand together, with the sums in the same order.
    size = out.shape[0]
    first = layer[WEIGHTS] + (end - inputs.shape[0]) * size
    by_input = params[first : layer[WEIGHTS] + end * size].reshape(inputs.shape[0], size)
    sums = np.empty(size, out.dtype)
    for j in range(inputs.shape[1]):
        for i in range(size):
            sums[i] = out[i, j]
        add_product(inputs[:, j], by_input, sums)
        for i in range(size):
            out[i, j] = sums[i]


@jit
def climb(params: np.ndarray, layers: IntArray, units: np.ndarray, slopes: np.ndarray) -> None:
    """Carry data up from the sums of the first layer, which stand in the first n_1 rows of `units (sum n_l, w)`.

    Writes what all units put out, and to `slopes (sum n_l, w)` their derivatives in their own sums.
    """
    start = 0
    for layer in range(layers.shape[0]):
        middle = start + layers[layer, OUTPUTS]
        _bend(layers[layer, UNITS], units[start:middle], slopes[start:middle])
        if layer + 1 < layers.shape[0]:
            above = layers[layer + 1]
            end = middle + above[OUTPUTS]
            start_sums(params, above, units[middle:end])
            add_inputs(params, above, above[INPUTS], units[start:middle], units[middle:end])
        start = middle


@jit
def go_up(params: np.ndarray, layers: IntArray, inputs: np.ndarray, units: np.ndarray, slopes: np.ndarray) -> None:
    """Carry `inputs (n_0, w)` up: `start_sums`, `add_inputs` and `climb`."""
    sums = units[: layers[0, OUTPUTS]]
    start_sums(params, layers[0], sums)
    add_inputs(params, layers[0], layers[0, INPUTS], inputs, sums)
    climb(params, layers, units, slopes)


@jit
def rows_up(
    params: np.ndarray, layers: IntArray, rows: np.ndarray, chosen: IntArray, work: Workspace
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Carry the `chosen (w,)` of `rows (n, n_0)` up; return inputs, units and slopes in columns, as views of `work`."""
    width = chosen.shape[0]
    total = count_units(layers)
    inputs = block(work.inputs, rows.shape[1], width)
    units = block(work.units, total, width)
    slopes = block(work.slopes, total, width)
    for j in range(width):
        for i in range(rows.shape[1]):
            inputs[i, j] = rows[chosen[j], i]
    go_up(params, layers, inputs, units, slopes)
    return inputs, units, slopes


@jit
def _bend(kind: int, x: np.ndarray, slopes: np.ndarray) -> None:
    """Apply units to their sums `x (m, w)` in place, and write their derivatives to `slopes (m, w)`."""
    if kind == LINEAR:
        _fill(slopes, 1.0)
    elif kind == RELU:
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                slopes[i, j] = x[i, j] > 0.0  # 0 at 0
                x[i, j] = max(x[i, j], np.float32(0.0))
    else:
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                v = x[i, j]
                r = ONE / np.sqrt(v * v + FOUR)
                t = v * r
                # The derivative is (1 + 2 t - t^3) / 2, and t^2 = 1 - 4 r^2.
                slopes[i, j] = HALF * (ONE + t * (ONE + FOUR * r * r))
                x[i, j] = HALF * v * (ONE + t)


@jit
def _fill(out: np.ndarray, value: float) -> None:
    """Write a number to all places of a matrix."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = value


@jit
def descend(params: np.ndarray, layers: IntArray, slopes: np.ndarray, scratch: np.ndarray) -> None:
    """Carry the slopes of a loss down to the sums of every layer.

    `slopes (sum n_l, w)` are those of `climb`, but for the last n_L rows: the slopes of the loss in the last sums.
    """
    end = slopes.shape[0]
    for layer in range(layers.shape[0] - 1, 0, -1):
        middle = end - layers[layer, OUTPUTS]
        start = middle - layers[layer, INPUTS]
        down = block(scratch, middle - start, slopes.shape[1])
        _fill(down, 0.0)
        add_matrix(weights_of(params, layers[layer]).T, slopes[middle:end], down)
        for i in range(down.shape[0]):
            for j in range(down.shape[1]):
                slopes[start + i, j] *= down[i, j]
        end = middle


@jit
def add_input_slopes(params: np.ndarray, layer: IntArray, slopes: np.ndarray, out: np.ndarray) -> None:
    """Add to `out (n, w)` the slopes in the last n inputs of the first layer, by those in its sums."""
    last = weights_of(params, layer)[:, layer[INPUTS] - out.shape[0] :]
    add_matrix(last.T, slopes[: layer[OUTPUTS]], out)


@jit
def add_gradient(
    layers: IntArray,
    inputs: np.ndarray,
    units: np.ndarray,
    slopes: np.ndarray,
    work: Workspace,
    gradient: np.ndarray,
) -> None:
    """Add to `gradient (p,)` the slopes of a loss in all weights, by those in the sums, which `descend` left."""
    width = inputs.shape[1]
    below = inputs
    start = 0
    for number in range(layers.shape[0]):
        layer = layers[number]
        end = start + layer[OUTPUTS]
        for i in range(start, end):
            bias = slopes.dtype.type(0.0)
            for j in range(width):
                bias += slopes[i, j]
            gradient[layer[BIASES] + (i - start) * layer[BIAS_STEP]] += bias
        if layer[INPUT_STEP] == 1:
            _add_products(slopes[start:end], below, layer[WEIGHTS], layer[OUTPUT_STEP], work, gradient)
        else:
            _add_products(below, slopes[start:end], layer[WEIGHTS], layer[INPUT_STEP], work, gradient)
        below = units[start:end]
        start = end


@jit
def _add_products(
    left: np.ndarray, right: np.ndarray, place: int, step: int, work: Workspace, gradient: np.ndarray
) -> None:
    """Add the sums over rows of data of `left (a, w)` times `right (b, w)` to weights whose rows stand `step` apart."""
    width = left.shape[1]
    rows = block(work.scratch, width, right.shape[0])
    sums = block(work.sums, left.shape[0], right.shape[0])
    for k in range(right.shape[0]):
        for j in range(width):
            rows[j, k] = right[k, j]
    _fill(sums, 0.0)
    add_matrix(left[:, :width], rows, sums)
    for i in range(left.shape[0]):
        first = place + i * step
        for k in range(right.shape[0]):
            gradient[first + k] += sums[i, k]
