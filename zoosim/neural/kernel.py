"""Inner products of gradients, from their factors: the neural tangent kernel (Jacot, Gabriel & Hongler 2018).

For two rows of factors (`zoosim.neural.mlp`) it is sum_l (delta_l . delta'_l) (a_{l-1} . a'_{l-1} + 1). `first` leaves
out the layers below it (counted from 0): the last one alone gives the kernel of a last-layer model.
"""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import add_matrix, dot
from zoosim.neural.mlp import SIDE_BY_SIDE, factorise_rows

LEAST = 1e-10
"""The least noise, as a share of a gradient's squared length, at which double precision still follows the posterior."""


@jit
def noise_of(noise: float, length: float) -> float:
    """Return the variance of an observation's noise, raised where rounding would drown it: `length` is squared."""
    return max(noise, LEAST * length)


@jit
def norm(factors: FloatArray, sizes: IntArray, first: int) -> float:
    """Return the squared length of the gradient that `factors (f,)` stand for."""
    total = 0.0
    offset = 0
    for layer in range(1, sizes.shape[0]):
        n_in = sizes[layer - 1]
        n_out = sizes[layer]
        if layer > first:
            inputs = factors[offset : offset + n_in]
            deltas = factors[offset + n_in : offset + n_in + n_out]
            total += np.sum(deltas * deltas) * (np.sum(inputs * inputs) + 1.0)
        offset += n_in + n_out
    return total


@jit
def trace(factors: FloatArray, weights: FloatArray, sizes: IntArray, first: int) -> float:
    """Return the sum of `weights (n,)` times the squared lengths of the gradients of `factors (n, f)`."""
    total = 0.0
    for i in range(weights.shape[0]):
        total += weights[i] * norm(factors[i], sizes, first)
    return total


@jit
def cross(factor_rows: FloatArray, columns: FloatArray, sizes: IntArray, first: int, out: FloatArray) -> None:
    """Write the inner products `(n, m)` of the rows of `factor_rows (n, f)` and the columns of `columns (f, m)`."""
    inner = np.empty((4, out.shape[1]))
    outer = np.empty((4, out.shape[1]))
    for i in range(0, factor_rows.shape[0], 4):
        rows = factor_rows[i : i + 4]
        out[i : i + 4] = 0.0
        offset = 0
        for layer in range(1, sizes.shape[0]):
            middle = offset + sizes[layer - 1]
            end = middle + sizes[layer]
            if layer > first:
                # From 1 on, for the bias: its gradient is delta itself, as if its input were 1.
                inner[:] = 1.0
                outer[:] = 0.0
                add_matrix(rows[:, offset:middle], columns[offset:middle], inner[: len(rows)])
                add_matrix(rows[:, middle:end], columns[middle:end], outer[: len(rows)])
                for j in range(rows.shape[0]):
                    out[i + j] += inner[j] * outer[j]
            offset = end


@jit
def column(factor_rows: FloatArray, factors: FloatArray, sizes: IntArray, first: int, out: FloatArray) -> None:
    """Write the inner products `(n,)` of the rows of `factor_rows (n, f)` and one row of `factors (f,)`."""
    for i in range(factor_rows.shape[0]):
        total = 0.0
        offset = 0
        for layer in range(1, sizes.shape[0]):
            middle = offset + sizes[layer - 1]
            end = middle + sizes[layer]
            if layer > first:
                inner = dot(factor_rows[i, offset:middle], factors[offset:middle]) + 1.0
                total += inner * dot(factor_rows[i, middle:end], factors[middle:end])
            offset = end
        out[i] = total


@jit
def weighted_gradients(factors: FloatArray, weights: FloatArray, sizes: IntArray, first: int, out: FloatArray) -> None:
    """Write the sum `(p,)` of the gradients that `factors (n, f)` stand for, times `weights (n,)`."""
    out[:] = 0.0
    for row in range(weights.shape[0]):
        offset = 0
        weight_index = 0
        for layer in range(1, sizes.shape[0]):
            n_in = sizes[layer - 1]
            n_out = sizes[layer]
            if layer > first:
                for i in range(n_out):
                    slope = weights[row] * factors[row, offset + n_in + i]
                    if slope != 0.0:  # about half of the units of a ReLU network
                        for j in range(n_in):
                            out[weight_index + j] += slope * factors[row, offset + j]
                        out[weight_index + n_in] += slope
                    weight_index += n_in + 1
            offset += n_in + n_out


@jit
def means_and_norms(
    params: FloatArray,
    layers: IntArray,
    sizes: IntArray,
    first: int,
    scale: float,
    xs: FloatArray,
    theta: FloatArray,
    means: FloatArray,
    norms: FloatArray,
) -> None:
    """Write g'theta `(n,)` at the rows of `xs (n, n_0)` and the squared lengths of scaled gradients g."""
    outputs = np.empty(xs.shape[0])
    for start in range(0, xs.shape[0], SIDE_BY_SIDE):
        end = min(start + SIDE_BY_SIDE, xs.shape[0])
        factors = np.empty((end - start, np.sum(sizes) + np.sum(sizes[1:-1])))
        factorise_rows(params, layers, xs[start:end], scale, factors, outputs[start:end])
        _along(factors.T.copy(), theta, sizes, first, means[start:end], norms[start:end])


@jit
def _along(
    columns: FloatArray, theta: FloatArray, sizes: IntArray, first: int, means: FloatArray, norms: FloatArray
) -> None:
    """Write g'theta and g'g `(n,)` of the gradients g whose factors are `columns (f, n)`, without expanding them."""
    means[:] = 0.0
    norms[:] = 0.0
    part = np.empty((4, means.shape[0]))
    inner = np.empty(means.shape[0])
    outer = np.empty(means.shape[0])
    offset = 0
    weight_index = 0
    for layer in range(1, sizes.shape[0]):
        n_in = sizes[layer - 1]
        n_out = sizes[layer]
        if layer > first:
            inputs = columns[offset : offset + n_in]
            deltas = columns[offset + n_in : offset + n_in + n_out]
            weights = theta[weight_index : weight_index + n_out * (n_in + 1)].reshape(n_out, n_in + 1)
            for i in range(0, n_out, 4):
                # g'theta of a layer is delta' (Theta a + theta_bias): outer products are never formed.
                block = part[: min(4, n_out - i)]
                block[:] = 0.0
                add_matrix(weights[i : i + 4, :n_in], inputs, block)
                for j in range(block.shape[0]):
                    means += deltas[i + j] * (block[j] + weights[i + j, n_in])
            inner[:] = 1.0
            outer[:] = 0.0
            for i in range(n_in):
                inner += inputs[i] * inputs[i]
            for i in range(n_out):
                outer += deltas[i] * deltas[i]
            norms += inner * outer
            weight_index += n_out * (n_in + 1)
        offset += n_in + n_out


@jit
def outputs_and_norms(
    params: FloatArray,
    layers: IntArray,
    sizes: IntArray,
    first: int,
    scale: float,
    xs: FloatArray,
    outputs: FloatArray,
    norms: FloatArray,
) -> None:
    """Write the network's outputs `(n,)` at the rows of `xs (n, n_0)` and the squared lengths of scaled gradients."""
    factors = np.empty((SIDE_BY_SIDE, np.sum(sizes) + np.sum(sizes[1:-1])))
    for start in range(0, xs.shape[0], SIDE_BY_SIDE):
        end = min(start + SIDE_BY_SIDE, xs.shape[0])
        factorise_rows(params, layers, xs[start:end], scale, factors[: end - start], outputs[start:end])
        for n in range(start, end):
            norms[n] = norm(factors[n - start], sizes, first)
