"""A tower: a small network from the features of a visitor, or of a product, to a vector."""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import Float32Array, FloatArray, IntArray
from zoosim.nets.network import (
    LINEAR,
    OUTPUTS,
    SMOOTH,
    count_units,
    fresh_weights,
    make_layers,
    new_workspace,
    rows_up,
)

ROWS_AT_ONCE = 256

LEAST_SHARE = 1e-6
"""Least standard deviation of a feature, as a share of its mean: less is rounding in 32 bits."""


class Tower(NamedTuple):
    """A network of one hidden layer.

    Attributes:
        weights: Its weights, flat `(p,)`.
        layers: Where they stand, as `zoosim.nets.network` has it.
        center: What is subtracted from features `(d,)`.
        scale: What they are multiplied with then `(d,)`; 0 where a feature never varied.
    """

    weights: Float32Array
    layers: IntArray
    center: FloatArray
    scale: FloatArray

    @property
    def size(self) -> int:
        """Numbers of a vector."""
        return int(self.layers[-1, OUTPUTS])

    def inputs(self, features: FloatArray) -> Float32Array:
        """Return features `(n, d)` as the network takes them `(n, d)`, one of 0 alone where there is no feature."""
        if not features.shape[1]:
            return np.zeros((len(features), 1), np.float32)
        return ((features - self.center) * self.scale).astype(np.float32)

    def vectors(self, features: FloatArray) -> Float32Array:
        """Return the vectors `(n, size)` of rows of features `(n, d)`."""
        out = np.empty((len(features), self.size), np.float32)
        _embed(self.weights, self.layers, self.inputs(features), out)
        return out


def tower_layers(n_features: int, hidden: int, size: int) -> IntArray:
    """Return the table of layers of a tower for so many features."""
    return make_layers([max(n_features, 1), hidden, size], [SMOOTH, LINEAR], "by input")


def new_tower(features: FloatArray, hidden: int, size: int, *, rng: np.random.Generator) -> Tower:
    """Return a tower for rows like `features (n, d)`; it brings columns to mean 0 and standard deviation 1.

    Columns of 0 and 1 are taken as they are: a rare level would become a number that outweighs all others.
    """
    layers = tower_layers(features.shape[1], hidden, size)
    center = np.zeros(features.shape[1])
    scale = np.ones(features.shape[1])
    for place, column in enumerate(features.T):
        if np.isin(column, (0.0, 1.0)).all():
            continue
        center[place] = column.mean()
        deviation = column.std()
        scale[place] = 1.0 / deviation if deviation > LEAST_SHARE * abs(center[place]) else 0.0
    return Tower(fresh_weights(layers, rng=rng).astype(np.float32), layers, center, scale)


@jit
def _embed(weights: Float32Array, layers: IntArray, inputs: Float32Array, out: Float32Array) -> None:
    """Write what the network puts out `(n, size)` for each row of `inputs (n, d)`."""
    size = out.shape[1]
    total = count_units(layers)
    work = new_workspace(layers, min(ROWS_AT_ONCE, inputs.shape[0]), weights)
    for start in range(0, inputs.shape[0], ROWS_AT_ONCE):
        chosen = np.arange(start, min(start + ROWS_AT_ONCE, inputs.shape[0]))
        _, units, _ = rows_up(weights, layers, inputs, chosen, work)
        for n in range(chosen.shape[0]):
            for j in range(size):
                out[start + n, j] = units[total - size + j, n]
