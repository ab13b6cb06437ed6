"""A small network that is trained online: features -> hidden (ReLU) -> embedding -> one prediction.

Compiled, in float32, without a framework: at this size a training step of torch is nearly all overhead. Weights start
as torch's linear layers do, uniform in +-1/sqrt(inputs); Adam follows Kingma & Ba (2015) with torch's defaults. All
weights are one flat vector `(p,)`, of which `layers` gives the parts: few arrays pass cheaply between compiled
functions, and Adam needs no parts.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoosim.core.jit import jit
from zoosim.linear.dense import add_product, dot

Float32Array = NDArray[np.float32]

LARGEST_ERROR = 1e10
"""The size at which an error's slope stops growing, as in Huber (1964): far beyond any reward, far below overflow."""

LARGEST_SLOPE = 1e18
"""The largest slope of a weight that Adam takes in: the square of a larger one is beyond float32."""


class Network(NamedTuple):
    """Weights or their gradients: `w1 (d, h)`, `b1 (h,)`, `w2 (h, e)`, `b2 (e,)`, the head `w3 (e,)`, `b3 (1,)`."""

    w1: Float32Array
    b1: Float32Array
    w2: Float32Array
    b2: Float32Array
    w3: Float32Array
    b3: Float32Array


@jit
def layers(params: Float32Array, dim: int, hidden: int, embedding: int) -> Network:
    """Return the parts of `params (p,)`, as views."""
    a = dim * hidden
    b = a + hidden
    c = b + hidden * embedding
    d = c + embedding
    e = d + embedding
    w1 = params[:a].reshape(dim, hidden)
    w2 = params[b:c].reshape(hidden, embedding)
    return Network(w1, params[a:b], w2, params[c:d], params[d:e], params[e : e + 1])


def size_of(dim: int, hidden: int, embedding: int) -> int:
    """Count the weights."""
    return (dim + 1) * hidden + (hidden + 1) * embedding + embedding + 1


def new_params(dim: int, hidden: int, embedding: int, *, rng: np.random.Generator) -> Float32Array:
    """Return fresh weights `(p,)`."""
    params = np.zeros(size_of(dim, hidden, embedding), np.float32)
    inputs = [dim, dim, hidden, hidden, embedding, embedding]
    for array, count in zip(layers(params, dim, hidden, embedding), inputs, strict=True):
        bound = 1 / np.sqrt(count)
        array[...] = rng.uniform(-bound, bound, array.shape)
    return params


@jit
def bounded(value: float, most: float) -> np.float32:
    """Return a value between -`most` and `most`."""
    return np.float32(max(min(value, most), -most))


@jit
def rectify(hidden: Float32Array) -> None:
    """Apply ReLU in place."""
    for i in range(hidden.shape[0]):
        hidden[i] = max(hidden[i], np.float32(0.0))


@jit
def forward(net: Network, xs: Float32Array, hidden: Float32Array, z: Float32Array) -> None:
    """Write the rectified hidden layer `(n, h)` and the embedding `(n, e)` of each row of `xs (n, d)`."""
    w1 = net.w1
    b1 = net.b1
    w2 = net.w2
    b2 = net.b2
    for n in range(xs.shape[0]):
        hidden[n] = b1
        add_product(xs[n], w1, hidden[n])
        rectify(hidden[n])
        z[n] = b2
        add_product(hidden[n], w2, z[n])


@jit
def backpropagate(net: Network, grad: Network, xs: Float32Array, hidden: Float32Array, slopes: Float32Array) -> None:
    """Add to `grad` what loss slopes at the embeddings ask of the two layers below.

    `xs (n, d)`, their rectified `hidden (n, h)`, `slopes (n, e)`.
    """
    w1 = grad.w1
    b1 = grad.b1
    w2 = grad.w2
    b2 = grad.b2
    ones = np.ones(xs.shape[0], np.float32)
    down = np.zeros_like(hidden)
    w2_rows = net.w2.T.copy()
    for n in range(xs.shape[0]):
        add_product(slopes[n], w2_rows, down[n])
        for i in range(hidden.shape[1]):
            if hidden[n, i] <= 0.0:
                down[n, i] = 0.0
    add_product(ones, slopes, b2)
    add_product(ones, down, b1)
    hidden_columns = hidden.T.copy()
    x_columns = xs.T.copy()
    for i in range(hidden.shape[1]):
        add_product(hidden_columns[i], slopes, w2[i])
    for k in range(xs.shape[1]):
        add_product(x_columns[k], down, w1[k])


@jit
def fit_batch(
    trained: Float32Array, hidden_size: int, xs: Float32Array, targets: Float32Array, rate: float, step: int
) -> None:
    """Take Adam step number `step` = 1, 2, ... on the mean squared error of `xs (n, d)` against `targets (n,)`.

    `trained (3, p)`: the weights, and their first and second moments.
    """
    size, dim = xs.shape
    embedding = (trained.shape[1] - 1 - (dim + 1) * hidden_size) // (hidden_size + 2)
    gradient = np.zeros(trained.shape[1], np.float32)
    net = layers(trained[0], dim, hidden_size, embedding)
    grad = layers(gradient, dim, hidden_size, embedding)
    w3 = net.w3
    b3 = net.b3[0]
    hidden = np.empty((size, hidden_size), np.float32)
    z = np.empty((size, embedding), np.float32)
    slopes = np.empty((size, embedding), np.float32)
    scales = np.empty(size, np.float32)
    forward(net, xs, hidden, z)
    for n in range(size):
        scales[n] = np.float32(2.0) * bounded(b3 + dot(z[n], w3) - targets[n], LARGEST_ERROR) / np.float32(size)
        for j in range(embedding):
            slopes[n, j] = scales[n] * w3[j]
    grad.b3[0] = scales.sum()
    add_product(scales, z, grad.w3)
    backpropagate(net, grad, xs, hidden, slopes)
    adam_step(trained, gradient, rate, step)


@jit
def adam_step(trained: Float32Array, grad: Float32Array, rate: float, step: int) -> None:
    """Move the weights in `trained (3, p)` against `grad (p,)` by Adam with moments .9 and .999 and epsilon 1e-8."""
    params = trained[0]
    first = trained[1]
    second = trained[2]
    size = np.float32(rate / (1.0 - 0.9**step))
    largest_slope = np.float32(LARGEST_SLOPE)
    root = np.float32(1.0 / np.sqrt(1.0 - 0.999**step))
    keep1 = np.float32(0.9)
    keep2 = np.float32(0.999)
    one = np.float32(1.0)
    tiny = np.float32(1e-8)
    for i in range(params.shape[0]):
        slope = max(min(grad[i], largest_slope), -largest_slope)
        first[i] = keep1 * first[i] + (one - keep1) * slope
        second[i] = keep2 * second[i] + (one - keep2) * slope * slope
        params[i] -= size * first[i] / (np.sqrt(second[i]) * root + tiny)
