"""An ensemble of small perceptrons with smooth units, over a state and an action: what it predicts.

All members have the same layers; the weights of each are one flat float32 vector `(p,)`. A tile is `(features, w)` with
at most `TILE` rows of data side by side.
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import ANY_SINGLES, NOT_NEGATIVE, trained_flaws
from zoosim.core.types import Float32Array, FloatArray, IntArray
from zoosim.nets.network import INPUTS, LINEAR, OUTPUTS, SMOOTH, add_inputs, climb, count_units, make_layers, start_sums

TILE = 64
FARTHEST = 100.0
"""Inputs further than so many standard deviations from the mean of the data count as that far."""


class Ensemble(NamedTuple):
    """The networks: their `layers`, of whose inputs the first `states` are state, the rest action.

    `trained (M, 3, p)`: the weights of each member, and their first and second moments for Adam. An input is taken as
    (x - centre) scale, `centre (d,)`, `scale (d,)`; an output y means shift + unit y, with `reward (2,)` = shift, unit.
    """

    trained: Annotated[Float32Array, ANY_SINGLES, trained_flaws]
    layers: IntArray
    states: int
    centre: FloatArray
    scale: Annotated[FloatArray, NOT_NEGATIVE]
    reward: FloatArray


def ensemble_layers(sizes: Sequence[int]) -> IntArray:
    """Return the layers of a member, from the inputs to the output: smooth units, but for the output."""
    return make_layers(sizes, [SMOOTH] * (len(sizes) - 2) + [LINEAR])


@jit
def as_tile(rows: FloatArray, centre: FloatArray, scale: FloatArray, out: Float32Array) -> None:
    """Write standardised `rows (w, d)` to `out (d, w)`."""
    for n in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            out[i, n] = np.float32(max(min((rows[n, i] - centre[i]) * scale[i], FARTHEST), -FARTHEST))


@jit
def copy(values: np.ndarray, out: np.ndarray) -> None:
    """Write `values (w,)` to `out (w,)`, of another type maybe."""
    for n in range(out.shape[0]):
        out[n] = values[n]


@jit
def first_layer(net: Ensemble, member: int, states: Float32Array, out: Float32Array) -> None:
    """Write what the first layer adds up over its bias and the tile `states (d_s, w)` to `out (n_1, w)`."""
    params = net.trained[member, 0]
    start_sums(params, net.layers[0], out)
    add_inputs(params, net.layers[0], net.states, states, out)


@jit
def climb_member(net: Ensemble, member: int, actions: Float32Array, units: Float32Array, slopes: Float32Array) -> None:
    """Carry a tile up, from what `first_layer` left in the first n_1 rows of `units`, with `actions (d_a, w)`."""
    params = net.trained[member, 0]
    add_inputs(params, net.layers[0], net.layers[0, INPUTS], actions, units[: net.layers[0, OUTPUTS]])
    climb(params, net.layers, units, slopes)


@jit
def summarise(outputs: FloatArray, reward: FloatArray, mean: FloatArray, std: FloatArray) -> None:
    """Write the mean and the population standard deviation over members of `outputs (M, w)`, in units of rewards."""
    members = outputs.shape[0]
    for n in range(outputs.shape[1]):
        total = 0.0
        squares = 0.0
        for m in range(members):
            total += outputs[m, n]
        # A second pass around the mean: sums of squares would lose a small spread to rounding.
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
    total = count_units(net.layers)
    for start in range(0, rows.shape[0], TILE):
        end = min(start + TILE, rows.shape[0])
        width = end - start
        tile = np.empty((rows.shape[1], width), np.float32)
        outputs = np.empty((members, width))
        units = np.empty((total, width), np.float32)
        slopes = np.empty((total, width), np.float32)
        as_tile(rows[start:end], net.centre, net.scale, tile)
        for m in range(members):
            # States first, then actions, as in `ensemble_objective`, whose figures are the same to the bit.
            first_layer(net, m, tile[:d], units[: net.layers[0, OUTPUTS]])
            climb_member(net, m, tile[d:], units, slopes)
            copy(units[total - 1], outputs[m])
        summarise(outputs, net.reward, mean[start:end], std[start:end])
