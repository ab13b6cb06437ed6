"""A small network that is trained online: features -> hidden (ReLU) -> embedding (linear or ReLU) -> one prediction.

All weights are one flat vector `(p,)` in float32: the two layers as `zoosim.nets` has them, then the prediction's head.
"""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import Float32Array, FloatArray, IntArray
from zoosim.nets.heads import fresh_heads
from zoosim.nets.network import (
    LINEAR,
    OUTPUTS,
    RELU,
    add_gradient,
    descend,
    fresh_weights,
    make_layers,
    new_workspace,
    rows_up,
)

ROWS_AT_ONCE = 64


def embedding_layers(dim: int, hidden: int, embedding: int, units: int = LINEAR) -> IntArray:
    """Return the table of the two layers, whose embedding has `units` `LINEAR` or `RELU`."""
    return make_layers([dim, hidden, embedding], [RELU, units], "by input")


def new_params(dim: int, hidden: int, embedding: int, *, rng: np.random.Generator) -> Float32Array:
    """Return fresh weights `(p,)`."""
    lower = fresh_weights(embedding_layers(dim, hidden, embedding), rng=rng)
    return np.concatenate([lower, fresh_heads(1, embedding, rng=rng)]).astype(np.float32)


@jit
def embed(params: Float32Array, layers: IntArray, xs: Float32Array, z: FloatArray) -> None:
    """Write the embedding `(n, e)` of each row of `xs (n, d)`."""
    hidden = layers[0, OUTPUTS]
    work = new_workspace(layers, min(ROWS_AT_ONCE, xs.shape[0]), params)
    for start in range(0, xs.shape[0], ROWS_AT_ONCE):
        chosen = np.arange(start, min(start + ROWS_AT_ONCE, xs.shape[0]))
        _, units, _ = rows_up(params, layers, xs, chosen, work)
        for n in range(chosen.shape[0]):
            for j in range(z.shape[1]):
                z[start + n, j] = units[hidden + j, n]


@jit
def embedding_gradient(
    params: Float32Array, layers: IntArray, xs: Float32Array, slope: FloatArray, gradient: Float32Array
) -> None:
    """Add to `gradient (p,)` what the `slope (e,)` of a loss at the embedding of `xs (1, d)` asks of the two layers."""
    hidden = layers[0, OUTPUTS]
    work = new_workspace(layers, 1, params)
    inputs, units, slopes = rows_up(params, layers, xs, np.zeros(1, np.int64), work)
    for j in range(slope.shape[0]):
        slopes[hidden + j, 0] = slope[j]
    descend(params, layers, slopes, work.scratch)
    add_gradient(layers, inputs, units, slopes, work, gradient)
