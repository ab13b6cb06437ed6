"""A multilayer perceptron of any size with one output, and the factors of its gradients.

Layer l has one matrix `(n_l, n_{l-1} + 1)`, the bias in the last column, and ReLU between layers. All weights are one
flat float64 vector `(p,)`, layer after layer. The gradient of the output in a layer's weights is an outer product:
delta_l (x) [a_{l-1}, 1], where a_{l-1} `(n_{l-1},)` is what the layer takes in and delta_l `(n_l,)` the slope of the
output in what the layer adds up. A row of *factors* `(f,)` holds a_0, delta_1, a_1, delta_2, ... one after another: all
that there is to know of a gradient, in f = sum (n_{l-1} + n_l) numbers rather than p. `sizes (L + 1,)` is n_0 to n_L,
`layers` the table of `zoosim.nets`.
"""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.nets.network import (
    INPUTS,
    LINEAR,
    OUTPUTS,
    RELU,
    descend,
    make_layers,
    new_workspace,
    rows_up,
)

SIDE_BY_SIDE = 64
"""Rows that go through the network together."""


def count_weights(sizes: IntArray) -> int:
    """Count the weights p."""
    return int((sizes[1:] * (sizes[:-1] + 1)).sum())


def count_factors(sizes: IntArray) -> int:
    """Count the factors f of a gradient."""
    return int((sizes[1:] + sizes[:-1]).sum())


def perceptron(sizes: IntArray) -> IntArray:
    """Return the table of the layers."""
    return make_layers(sizes.tolist(), [RELU] * (len(sizes) - 2) + [LINEAR], "with bias")


@jit
def factorise_rows(
    params: FloatArray, layers: IntArray, xs: FloatArray, scale: float, out: FloatArray, outputs: FloatArray
) -> None:
    """Write the factors `(n, f)` of `scale` times the gradients at the rows of `xs (n, n_0)`, and `outputs (n,)`."""
    work = new_workspace(layers, min(SIDE_BY_SIDE, xs.shape[0]), params)
    for start in range(0, xs.shape[0], SIDE_BY_SIDE):
        chosen = np.arange(start, min(start + SIDE_BY_SIDE, xs.shape[0]))
        inputs, units, slopes = rows_up(params, layers, xs, chosen, work)
        for j in range(chosen.shape[0]):
            outputs[start + j] = units[-1, j]
            # A gradient is delta (x) [a, 1]: scaled here, all deltas are, and with them the gradient, once.
            slopes[-1, j] = scale
        descend(params, layers, slopes, work.scratch)
        _write_factors(layers, inputs, units, slopes, out[start : start + chosen.shape[0]])


@jit
def _write_factors(
    layers: IntArray, inputs: FloatArray, units: FloatArray, slopes: FloatArray, out: FloatArray
) -> None:
    """Write what each layer takes in and the slopes in its sums, side by side, to `out (w, f)`."""
    offset = 0
    start = 0
    below = inputs
    for layer in range(layers.shape[0]):
        n_in = layers[layer, INPUTS]
        end = start + layers[layer, OUTPUTS]
        for j in range(out.shape[0]):
            for i in range(n_in):
                out[j, offset + i] = below[i, j]
            for i in range(start, end):
                out[j, offset + n_in + i - start] = slopes[i, j]
        offset += n_in + end - start
        below = units[start:end]
        start = end


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
