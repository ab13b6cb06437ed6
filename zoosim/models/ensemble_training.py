"""Train an ensemble on rows and rewards: Adam on each member's own weighted squared error, each in its own order.

Weights of rows are drawn as in the Bayesian bootstrap (Rubin 1981): Exp(1), for each row and member. They belong to
what a row holds, so that a replay memory may bring a row again and again, in any place: each member has its own view of
the data, and members differ most where there is little of it.
"""

import numpy as np
from numpy.typing import NDArray

from zoosim.core.jit import jit
from zoosim.core.rng import mix, uniform
from zoosim.core.types import Float32Array, FloatArray, IntArray
from zoosim.models.ensemble_net import Ensemble, as_tile, climb_member, first_layer
from zoosim.nets.adam import adam_step
from zoosim.nets.network import (
    OUTPUTS,
    Workspace,
    add_gradient,
    block,
    count_units,
    descend,
    fresh_weights,
    new_workspace,
    with_moments,
)

GAIN = 0.6
"""Width of the first weights in units of 1/sqrt(inputs); 1 is how torch starts. Smaller ones start smoother."""


def new_weights(layers: IntArray, members: int, *, rng: np.random.Generator) -> Float32Array:
    """Return fresh `trained (M, 3, p)`: weights uniform in +-GAIN/sqrt(inputs), moments 0."""
    return np.stack([with_moments(fresh_weights(layers, GAIN, rng=rng)) for _ in range(members)]).astype(np.float32)


def bootstrap_weights(key: np.uint64, rows: FloatArray, members: int) -> Float32Array:
    """Return draws from Exp(1), `(M, n)`; those of a row are settled by what `rows (n, d)` holds there.

    Of equal rows the first, the second and so on have draws of their own.
    """
    names = np.empty(len(rows), np.uint64)
    out = np.empty((members, len(rows)), np.float32)
    _name_rows(rows, names)
    _exponentials(key, names, _occurrences(names), out)
    return out


def visit_weights(key: np.uint64, numbers: IntArray, members: int) -> Float32Array:
    """Return draws from Exp(1), `(M, n)`, settled by the `numbers (n,)` of rows: a replay may draw a row twice."""
    out = np.empty((members, len(numbers)), np.float32)
    _exponentials(key, numbers.astype(np.uint64), np.zeros(len(numbers), np.int64), out)
    return out


def _occurrences(names: NDArray[np.uint64]) -> IntArray:
    """Count, for each of `names (n,)`, how many equal ones stand before it."""
    order = np.argsort(names, kind="stable")
    places = np.arange(len(names))
    ordered = names[order]
    out = np.empty(len(names), np.int64)
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    # Equal names stand together, in the order of their rows: the place less that of the first one of the run.
    out[order] = places - np.maximum.accumulate(np.where(first, places, 0))
    return out


@jit
def _name_rows(rows: FloatArray, out: NDArray[np.uint64]) -> None:
    """Hash each of `rows (n, d)` to 64 bits."""
    for n in range(rows.shape[0]):
        out[n] = 0
        for bits in rows[n].view(np.uint64):
            # Mixed after each number, so that the same numbers in another order have another hash.
            out[n] = mix(np.uint64(out[n] ^ bits))


@jit
def _exponentials(key: np.uint64, names: NDArray[np.uint64], occurrences: IntArray, out: Float32Array) -> None:
    for n in range(names.shape[0]):
        for m in range(out.shape[0]):
            out[m, n] = -np.log(1.0 - uniform(np.uint64(key ^ names[n]), occurrences[n], m))  # 1 - U lies in (0, 1]


@jit
def fit(
    net: Ensemble,
    rows: FloatArray,
    targets: FloatArray,
    weights: Float32Array,
    key: np.uint64,
    steps: IntArray,
    n_epochs: int,
    batch_size: int,
    rate: float,
) -> None:
    """Train all members on `rows (n, d)`, `targets (n,)` as the networks put them out, and `weights (M, n)`.

    `steps (2,)` counts Adam's steps and the epochs so far, and goes on; epoch number e of member m runs in an order of
    its own, settled by (key, e, m).
    """
    count = rows.shape[0]
    members = net.trained.shape[0]
    inputs = np.empty((rows.shape[1], count), np.float32)
    as_tile(rows, net.centre, net.scale, inputs)
    work = new_workspace(net.layers, min(batch_size, count), net.trained[0, 0])
    gradient = np.zeros(net.trained.shape[2], np.float32)
    before = steps[0]
    for m in range(members):
        steps[0] = before  # every member counts Adam's steps from the same number
        for epoch in range(n_epochs):
            order = shuffled(key, (steps[1] + epoch) * members + m, count)
            for start in range(0, count, batch_size):
                steps[0] += 1
                chosen = order[start : start + batch_size]
                _add_errors(net, m, inputs, targets, weights[m], chosen, work, gradient)
                adam_step(net.trained[m], gradient, rate, steps[0])
    steps[1] += n_epochs


@jit
def shuffled(key: np.uint64, i: int, count: int) -> IntArray:
    """Return 0, ..., count - 1 in an order settled by (key, i) (Fisher & Yates 1938, Durstenfeld 1964)."""
    order = np.arange(count)
    for n in range(count - 1, 0, -1):
        other = int(uniform(key, i, n) * (n + 1))
        order[n], order[other] = order[other], order[n]
    return order


@jit
def _add_errors(
    net: Ensemble,
    member: int,
    inputs: Float32Array,
    targets: FloatArray,
    weights: Float32Array,
    chosen: IntArray,
    work: Workspace,
    gradient: Float32Array,
) -> None:
    """Add the gradient of the mean weighted squared error of the `chosen (b,)` columns of `inputs (d, n)`."""
    width = chosen.shape[0]
    total = count_units(net.layers)
    tile = block(work.inputs, inputs.shape[0], width)
    units = block(work.units, total, width)
    slopes = block(work.slopes, total, width)
    for j in range(width):
        for i in range(inputs.shape[0]):
            tile[i, j] = inputs[i, chosen[j]]
    params = net.trained[member, 0]
    first_layer(net, member, tile[: net.states], units[: net.layers[0, OUTPUTS]])
    climb_member(net, member, tile[net.states :], units, slopes)
    for j in range(width):
        # The output is linear, so the slope of the error along it is the one along its sum.
        slopes[total - 1, j] = 2.0 * weights[chosen[j]] * (units[total - 1, j] - targets[chosen[j]]) / width
    descend(params, net.layers, slopes, work.scratch)
    add_gradient(net.layers, tile, units, slopes, work, gradient)
