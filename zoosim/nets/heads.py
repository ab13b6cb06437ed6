"""Linear heads that read the top layer of a network: each row of data is read by a head of its own.

A head's weights stand behind those of the network in the vector of all weights: a matrix `(m, h)`, then m biases. With
`traits (K, t)` there are K heads and t rows more: head k is row k plus its traits times the last t rows.
"""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import dot
from zoosim.nets.adam import LARGEST_ERROR, adam_step
from zoosim.nets.network import INPUTS, OUTPUTS, WEIGHTS, add_gradient, descend, new_workspace, rows_up


def fresh_heads(count: int, size: int, *, rng: np.random.Generator) -> np.ndarray:
    """Return weights of heads that read `size` units, uniform in +-1/sqrt(size)."""
    return np.asarray(rng.uniform(-1, 1, count * (size + 1)) / np.sqrt(size))


@jit
def fit_heads(
    trained: np.ndarray,
    layers: IntArray,
    rows: np.ndarray,
    chosen: IntArray,
    heads: IntArray,
    traits: np.ndarray,
    masks: np.ndarray,
    targets: FloatArray,
    weights: FloatArray,
    rate: float,
    step: int,
) -> float:
    """Take a step of Adam on the loss of `heads_gradient`, and return that loss.

    Args:
        trained: Weights of network and heads, and their first and second moments `(3, p)`.
        layers, rows, chosen, heads, traits, masks, targets, weights: As there.
        rate: The step size.
        step: The number of this step: 1, 2, ...
    """
    gradient = np.zeros(trained.shape[1], trained.dtype)
    loss = heads_gradient(trained[0], layers, rows, chosen, heads, traits, masks, targets, weights, gradient)
    adam_step(trained, gradient, rate, step)
    return loss


@jit
def heads_gradient(
    params: np.ndarray,
    layers: IntArray,
    rows: np.ndarray,
    chosen: IntArray,
    heads: IntArray,
    traits: np.ndarray,
    masks: np.ndarray,
    targets: FloatArray,
    weights: FloatArray,
    gradient: np.ndarray,
) -> float:
    """Add the slopes of the sum of weight (estimate - target)^2 over w rows of data, and return that sum.

    Args:
        params: The weights of the network, then those of the heads.
        layers: Those of the network.
        rows: The rows of data `(n, n_0)`.
        chosen: Those that count `(w,)`.
        heads: Of each chosen row `(w,)`.
        traits: Of each head `(K, t)`; t may be 0.
        masks: Factors of the top units in each chosen row `(w, h)`, as dropout draws them; `(0, h)` where all are 1.
        targets: `(w,)`.
        weights: `(w,)`.
        gradient: Where the slopes go `(p,)`.
    """
    size = layers[layers.shape[0] - 1, OUTPUTS]
    work = new_workspace(layers, chosen.shape[0], params)
    inputs, units, slopes = rows_up(params, layers, rows, chosen, work)
    total = units.shape[0]
    _mask(masks, units[total - size :], slopes[total - size :])
    below = layers[0, WEIGHTS]
    for layer in range(layers.shape[0]):
        below += layers[layer, OUTPUTS] * (layers[layer, INPUTS] + 1)
    count = (params.shape[0] - below) // (size + 1)
    biases = below + count * size
    top = np.empty(size, params.dtype)
    read = np.empty(size, params.dtype)
    loss = 0.0
    for n in range(chosen.shape[0]):
        head = heads[n]
        bias = _head(params, below, biases, head, traits, read)
        for i in range(size):
            top[i] = units[total - size + i, n]
        error = bias + dot(top, read) - targets[n]
        loss += weights[n] * error * error
        slope = params.dtype.type(2.0 * weights[n] * max(min(error, LARGEST_ERROR), -LARGEST_ERROR))
        _add_head(gradient, below, biases, head, slope, top)
        for t in range(traits.shape[1]):
            _add_head(gradient, below, biases, traits.shape[0] + t, slope * traits[head, t], top)
        for i in range(size):
            slopes[total - size + i, n] *= slope * read[i]  # times the units' own derivatives, which `rows_up` left
    descend(params, layers, slopes, work.scratch)
    add_gradient(layers, inputs, units, slopes, work, gradient)
    return loss


@jit
def _mask(masks: np.ndarray, units: np.ndarray, slopes: np.ndarray) -> None:
    """Multiply top units `(h, w)` and their slopes by `masks (w, h)`, if there are any."""
    for n in range(masks.shape[0]):
        for i in range(masks.shape[1]):
            units[i, n] *= masks[n, i]
            slopes[i, n] *= masks[n, i]


@jit
def _head(params: np.ndarray, below: int, biases: int, head: int, traits: np.ndarray, out: np.ndarray) -> float:
    """Write the weights `(h,)` of a head, and return its bias."""
    size = out.shape[0]
    for i in range(size):
        out[i] = params[below + head * size + i]
    bias: float = params[biases + head]
    for t in range(traits.shape[1]):
        row = traits.shape[0] + t
        bias += traits[head, t] * params[biases + row]
        for i in range(size):
            out[i] += traits[head, t] * params[below + row * size + i]
    return bias


@jit
def _add_head(gradient: np.ndarray, below: int, biases: int, row: int, slope: float, top: np.ndarray) -> None:
    """Add the slopes of a row of the heads' weights and of its bias, by the `slope` in its output."""
    size = top.shape[0]
    gradient[biases + row] += slope
    for i in range(size):
        gradient[below + row * size + i] += slope * top[i]
