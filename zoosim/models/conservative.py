"""Train an ensemble on a log alone, so that it promises little where the log has nothing (Kumar et al. 2020, CQL).

To each member's squared error comes alpha times (log of the sum of exp Q over actions drawn from the box) - Q of the
logged action: values are pushed down where a softmax over actions would look, and held up where the log has been.
"""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.rng import uniform
from zoosim.core.types import Float32Array, FloatArray, IntArray
from zoosim.models.ensemble_net import Ensemble, as_tile, climb_member, first_layer
from zoosim.nets.adam import adam_step
from zoosim.nets.network import OUTPUTS, Workspace, add_gradient, block, count_units, descend, new_workspace

OTHERS = 8
"""Actions that are drawn from the box beside each logged one."""


@jit
def fit_conservative(
    net: Ensemble,
    rows: FloatArray,
    targets: FloatArray,
    weights: Float32Array,
    key: np.uint64,
    n_steps: int,
    batch_size: int,
    rate: float,
    alpha: float,
    a_max: float,
) -> None:
    """Take `n_steps` Adam steps with every member on batches drawn from `rows (n, d)` of state and action.

    `targets (n,)` as the networks put them out, `weights (M, n)`; the rate falls to 0.
    """
    count = rows.shape[0]
    states = net.states
    width = batch_size * (1 + OTHERS)
    drawn = np.empty((width, rows.shape[1]))
    chosen = np.empty(batch_size, np.int64)
    work = new_workspace(net.layers, width, net.trained[0, 0])
    gradient = np.zeros(net.trained.shape[2], np.float32)
    for m in range(net.trained.shape[0]):
        for step in range(n_steps):
            # One number for each step and member, so that every batch has draws of its own.
            draw = step * net.trained.shape[0] + m
            for b in range(batch_size):
                chosen[b] = int(uniform(key, draw, b) * count)
                for j in range(1 + OTHERS):
                    drawn[b * (1 + OTHERS) + j] = rows[chosen[b]]
                    for i in range(states, rows.shape[1]):
                        if j > 0:
                            # Numbers below `batch_size` have drawn the rows.
                            number = batch_size + (b * OTHERS + j) * rows.shape[1] + i
                            drawn[b * (1 + OTHERS) + j, i] = a_max * (2.0 * uniform(key, draw, number) - 1.0)
            rate_share = 1.0 - step / n_steps
            _add_gradient(net, m, drawn, chosen, targets, weights[m], alpha, work, gradient)
            adam_step(net.trained[m], gradient, rate * rate_share, step + 1)


@jit
def _add_gradient(
    net: Ensemble,
    member: int,
    drawn: FloatArray,
    chosen: IntArray,
    targets: FloatArray,
    weights: Float32Array,
    alpha: float,
    work: Workspace,
    gradient: Float32Array,
) -> None:
    width = drawn.shape[0]
    total = count_units(net.layers)
    tile = block(work.inputs, drawn.shape[1], width)
    units = block(work.units, total, width)
    slopes = block(work.slopes, total, width)
    params = net.trained[member, 0]
    as_tile(drawn, net.centre, net.scale, tile)
    first_layer(net, member, tile[: net.states], units[: net.layers[0, OUTPUTS]])
    climb_member(net, member, tile[net.states :], units, slopes)
    values = units[total - 1]
    out = slopes[total - 1]
    for b in range(chosen.shape[0]):
        first = b * (1 + OTHERS)
        n = chosen[b]
        # Taken off all values, so that no exponential overflows.
        highest = np.max(values[first : first + 1 + OTHERS])
        # The logged action, the first of its row, counts among those of the softmax.
        mass = 0.0
        for j in range(first, first + 1 + OTHERS):
            mass += np.exp(values[j] - highest)
        for j in range(first, first + 1 + OTHERS):
            # The slope of alpha log sum exp Q in Q_j is alpha softmax_j; that
            # of -alpha Q, for the logged one, follows below.
            out[j] = alpha * np.exp(values[j] - highest) / mass / chosen.shape[0]
        error = values[first] - targets[n]
        out[first] += (2.0 * weights[n] * error - alpha) / chosen.shape[0]
    descend(params, net.layers, slopes, work.scratch)
    add_gradient(net.layers, tile, units, slopes, work, gradient)
