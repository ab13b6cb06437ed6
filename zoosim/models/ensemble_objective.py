"""An ensemble as an objective for optimisers: m requests, n candidate actions each.

What the first layer adds up over a request's state is computed once for all its candidates. Figures equal those of
`predict_rows` to the bit, whatever m and n are.
"""

import numpy as np

from zoosim.core.checks import check_array
from zoosim.core.jit import jit
from zoosim.core.types import Float32Array, FloatArray
from zoosim.models.ensemble_net import TILE, Ensemble, as_tile, climb_member, copy, first_layer, summarise
from zoosim.nets.network import OUTPUTS, count_units


@jit
def state_parts(net: Ensemble, states: FloatArray) -> Float32Array:
    """Return what the first layer of each member adds up over bias and state, `(m, M, n_1)`, for `states (m, d_s)`."""
    requests = states.shape[0]
    members = net.trained.shape[0]
    d = net.states
    out = np.empty((requests, members, net.layers[0, OUTPUTS]), np.float32)
    for start in range(0, requests, TILE):
        end = min(start + TILE, requests)
        tile = np.empty((d, end - start), np.float32)
        part = np.empty((net.layers[0, OUTPUTS], end - start), np.float32)
        as_tile(states[start:end], net.centre[:d], net.scale[:d], tile)
        for m in range(members):
            first_layer(net, m, tile, part)
            for n in range(end - start):
                copy(part[:, n], out[start + n, m])
    return out


@jit
def mean_std(net: Ensemble, parts: Float32Array, actions: FloatArray, mean: FloatArray, std: FloatArray) -> None:
    """Write mean and standard deviation `(m, n)` of `actions (m, n, d_a)`; `parts` from `state_parts`."""
    per_request = actions.shape[1]
    rows = actions.reshape(-1, actions.shape[2])
    means = mean.reshape(-1)
    stds = std.reshape(-1)
    for start in range(0, rows.shape[0], TILE):
        end = min(start + TILE, rows.shape[0])
        outputs, _ = tile_up(net, parts, rows[start:end], start, per_request)
        summarise(outputs, net.reward, means[start:end], stds[start:end])


@jit
def tile_up(
    net: Ensemble, parts: Float32Array, rows: FloatArray, start: int, per_request: int
) -> tuple[FloatArray, Float32Array]:
    """Return outputs `(M, w)` and slopes of all units `(M, sum n_l, w)` at actions `rows (w, d_a)`.

    They are numbers `start`, ... of all rows, of which each request has `per_request`.
    """
    members = net.trained.shape[0]
    d = net.states
    total = count_units(net.layers)
    width = rows.shape[0]
    tile = np.empty((rows.shape[1], width), np.float32)
    units = np.empty((total, width), np.float32)
    outputs = np.empty((members, width))
    slopes = np.empty((members, total, width), np.float32)
    as_tile(rows, net.centre[d:], net.scale[d:], tile)
    for m in range(members):
        _start_from(parts, m, start, per_request, units[: net.layers[0, OUTPUTS]])
        # Sums begin with bias and state and go on with actions, the order of `predict_rows`: hence the same bits.
        climb_member(net, m, tile, units, slopes[m])
        copy(units[total - 1], outputs[m])
    return outputs, slopes


@jit
def _start_from(parts: Float32Array, member: int, start: int, per_request: int, out: Float32Array) -> None:
    """Fill each column of `out (n_1, w)` with the part of the request that row `start` + column belongs to."""
    first = 0
    while first < out.shape[1]:
        request = (start + first) // per_request
        last = min((request + 1) * per_request - start, out.shape[1])
        for i in range(out.shape[0]):
            for j in range(first, last):
                out[i, j] = parts[request, member, i]
        first = last


class EnsembleObjective:
    """mean + beta std of an ensemble as a function of actions, for one state or for many at once.

    For one state `(d_s,)` actions are `(n, d_a)` and values `(n,)`; for m states `(m, d_s)`, one per request, they are
    `(m, n, d_a)` and `(m, n)`. The objective is of the networks as they were when it was made.
    """

    def __init__(self, net: Ensemble, states: FloatArray, beta: float) -> None:
        """Make the objective; `states` have been checked."""
        self.beta = beta
        self.single = states.ndim == 1
        self.net = net
        self.parts = state_parts(net, np.atleast_2d(states))
        self._lead = (None,) if self.single else (len(states), None)

    def __call__(self, actions: FloatArray) -> FloatArray:
        """Return mean + beta std of each action."""
        mean, std = self.mean_std(actions)
        value: FloatArray = mean + self.beta * std
        return value

    def mean_std(self, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean of each action and the standard deviation over members."""
        requests = self.checked(actions)
        mean = np.empty(requests.shape[:2])
        std = np.empty(requests.shape[:2])
        mean_std(self.net, self.parts, requests, mean, std)
        return (mean[0], std[0]) if self.single else (mean, std)

    def checked(self, actions: FloatArray) -> FloatArray:
        """Return actions `(m, n, d_a)`, those of a single state as of one request; raises `DataError`."""
        width = len(self.net.centre) - self.net.states
        checked = check_array("actions", actions, (*self._lead, width))
        return checked[None] if self.single else checked
