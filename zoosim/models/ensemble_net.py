"""An ensemble of small perceptrons with smooth units, over a state and an action: outputs, slopes, training.

All members have the same layers; the weights of each are one flat float32 vector `(p,)`: for each layer a matrix
`(n_l, n_{l-1})`, then a bias `(n_l,)`. Hidden units bend as f(x) = x (1 + x / sqrt(x^2 + 4)) / 2, a SiLU (Elfwing,
Uchibe & Doya 2018) with an algebraic sigmoid: smooth, and made of operations that every machine rounds alike.

Rows stand in columns: a tile is `(features, w)` with at most `TILE` rows of data side by side, so that compilers make
vector code over rows, and every row's sums run in an order that does not depend on how many there are.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import add_matrix
from zoosim.models.embedding_net import Float32Array

TILE = 64
FARTHEST = 100.0
"""Inputs further than so many standard deviations from the mean of the data count as that far."""

HALF = np.float32(0.5)
ONE = np.float32(1.0)
FOUR = np.float32(4.0)


class Ensemble(NamedTuple):
    """The networks: layer `sizes (L + 1,)` from the inputs on, of which the first `states` are state, the rest action.

    `trained (M, 3, p)`: the weights of each member, and their first and second moments for Adam. An input is taken as
    (x - centre) scale, `centre (d,)`, `scale (d,)`; an output y means shift + unit y, with `reward (2,)` = shift, unit.
    """

    trained: Float32Array
    sizes: IntArray
    states: int
    centre: FloatArray
    scale: FloatArray
    reward: FloatArray


def count_weights(sizes: IntArray) -> int:
    """Count the weights p of a member."""
    return int((sizes[1:] * (sizes[:-1] + 1)).sum())


@jit
def layer_of(params: Float32Array, sizes: IntArray, layer: int) -> tuple[Float32Array, Float32Array]:
    """Return the matrix `(n_l, n_{l-1})` and the bias `(n_l,)` of layer 1, ..., L, as views."""
    offset = 0
    for before in range(1, layer):
        offset += sizes[before] * (sizes[before - 1] + 1)
    n = sizes[layer - 1]
    m = sizes[layer]
    return params[offset : offset + m * n].reshape(m, n), params[offset + m * n : offset + m * (n + 1)]


@jit
def as_tile(rows: FloatArray, centre: FloatArray, scale: FloatArray, out: Float32Array) -> None:
    """Write standardised `rows (w, d)` to `out (d, w)`."""
    for n in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            out[i, n] = np.float32(max(min((rows[n, i] - centre[i]) * scale[i], FARTHEST), -FARTHEST))


@jit
def spread(bias: Float32Array, out: Float32Array) -> None:
    """Fill each row of `out (m, w)` with its `bias (m,)`."""
    for i in range(out.shape[0]):
        out[i] = bias[i]


@jit
def copy(values: np.ndarray, out: np.ndarray) -> None:
    """Write `values (w,)` to `out (w,)`, of another type maybe."""
    for n in range(out.shape[0]):
        out[n] = values[n]


@jit
def bend(x: Float32Array, slopes: Float32Array) -> None:
    """Apply the hidden units to `x (m, w)` in place, and write their slopes to `slopes (m, w)`."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            v = x[i, j]
            r = ONE / np.sqrt(v * v + FOUR)
            t = v * r
            slopes[i, j] = HALF * (ONE + t * (ONE + FOUR * r * r))
            x[i, j] = HALF * v * (ONE + t)


@jit
def first_layer(net: Ensemble, member: int, states: Float32Array, out: Float32Array) -> None:
    """Write what the first layer adds up over its bias and the tile `states (d_s, w)` to `out (n_1, w)`."""
    matrix, bias = layer_of(net.trained[member, 0], net.sizes, 1)
    spread(bias, out)
    add_matrix(matrix[:, : net.states], states, out)


@jit
def climb(net: Ensemble, member: int, actions: Float32Array, units: Float32Array, slopes: Float32Array) -> None:
    """Carry a tile up the layers, from what `first_layer` left in the first n_1 rows of `units (sum n_l, w)`.

    `actions (d_a, w)`; `units` and `slopes` of all layers are written, the output in the last row of `units`.
    """
    params = net.trained[member, 0]
    sizes = net.sizes
    matrix, _ = layer_of(params, sizes, 1)
    add_matrix(matrix[:, net.states :], actions, units[: sizes[1]])
    start = 0
    for layer in range(2, sizes.shape[0]):
        middle = start + sizes[layer - 1]
        end = start + sizes[layer - 1] + sizes[layer]
        bend(units[start:middle], slopes[start:middle])
        matrix, bias = layer_of(params, sizes, layer)
        spread(bias, units[middle:end])
        add_matrix(matrix[:, : middle - start], units[start:middle], units[middle:end])
        start = middle


@jit
def descend(net: Ensemble, member: int, slopes: Float32Array) -> None:
    """Carry the slope in the last row of `slopes (sum n_l, w)` down to what the first layer adds up."""
    end = slopes.shape[0]
    for layer in range(net.sizes.shape[0] - 1, 1, -1):
        middle = end - net.sizes[layer]
        start = middle - net.sizes[layer - 1]
        matrix, _ = layer_of(net.trained[member, 0], net.sizes, layer)
        down = np.zeros((middle - start, slopes.shape[1]), np.float32)
        add_matrix(matrix[:, : middle - start].T, slopes[middle:end], down)
        for i in range(down.shape[0]):
            for j in range(down.shape[1]):
                slopes[start + i, j] *= down[i, j]
        end = middle


@jit
def summarise(outputs: FloatArray, reward: FloatArray, mean: FloatArray, std: FloatArray) -> None:
    """Write the mean and the population standard deviation over members of `outputs (M, w)`, in units of rewards."""
    members = outputs.shape[0]
    for n in range(outputs.shape[1]):
        total = 0.0
        squares = 0.0
        for m in range(members):
            total += outputs[m, n]
        centre = total / members
        for m in range(members):
            squares += (outputs[m, n] - centre) ** 2
        mean[n] = reward[0] + reward[1] * centre
        std[n] = reward[1] * np.sqrt(squares / members)


@jit
def predict_rows(net: Ensemble, rows: FloatArray, mean: FloatArray, std: FloatArray) -> None:
    """Write mean and standard deviation over members `(n,)` at `rows (n, d)` of state and action."""
    members = net.trained.shape[0]
    d = net.states
    total = np.sum(net.sizes[1:])
    for start in range(0, rows.shape[0], TILE):
        end = min(start + TILE, rows.shape[0])
        width = end - start
        tile = np.empty((rows.shape[1], width), np.float32)
        outputs = np.empty((members, width))
        units = np.empty((total, width), np.float32)
        slopes = np.empty((total, width), np.float32)
        as_tile(rows[start:end], net.centre, net.scale, tile)
        for m in range(members):
            first_layer(net, m, tile[:d], units[: net.sizes[1]])
            climb(net, m, tile[d:], units, slopes)
            copy(units[total - 1], outputs[m])
        summarise(outputs, net.reward, mean[start:end], std[start:end])
