"""The gradient, in the actions, of what an ensemble thinks of them: mean + beta std."""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import Float32Array, FloatArray
from zoosim.models.ensemble_net import TILE, Ensemble, summarise
from zoosim.models.ensemble_objective import EnsembleObjective, tile_up
from zoosim.nets.network import add_input_slopes, descend, new_workspace


def gradient(objective: EnsembleObjective, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean + beta std of actions and its gradients.

    Args:
        objective: The ensemble as an objective, for one state or for m.
        actions: `(n, d_a)`, or `(m, n, d_a)` for m states.

    Returns:
        Values `(n,)` or `(m, n)`, and gradients of the shape of `actions`.

    Raises:
        DataError: `actions` is of another shape, or not finite.
    """
    requests = objective.checked(actions)
    value = np.empty(requests.shape[:2])
    slope = np.empty(requests.shape)
    value_and_slope(objective.net, objective.parts, requests, objective.beta, value, slope)
    return (value[0], slope[0]) if objective.single else (value, slope)


@jit
def value_and_slope(
    net: Ensemble, parts: Float32Array, actions: FloatArray, beta: float, value: FloatArray, slope: FloatArray
) -> None:
    """Write mean + beta std to `value (m, n)` and its gradient in the actions to `slope (m, n, d_a)`.

    Where all members agree the gradient of std is taken as 0.
    """
    per_request = actions.shape[1]
    rows = actions.reshape(-1, actions.shape[2])
    values = value.reshape(-1)
    gradients = slope.reshape(-1, actions.shape[2])
    for start in range(0, rows.shape[0], TILE):
        end = min(start + TILE, rows.shape[0])
        outputs, slopes = tile_up(net, parts, rows[start:end], start, per_request)
        mean = np.empty(end - start)
        std = np.empty(end - start)
        summarise(outputs, net.reward, mean, std)
        for n in range(end - start):
            values[start + n] = mean[n] + beta * std[n]
        _tile_down(net, outputs, slopes, mean, std, beta, gradients[start:end])


@jit
def _tile_down(
    net: Ensemble,
    outputs: FloatArray,
    slopes: Float32Array,
    mean: FloatArray,
    std: FloatArray,
    beta: float,
    out: FloatArray,
) -> None:
    """Write the gradient `(w, d_a)` of mean + beta std; `slopes (M, sum n_l, w)` of the units are used up."""
    members = outputs.shape[0]
    width = outputs.shape[1]
    d = net.states
    scratch = new_workspace(net.layers, width, net.trained[0, 0]).scratch
    total = np.zeros((out.shape[1], width), np.float32)
    for m in range(members):
        for n in range(width):
            deviation = (net.reward[0] + net.reward[1] * outputs[m, n] - mean[n]) / std[n] if std[n] > 0.0 else 0.0
            slopes[m, slopes.shape[1] - 1, n] = (1.0 + beta * deviation) / members
        descend(net.trained[m, 0], net.layers, slopes[m], scratch)
        add_input_slopes(net.trained[m, 0], net.layers[0], slopes[m], total)
    for n in range(width):
        for i in range(out.shape[1]):
            out[n, i] = net.reward[1] * net.scale[d + i] * total[i, n]
