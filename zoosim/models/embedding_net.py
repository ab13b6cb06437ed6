"""A small network trained while it decides: features -> hidden (ReLU) -> embedding -> one prediction.

Compiled, in float32, without a framework: at this size a training step of torch is nearly all overhead. Weights start
as torch's linear layers do, uniform in +-1/sqrt(inputs); Adam follows Kingma & Ba (2015) with torch's defaults. Each
array of a network is a view of the one flat vector `params`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray

Float32Array = NDArray[np.float32]


class Network(NamedTuple):
    """Weights (or their gradients): `w1 (d, h)`, `b1 (h,)`, `w2 (h, e)`, `b2 (e,)`, the head `w3 (e,)`, `b3 (1,)`."""

    params: Float32Array
    w1: Float32Array
    b1: Float32Array
    w2: Float32Array
    b2: Float32Array
    w3: Float32Array
    b3: Float32Array


class Adam(NamedTuple):
    """First and second moments `(p,)` and the number of steps `(1,)`."""

    first: Float32Array
    second: Float32Array
    steps: IntArray


def empty_network(dim: int, hidden: int, embedding: int) -> Network:
    """Return a network of zeros."""
    shapes = [(dim, hidden), (hidden,), (hidden, embedding), (embedding,), (embedding,), (1,)]
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    params = np.zeros(ends[-1], np.float32)
    views = [params[a:b].reshape(shape) for a, b, shape in zip(ends[:-1], ends[1:], shapes, strict=True)]
    return Network(params, *views)


def new_network(dim: int, hidden: int, embedding: int, *, rng: np.random.Generator) -> Network:
    """Return a network with fresh weights."""
    net = empty_network(dim, hidden, embedding)
    for array, inputs in zip(net[1:], [dim, dim, hidden, hidden, embedding, embedding], strict=True):
        bound = 1 / np.sqrt(inputs)
        array[...] = rng.uniform(-bound, bound, array.shape)
    return net


def new_adam(net: Network) -> Adam:
    """Return the optimiser's state before its first step."""
    return Adam(np.zeros_like(net.params), np.zeros_like(net.params), np.zeros(1, np.int64))


@jit
def project(weights: Float32Array, x: FloatArray, out: Float32Array) -> None:
    """Add x' W to `out (h,)`, skipping what is 0 in x: x `(d,)`, `weights (d, h)`."""
    for i in range(x.shape[0]):
        if x[i] != 0.0:
            scale = np.float32(x[i])
            for j in range(out.shape[0]):
                out[j] += scale * weights[i, j]


@jit
def rectify(hidden: Float32Array) -> None:
    """Apply ReLU in place."""
    for i in range(hidden.shape[0]):
        hidden[i] = max(hidden[i], np.float32(0.0))


@jit
def embed(net: Network, hidden: Float32Array, out: Float32Array) -> None:
    """Write the embedding `(e,)` of rectified `hidden (h,)` to `out`."""
    out[:] = net.b2
    for i in range(hidden.shape[0]):
        if hidden[i] != 0.0:
            for j in range(out.shape[0]):
                out[j] += hidden[i] * net.w2[i, j]


@jit
def hidden_of(net: Network, x: FloatArray) -> Float32Array:
    """Return the rectified hidden layer `(h,)` of x `(d,)`."""
    hidden = net.b1.copy()
    project(net.w1, x, hidden)
    rectify(hidden)
    return hidden


@jit
def backpropagate(
    grad: Network, w2_rows: Float32Array, x: FloatArray, hidden: Float32Array, slope: Float32Array
) -> None:
    """Add to `grad` what a loss slope `(e,)` at the embedding of x asks of the two layers below.

    `w2_rows (e, h)` is w2 transposed, so that both loops over the hidden layer run along memory.
    """
    down = np.zeros_like(hidden)
    for j in range(slope.shape[0]):
        grad.b2[j] += slope[j]
        for i in range(hidden.shape[0]):
            down[i] += slope[j] * w2_rows[j, i]
    for i in range(hidden.shape[0]):
        if hidden[i] > 0.0:
            grad.b1[i] += down[i]
            for j in range(slope.shape[0]):
                grad.w2[i, j] += hidden[i] * slope[j]
        else:
            down[i] = 0.0
    for k in range(x.shape[0]):
        if x[k] != 0.0:
            scale = np.float32(x[k])
            for i in range(hidden.shape[0]):
                grad.w1[k, i] += scale * down[i]


@jit
def fit_batch(
    net: Network, grad: Network, adam: Adam, xs: FloatArray, targets: FloatArray, batch: IntArray, rate: float
) -> None:
    """Take one Adam step on the mean squared error of rows `batch` of `xs (n, d)` against `targets (n,)`."""
    grad.params[:] = 0.0
    z, w2_rows = np.empty(net.b2.shape[0], np.float32), net.w2.T.copy()
    for row in batch:
        hidden = hidden_of(net, xs[row])
        embed(net, hidden, z)
        error = net.b3[0] - np.float32(targets[row])
        for j in range(z.shape[0]):
            error += z[j] * net.w3[j]
        scale = np.float32(2.0) * error / np.float32(batch.shape[0])
        grad.b3[0] += scale
        for j in range(z.shape[0]):
            grad.w3[j] += scale * z[j]
        backpropagate(grad, w2_rows, xs[row], hidden, scale * net.w3)
    adam_step(net.params, grad.params, adam, rate)


@jit
def adam_step(params: Float32Array, grad: Float32Array, adam: Adam, rate: float) -> None:
    """Move `params (p,)` against `grad (p,)` by Adam with moments .9 and .999 and epsilon 1e-8."""
    adam.steps[0] += 1
    size = np.float32(rate / (1.0 - 0.9 ** adam.steps[0]))
    root = np.float32(1.0 / np.sqrt(1.0 - 0.999 ** adam.steps[0]))
    keep1, keep2, one, tiny = np.float32(0.9), np.float32(0.999), np.float32(1.0), np.float32(1e-8)
    for i in range(params.shape[0]):
        adam.first[i] = keep1 * adam.first[i] + (one - keep1) * grad[i]
        adam.second[i] = keep2 * adam.second[i] + (one - keep2) * grad[i] * grad[i]
        params[i] -= size * adam.first[i] / (np.sqrt(adam.second[i]) * root + tiny)
