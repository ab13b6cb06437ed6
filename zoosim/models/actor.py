"""An amortised actor: a small network that puts out the action at which an ensemble's mean + beta std is highest.

It is trained by the ensemble's own slopes (deterministic policy gradient, Silver et al. 2014), or on the ends of
searches where there are no slopes (distillation), keeps its actions inside the box [-a_max, a_max]^d by tanh, and costs
one pass through one network. A few gradient steps through the ensemble from there mend most of what it misses
(semi-amortised inference, Kim et al. 2018).
"""

from typing import Annotated, ClassVar

import numpy as np

from zoosim.core.checks import check_array, check_number, check_whole, check_widths
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.jit import jit
from zoosim.core.limits import Limits
from zoosim.core.parameters import shown
from zoosim.core.rng import stream, stream_key, uniform
from zoosim.core.state import Stateful
from zoosim.core.types import FloatArray
from zoosim.models.ensemble_gradient import value_and_slope
from zoosim.models.ensemble_net import TILE, Ensemble, as_tile, ensemble_layers
from zoosim.models.ensemble_objective import mean_std, state_parts
from zoosim.models.ensemble_training import new_weights
from zoosim.nets.adam import adam_step
from zoosim.nets.network import OUTPUTS, add_gradient, count_units, descend, go_up, new_workspace

FIRST_STEP = 0.4
"""The first gradient step moves the steepest coordinate by so much of a_max; each later step by half of that before."""


class Actor(Stateful):
    """The best action by an ensemble, learned over states, alone or refined by a few gradient steps."""

    learned: ClassVar = {"trained": "_net.trained", "steps": "_steps", "seed": "_seed"}
    _seed: Annotated[int, Limits(0, 2**63)]  # settles which rows later training draws

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
        """Make an actor that has not been trained.

        Args:
            net: The ensemble whose best actions it learns, such as `QEnsembleRegressor.network()`.
            a_max: Half the width of the box of actions.
            beta: Weight of the standard deviation over members in what `fit` and refinement climb.
            hidden_sizes: Widths of its hidden layers.
            learning_rate: Adam's learning rate.
            seed: Seed of its first weights and of the rows that training draws.

        Raises:
            ConfigError: an argument is out of range, or `net` is no ensemble.
        """
        if not isinstance(net, Ensemble):
            raise ConfigError(f"net: got {shown(net)}, expected an ensemble, such as QEnsembleRegressor.network()")
        self.a_max = check_number("a_max", a_max, 1e-9, 1e9)
        self.beta = check_number("beta", beta, -1e6, 1e6)
        self.learning_rate = check_number("learning_rate", learning_rate, 1e-9, 1.0)
        self._critic = net
        self._seed = check_whole("seed", seed, 0, 2**63)
        self._steps = 0
        hidden = check_widths("hidden_sizes", hidden_sizes)
        layers = ensemble_layers([net.states, *hidden, len(net.centre) - net.states])
        trained = new_weights(layers, 1, rng=stream(self._seed, "actor", "weights"))
        centre = net.centre[: net.states]
        scale = net.scale[: net.states]
        self._net = Ensemble(trained, layers, net.states, centre, scale, np.array([0.0, 1.0]))

    def fit(self, states: FloatArray, n_steps: int = 1_000, batch_size: int = 64, net: Ensemble | None = None) -> None:
        """Train by the slopes of the ensemble, going on from before.

        Args:
            states: `(n, d_s)`.
            n_steps: Adam steps, each on a batch drawn with replacement; the learning rate falls to 0 over them.
            batch_size: States per step.
            net: The ensemble as it is now; None for the one of before.

        Raises:
            ConfigError: `n_steps` or `batch_size` is out of range, or `net` is no ensemble.
            DataError: `states` is of another shape or not finite, or `net` takes other states or actions.
        """
        checked = check_array("states", states, (None, self._critic.states))
        steps = check_whole("n_steps", n_steps, 1, 10**8)
        size = check_whole("batch_size", batch_size, 1, 10**6)
        if net is not None:
            if not isinstance(net, Ensemble):
                raise ConfigError(f"Actor.fit: net: got {shown(net)}, expected an ensemble")
            if (net.states, len(net.centre)) != (self._critic.states, len(self._critic.centre)):
                raise DataError("Actor.fit: net is an ensemble over other states or actions, expected the same numbers")
            self._critic = net
        actor = self._net._replace(trained=self._net.trained.copy())
        key = stream_key(self._seed, "actor", "order")
        settings = (self.a_max, self.beta, self.learning_rate)
        _fit(actor, self._critic, checked, *settings, key, self._steps, steps, size)
        self._net = actor
        self._steps += steps

    def imitate(self, states: FloatArray, actions: FloatArray, n_steps: int = 1_000, batch_size: int = 64) -> None:
        """Train on the ends of searches, going on from before: towards the least squared distance from them.

        Args:
            states: `(n, d_s)`.
            actions: What the searches found there, `(n, d_a)`, inside the box.
            n_steps: Adam steps, each on a batch drawn with replacement.
            batch_size: Rows per step.

        Raises:
            ConfigError: `n_steps` or `batch_size` is out of range.
            DataError: an array is of another shape, or not finite.
        """
        rows = check_array("states", states, (None, self._critic.states))
        ends = check_array("actions", actions, (len(rows), self._net.layers[-1, OUTPUTS]))
        steps = check_whole("n_steps", n_steps, 1, 10**8)
        size = check_whole("batch_size", batch_size, 1, 10**6)
        actor = self._net._replace(trained=self._net.trained.copy())
        key = stream_key(self._seed, "actor", "imitation")
        _imitate(actor, rows, ends, self.a_max, self.learning_rate, key, self._steps, steps, size)
        self._net = actor
        self._steps += steps

    def act(self, states: FloatArray, refine: int = 0) -> FloatArray:
        """Return the actions that seem best.

        Args:
            states: `(d_s,)`, or `(m, d_s)` for m requests.
            refine: Gradient steps through the ensemble from there; the best point on the way is returned, so that no
                step can do harm.

        Returns:
            `(d_a,)` or `(m, d_a)`.

        Raises:
            ConfigError: `refine` is out of range.
            DataError: `states` is of another shape, or not finite.
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
    total = count_units(net.layers)
    dim = out.shape[1]
    for start in range(0, states.shape[0], TILE):
        end = min(start + TILE, states.shape[0])
        tile = np.empty((states.shape[1], end - start), np.float32)
        units = np.empty((total, end - start), np.float32)
        slopes = np.empty((total, end - start), np.float32)
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
    parts = state_parts(critic, states)
    point = actions.copy().reshape(m, 1, dim)
    step = FIRST_STEP * a_max
    best = np.full((m, 1), -np.inf)
    value = np.empty((m, 1))
    slope = np.empty((m, 1, dim))
    std = np.empty((m, 1))
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
    total = count_units(net.layers)
    dim = net.layers[net.layers.shape[0] - 1, OUTPUTS]
    d = states.shape[1]
    chosen = np.empty((batch_size, d))
    tile = np.empty((d, batch_size), np.float32)
    units = np.empty((total, batch_size), np.float32)
    slopes = np.empty((total, batch_size), np.float32)
    work = new_workspace(net.layers, batch_size, net.trained[0, 0])
    gradient = np.zeros_like(net.trained[0, 0])
    actions = np.empty((batch_size, 1, dim))
    value = np.empty((batch_size, 1))
    slope = np.empty((batch_size, 1, dim))
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


@jit
def _imitate(
    net: Ensemble,
    states: FloatArray,
    ends: FloatArray,
    a_max: float,
    rate: float,
    key: np.uint64,
    before: int,
    n_steps: int,
    batch_size: int,
) -> None:
    """Take `n_steps` Adam steps down the squared distance, in units of a_max, from `ends (n, d_a)` at drawn states."""
    total = count_units(net.layers)
    dim = ends.shape[1]
    rows = np.empty(batch_size, np.int64)
    tile = np.empty((states.shape[1], batch_size), np.float32)
    units = np.empty((total, batch_size), np.float32)
    slopes = np.empty((total, batch_size), np.float32)
    work = new_workspace(net.layers, batch_size, net.trained[0, 0])
    gradient = np.zeros_like(net.trained[0, 0])
    for step in range(before, before + n_steps):
        for n in range(batch_size):
            rows[n] = int(uniform(key, step, n) * states.shape[0])
        _up(net, states[rows], tile, units, slopes)
        for n in range(batch_size):
            for i in range(dim):
                share = np.tanh(float(units[total - dim + i, n]))
                error = share - ends[rows[n], i] / a_max
                slopes[total - dim + i, n] = 2.0 * error * (1.0 - share * share) / batch_size
        descend(net.trained[0, 0], net.layers, slopes, work.scratch)
        add_gradient(net.layers, tile, units, slopes, work, gradient)
        adam_step(net.trained[0], gradient, rate, step + 1)
