"""A multilayer perceptron of any size with one output, and the factors of its gradients.

Layer l has one matrix `(n_l, n_{l-1} + 1)`, the bias in the last column, and ReLU between layers. All weights are one
flat float64 vector `(p,)`, layer after layer. The gradient of the output in a layer's weights is an outer product:
delta_l (x) [a_{l-1}, 1], where a_{l-1} `(n_{l-1},)` is what the layer takes in and delta_l `(n_l,)` the slope of the
output in what the layer adds up. A row of *factors* `(f,)` holds a_0, delta_1, a_1, delta_2, ... one after another: all
that there is to know of a gradient, in f = sum (n_{l-1} + n_l) numbers rather than p. `sizes (L + 1,)` is n_0 to n_L.
"""

from itertools import pairwise

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import add_product, dot

SIDE_BY_SIDE = 64
"""Rows that go through the network together."""


def count_weights(sizes: IntArray) -> int:
    """Count the weights p."""
    return int((sizes[1:] * (sizes[:-1] + 1)).sum())


def count_factors(sizes: IntArray) -> int:
    """Count the factors f of a gradient."""
    return int((sizes[1:] + sizes[:-1]).sum())


def new_params(sizes: IntArray, *, rng: np.random.Generator) -> FloatArray:
    """Return fresh weights `(p,)`, uniform in +-1/sqrt(inputs) as torch's linear layers start."""
    layers = [rng.uniform(-1, 1, m * (n + 1)) / np.sqrt(n) for n, m in pairwise(sizes)]
    return np.concatenate(layers)


@jit
def factorise(params: FloatArray, sizes: IntArray, x: FloatArray, scale: float, out: FloatArray) -> float:
    """Write the factors `(f,)` of `scale` times the gradient at `x (n_0,)` to `out`; return the network's output.

    ReLU has slope 0 at 0.
    """
    result = _forward(params, sizes, x, out)
    out[out.shape[0] - 1] = scale
    _backward(params, sizes, out)
    return result


@jit
def _forward(params: FloatArray, sizes: IntArray, x: FloatArray, out: FloatArray) -> float:
    """Write what each layer takes in to its place in `out (f,)`; return the network's output."""
    first_weight = 0
    offset = 0
    result = 0.0
    out[: x.shape[0]] = x
    for layer in range(1, sizes.shape[0]):
        n_in = sizes[layer - 1]
        n_out = sizes[layer]
        inputs = out[offset : offset + n_in]
        after = offset + n_in + n_out
        for i in range(n_out):
            row = params[first_weight + i * (n_in + 1) : first_weight + (i + 1) * (n_in + 1)]
            result = dot(row[:n_in], inputs) + row[n_in]
            if layer < sizes.shape[0] - 1:
                out[after + i] = max(result, 0.0)
        first_weight += n_out * (n_in + 1)
        offset = after
    return result


@jit
def _backward(params: FloatArray, sizes: IntArray, out: FloatArray) -> None:
    """Carry the slope in the last layer, at the end of `out (f,)`, down to the layers below."""
    first_weight = params.shape[0]
    offset = out.shape[0]
    for layer in range(sizes.shape[0] - 1, 1, -1):
        n_in = sizes[layer - 1]
        n_out = sizes[layer]
        first_weight -= n_out * (n_in + 1)
        offset -= n_in + n_out
        inputs = out[offset : offset + n_in]
        deltas = out[offset + n_in : offset + n_in + n_out]
        down = np.zeros(n_in + 1)
        add_product(deltas, params[first_weight : first_weight + n_out * (n_in + 1)].reshape(n_out, n_in + 1), down)
        for i in range(n_in):
            out[offset - n_in + i] = down[i] if inputs[i] > 0.0 else 0.0


@jit
def factorise_rows(
    params: FloatArray, sizes: IntArray, xs: FloatArray, scale: float, out: FloatArray, outputs: FloatArray
) -> None:
    """Write the factors `(n, f)` of the gradients at the rows of `xs (n, n_0)`, and the network's `outputs (n,)`.

    They have the bits of `factorise`. Rows side by side take a quarter of the time, as no sum waits for another.
    """
    for start in range(0, xs.shape[0], SIDE_BY_SIDE):
        part = out[start : start + SIDE_BY_SIDE]
        _forward_rows(params, sizes, xs[start : start + SIDE_BY_SIDE], part, outputs[start : start + SIDE_BY_SIDE])
        for n in range(part.shape[0]):
            part[n, part.shape[1] - 1] = scale
            _backward(params, sizes, part[n])


@jit
def _forward_rows(params: FloatArray, sizes: IntArray, xs: FloatArray, out: FloatArray, outputs: FloatArray) -> None:
    """Do `_forward` for all rows of `xs (n, n_0)`."""
    first_weight = 0
    offset = 0
    inputs = np.empty((xs.shape[1], xs.shape[0]))
    for r in range(xs.shape[0]):
        for i in range(xs.shape[1]):
            out[r, i] = inputs[i, r] = xs[r, i]
    for layer in range(1, sizes.shape[0]):
        n_in = sizes[layer - 1]
        n_out = sizes[layer]
        sums = np.empty((n_out, xs.shape[0]))
        for i in range(n_out):
            row = params[first_weight + i * (n_in + 1) : first_weight + (i + 1) * (n_in + 1)]
            _dots(row[:n_in], inputs, sums[i])
            for r in range(xs.shape[0]):
                sums[i, r] += row[n_in]
                if layer == sizes.shape[0] - 1:
                    outputs[r] = sums[i, r]
                else:
                    sums[i, r] = max(sums[i, r], 0.0)
                    out[r, offset + n_in + n_out + i] = sums[i, r]
        inputs = sums
        first_weight += n_out * (n_in + 1)
        offset += n_in + n_out


@jit
def _dots(x: FloatArray, columns: FloatArray, out: FloatArray) -> None:
    """Write the inner products `(m,)` of x `(n,)` and each of `columns (n, m)`, with the bits of `dot`."""
    sums = np.zeros((4, columns.shape[1]))
    # Four partial sums, added in pairs, in the order of `dot`.
    a = sums[0]
    b = sums[1]
    c = sums[2]
    d = sums[3]
    i = 0
    while i < x.shape[0] - 3:
        for j in range(out.shape[0]):
            a[j] += x[i] * columns[i, j]
            b[j] += x[i + 1] * columns[i + 1, j]
            c[j] += x[i + 2] * columns[i + 2, j]
            d[j] += x[i + 3] * columns[i + 3, j]
        i += 4
    while i < x.shape[0]:
        for j in range(out.shape[0]):
            a[j] += x[i] * columns[i, j]
        i += 1
    for j in range(out.shape[0]):
        out[j] = (a[j] + b[j]) + (c[j] + d[j])


@jit
def expand(factors: FloatArray, sizes: IntArray, first: int, out: FloatArray) -> None:
    """Write the gradient in the weights of layers `first`, ..., L - 1 (counted from 0) that `factors` stand for."""
    offset = 0
    weight_index = 0
    for layer in range(1, sizes.shape[0]):
        n_in = sizes[layer - 1]
        n_out = sizes[layer]
        if layer > first:
            for i in range(n_out):
                delta = factors[offset + n_in + i]
                for j in range(n_in):
                    out[weight_index + j] = delta * factors[offset + j]
                out[weight_index + n_in] = delta
                weight_index += n_in + 1
        offset += n_in + n_out


@jit
def fit_rows(
    trained: FloatArray,
    sizes: IntArray,
    xs: FloatArray,
    weights: FloatArray,
    targets: FloatArray,
    rate: float,
    step: int,
) -> None:
    """Take Adam step number `step` = 1, 2, ... on the weighted mean squared error.

    `trained (3, p)`: the weights, and their first and second moments; `xs (n, n_0)`, `weights (n,)` at least 0 with a
    sum above 0, `targets (n,)`.
    """
    gradient = np.zeros(trained.shape[1])
    part = np.empty(trained.shape[1])
    factors = np.empty(np.sum(sizes) + np.sum(sizes[1:-1]))
    total = weights.sum()
    for n in range(xs.shape[0]):
        output = factorise(trained[0], sizes, xs[n], 1.0, factors)
        expand(factors, sizes, 0, part)
        slope = 2.0 * weights[n] * (output - targets[n]) / total
        for i in range(gradient.shape[0]):
            gradient[i] += slope * part[i]
    adam_step(trained, gradient, rate, step)


@jit
def adam_step(trained: FloatArray, gradient: FloatArray, rate: float, step: int) -> None:
    """Move the weights in `trained (3, p)` against `gradient (p,)` (Adam, Kingma & Ba 2015, with torch's defaults)."""
    params = trained[0]
    first = trained[1]
    second = trained[2]
    size = rate / (1.0 - 0.9**step)
    root = 1.0 / np.sqrt(1.0 - 0.999**step)
    for i in range(params.shape[0]):
        first[i] = 0.9 * first[i] + 0.1 * gradient[i]
        second[i] = 0.999 * second[i] + 0.001 * gradient[i] * gradient[i]
        params[i] -= size * first[i] / (np.sqrt(second[i]) * root + 1e-8)
