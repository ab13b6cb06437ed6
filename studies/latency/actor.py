"""An amortised actor: a small network that puts out the action at which an ensemble's mean + beta std is highest.

It is trained by the ensemble's own slopes (deterministic policy gradient, Silver et al. 2014), keeps its actions inside
the box [-a_max, a_max]^d by tanh, and costs one pass through one network. A few gradient steps through the ensemble
from there mend most of what it misses (semi-amortised inference, Kim et al. 2018).
"""

from typing import ClassVar

import numpy as np

from studies.critic_gradient import value_and_slope
from zoosim.core.checks import check_array, check_number, check_whole, check_widths
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.jit import jit
from zoosim.core.parameters import shown
from zoosim.core.rng import stream, stream_key, uniform
from zoosim.core.state import Stateful
from zoosim.core.types import FloatArray
from zoosim.models.ensemble_net import TILE, Ensemble, as_tile, ensemble_layers
from zoosim.models.ensemble_objective import mean_std, state_parts
from zoosim.models.ensemble_training import new_weights
from zoosim.nets.adam import adam_step
from zoosim.nets.network import OUTPUTS, add_gradient, count_units, descend, go_up, new_workspace

FIRST_STEP = 0.4
"""The first gradient step moves the steepest coordinate by so much of a_max; each later step by half of that before."""


class Actor(Stateful):
    """The best action by an ensemble, learned over states, alone or refined by a few gradient steps."""

    learned: ClassVar = {"trained": "_net.trained", "steps": "_steps"}

    def __init__(
        self,
        net: Ensemble,
        a_max: float,
        *,
        beta: float = 0.0,
        hidden_sizes: tuple[int, ...] = (64, 64),
        learning_rate: float = 3e-3,
        seed: int = 0,
    ) -> None:
        """Make an untrained actor on the ensemble `net`, see `QEnsembleRegressor.network`; raises `ConfigError`."""
        if not isinstance(net, Ensemble):
            raise ConfigError(f"net: got {shown(net)}, expected an ensemble, such as QEnsembleRegressor.network()")
        self.a_max, self.beta = check_number("a_max", a_max, 1e-9, 1e9), check_number("beta", beta, -1e6, 1e6)
        self.learning_rate = check_number("learning_rate", learning_rate, 1e-9, 1.0)
        self._critic, self._seed, self._steps = net, check_whole("seed", seed, 0, 2**63), 0
        hidden = check_widths("hidden_sizes", hidden_sizes)
        layers = ensemble_layers([net.states, *hidden, len(net.centre) - net.states])
        trained = new_weights(layers, 1, rng=stream(self._seed, "actor", "weights"))
        centre, scale = net.centre[: net.states], net.scale[: net.states]
        self._net = Ensemble(trained, layers, net.states, centre, scale, np.array([0.0, 1.0]))

    def fit(self, states: FloatArray, n_steps: int = 1_000, batch_size: int = 64, net: Ensemble | None = None) -> None:
        """Train on `states (n, d_s)`, going on from before, for an ensemble that has moved to `net` maybe.

        The learning rate falls to 0 over the `n_steps` Adam steps, each on a batch drawn with replacement.
        """
        checked = check_array("states", states, (None, self._critic.states))
        steps, size = check_whole("n_steps", n_steps, 1, 10**8), check_whole("batch_size", batch_size, 1, 10**6)
        if net is not None:
            if not isinstance(net, Ensemble):
                raise ConfigError(f"Actor.fit: net: got {shown(net)}, expected an ensemble")
            if (net.states, len(net.centre)) != (self._critic.states, len(self._critic.centre)):
                raise DataError("Actor.fit: net is an ensemble over other states or actions, expected the same numbers")
            self._critic = net
        actor = self._net._replace(trained=self._net.trained.copy())
        key, settings = stream_key(self._seed, "actor", "order"), (self.a_max, self.beta, self.learning_rate)
        _fit(actor, self._critic, checked, *settings, key, self._steps, steps, size)
        self._net, self._steps = actor, self._steps + steps

    def act(self, states: FloatArray, refine: int = 0) -> FloatArray:
        """Return an action a state, `(d_s,) -> (d_a,)` or `(m, d_s) -> (m, d_a)`, after so many gradient steps.

        With them the best of the points on the way is returned, so that no step can do harm.
        """
        lead: tuple[None, ...] = () if np.ndim(states) == 1 else (None,)
        checked = np.atleast_2d(check_array("states", states, (*lead, self._critic.states)))
        steps = check_whole("refine", refine, 0, 10_000)
        out = np.empty((len(checked), self._net.layers[-1, OUTPUTS]))
        _act(self._net, checked, self.a_max, out)
        if steps:
            _refine(self._critic, checked, self.a_max, self.beta, steps, out)
        return out if lead else out[0]


@jit
def _act(net: Ensemble, states: FloatArray, a_max: float, out: FloatArray) -> None:
    """Write the action of each of `states (m, d_s)` to `out (m, d_a)`."""
    total, dim = count_units(net.layers), out.shape[1]
    for start in range(0, states.shape[0], TILE):
        end = min(start + TILE, states.shape[0])
        tile = np.empty((states.shape[1], end - start), np.float32)
        units, slopes = np.empty((total, end - start), np.float32), np.empty((total, end - start), np.float32)
        _up(net, states[start:end], tile, units, slopes)
        for n in range(end - start):
            for i in range(dim):
                out[start + n, i] = a_max * np.tanh(float(units[total - dim + i, n]))


@jit
def _up(net: Ensemble, states: FloatArray, tile: np.ndarray, units: np.ndarray, slopes: np.ndarray) -> None:
    """Carry `states (w, d_s)` up the actor; `tile`, `units` and `slopes` are written as in `go_up`."""
    as_tile(states, net.centre, net.scale, tile)
    go_up(net.trained[0, 0], net.layers, tile, units, slopes)


@jit
def _refine(critic: Ensemble, states: FloatArray, a_max: float, beta: float, steps: int, actions: FloatArray) -> None:
    """Take `steps` projected gradient steps from `actions (m, d_a)`, and leave the best points seen there."""
    m, dim = actions.shape
    parts, point, step = state_parts(critic, states), actions.copy().reshape(m, 1, dim), FIRST_STEP * a_max
    best, value, slope, std = np.full((m, 1), -np.inf), np.empty((m, 1)), np.empty((m, 1, dim)), np.empty((m, 1))
    for _ in range(steps):
        value_and_slope(critic, parts, point, beta, value, slope)
        _keep_best(point, value, best, actions)
        for r in range(m):
            _ascend(point[r, 0], slope[r, 0], step, a_max)
        step *= 0.5
    mean_std(critic, parts, point, value, std)
    for r in range(m):
        value[r, 0] += beta * std[r, 0]
    _keep_best(point, value, best, actions)


@jit
def _keep_best(point: FloatArray, value: FloatArray, best: FloatArray, out: FloatArray) -> None:
    for r in range(out.shape[0]):
        if value[r, 0] > best[r, 0]:
            best[r, 0] = value[r, 0]
            for i in range(out.shape[1]):
                out[r, i] = point[r, 0, i]


@jit
def _ascend(action: FloatArray, slope: FloatArray, step: float, a_max: float) -> None:
    """Move `action (d_a,)` along its `slope`, by `step` in the steepest coordinate, within the box."""
    steepest = 0.0
    for i in range(action.shape[0]):
        steepest = max(steepest, abs(slope[i]))
    if steepest > 0.0:
        for i in range(action.shape[0]):
            action[i] = max(min(action[i] + step * slope[i] / steepest, a_max), -a_max)


@jit
def _fit(
    net: Ensemble,
    critic: Ensemble,
    states: FloatArray,
    a_max: float,
    beta: float,
    rate: float,
    key: np.uint64,
    before: int,
    n_steps: int,
    batch_size: int,
) -> None:
    """Take `n_steps` Adam steps up mean + beta std at drawn states, in units of the rewards' deviation."""
    total, dim, d = count_units(net.layers), net.layers[net.layers.shape[0] - 1, OUTPUTS], states.shape[1]
    chosen, tile = np.empty((batch_size, d)), np.empty((d, batch_size), np.float32)
    units, slopes = np.empty((total, batch_size), np.float32), np.empty((total, batch_size), np.float32)
    work, gradient = new_workspace(net.layers, batch_size, net.trained[0, 0]), np.zeros_like(net.trained[0, 0])
    actions, value, slope = np.empty((batch_size, 1, dim)), np.empty((batch_size, 1)), np.empty((batch_size, 1, dim))
    for step in range(before, before + n_steps):
        for n in range(batch_size):
            chosen[n] = states[int(uniform(key, step, n) * states.shape[0])]
        _up(net, chosen, tile, units, slopes)
        for n in range(batch_size):
            for i in range(dim):
                actions[n, 0, i] = a_max * np.tanh(float(units[total - dim + i, n]))
        value_and_slope(critic, state_parts(critic, chosen), actions, beta, value, slope)
        for n in range(batch_size):
            for i in range(dim):
                bend = a_max - actions[n, 0, i] * actions[n, 0, i] / a_max
                slopes[total - dim + i, n] = -slope[n, 0, i] * bend / (batch_size * critic.reward[1])
        descend(net.trained[0, 0], net.layers, slopes, work.scratch)
        add_gradient(net.layers, tile, units, slopes, work, gradient)
        adam_step(net.trained[0], gradient, rate * (1.0 - (step - before) / n_steps), step + 1)
