"""Fitted Q evaluation by a network: values from a decision on, by what a network learned to tell of visitors."""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.rng import stream
from zoosim.core.types import Float32Array, FloatArray, IntArray
from zoosim.models.q_net import shorten
from zoosim.nets.adam import adam_step
from zoosim.nets.network import (
    LINEAR,
    OUTPUTS,
    RELU,
    add_gradient,
    descend,
    flat_weights,
    make_layers,
    new_workspace,
    rows_up,
    with_moments,
)
from zoosim.off_policy.estimators.lives import LifeRows
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.models.life_values import Choices, LinearValues

HIDDEN = (32, 16)
"""Units of the hidden layers."""

STEPS, BATCH = 600, 256
"""Steps of training, and decisions that are drawn for each."""

FIRST_RATE, LAST_RATE = 3e-3, 3e-4
"""Learning rates of Adam at the first and the last step."""

TRAIL = 0.01
"""Share of the way to the weights that learn by which those that trail them follow in a step."""


def network_terms(linear: LinearValues, rewards: FloatArray) -> Terms:
    """Value a policy by what a network learned to tell of visitors, each half of them by a network of the other half.

    The network is trained by fitted Q evaluation (Le, Voloshin & Yue 2019): its outputs, times the features of what is
    shown, near the reward plus what the same network, trailing, says of the next decision. Its top layer is then solved
    for on the half that it has not seen, as that of a neural linear model (Riquelme, Tucker & Snoek 2018), so that the
    influence of each visitor on the value is known.

    Args:
        linear: A linear model of the same decisions, halves and policy.
        rewards: What decisions earned `(n,)`.
    """
    rows = linear.rows
    terms = np.empty(rows.n_visitors)
    for half in range(2):
        is_asked = linear.halves == half
        if not is_asked.any():
            continue
        # A single user has no other half.
        teaches = is_asked if is_asked.all() else ~is_asked
        users = _learned_features(rows, linear.choices, np.flatnonzero(teaches & rows.tells_next), rewards)
        visitors = is_asked[rows.starts[:-1]]
        choices = Choices(users[is_asked], linear.choices.shown[is_asked], linear.choices.meant[is_asked])
        values = LinearValues(rows.of(visitors), choices, np.zeros(len(choices.users), np.int64))
        terms[visitors] = values.terms(rewards[is_asked]).base
    return Terms(terms)


def _learned_features(rows: LifeRows, choices: Choices, taught_by: IntArray, rewards: FloatArray) -> FloatArray:
    """Return 1 and what the last hidden units say of each decision `(n, 1 + h)`, taught by some decisions."""
    features = choices.users[:, 1:]
    if not features.shape[1] or not len(taught_by):
        return choices.users  # nothing is told of visitors, or of what follows
    spread = features.std(axis=0)
    inputs = ((features - features.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)).astype(np.float32)
    rng = stream(0, "network values")
    sizes = [inputs.shape[1], *HIDDEN, choices.shown.shape[1]]
    layers = make_layers(sizes, [*(RELU for _ in HIDDEN), LINEAR], "by input")
    trained = with_moments(flat_weights(layers, rng=rng))
    # In units of what a visitor brings, so that rates of learning fit rewards of any size.
    unit = float(np.abs(rows.by_visitor(rewards)).mean()) or 1.0
    drawn = rng.choice(taught_by, (STEPS, BATCH))
    _learn(
        trained,
        layers,
        inputs,
        choices.shown.astype(np.float32),
        choices.meant.astype(np.float32),
        (rewards / unit).astype(np.float32),
        rows.onward(np.ones(len(rewards))).astype(np.float32),
        drawn,
    )
    return np.column_stack([np.ones(len(inputs)), _hidden(trained[0], layers, inputs)])


@jit
def _learn(
    trained: Float32Array,
    layers: IntArray,
    states: Float32Array,
    shown: Float32Array,
    meant: Float32Array,
    rewards: Float32Array,
    onward: Float32Array,
    drawn: IntArray,
) -> None:
    """Train a network by fitted Q evaluation on the decisions that are `drawn (steps, w)`.

    Args:
        trained: Weights, and their first and second moments `(3, p)`.
        layers: The network, whose outputs times features of a product are what it is worth to show it.
        states: Its inputs at each decision `(n, d)`.
        shown: Features of the product shown `(n, d_p)`.
        meant: Their mean over what the policy would show.
        rewards: What decisions earned `(n,)`.
        onward: What the value of the next decision counts for `(n,)`.
        drawn: Numbers of decisions.
    """
    steps, width = drawn.shape
    trail = trained[0].copy()
    gradient = np.zeros_like(trail)
    work = new_workspace(layers, width, trail)
    following = np.empty(width, np.int64)
    goals = np.empty(width, np.float32)
    n_outputs = shown.shape[1]
    fall = (LAST_RATE / FIRST_RATE) ** (1.0 / steps)
    rate = FIRST_RATE
    for step in range(steps):
        rows = drawn[step]
        for j in range(width):
            following[j] = min(rows[j] + 1, states.shape[0] - 1)
        _, units, _ = rows_up(trail, layers, states, following, work)
        first = units.shape[0] - n_outputs
        for j in range(width):
            value = np.float32(0.0)
            for i in range(n_outputs):
                value += units[first + i, j] * meant[following[j], i]
            goals[j] = rewards[rows[j]] + onward[rows[j]] * value
        inputs, units, slopes = rows_up(trained[0], layers, states, rows, work)
        for j in range(width):
            error = -goals[j]
            for i in range(n_outputs):
                error += units[first + i, j] * shown[rows[j], i]
            for i in range(n_outputs):
                slopes[first + i, j] = error * shown[rows[j], i] / np.float32(width)
        descend(trained[0], layers, slopes, work.scratch)
        add_gradient(layers, inputs, units, slopes, work, gradient)
        shorten(gradient)
        adam_step(trained, gradient, rate, step + 1)
        rate *= fall
        params = trained[0]
        for i in range(trail.shape[0]):
            trail[i] += np.float32(TRAIL) * (params[i] - trail[i])


@jit
def _hidden(params: Float32Array, layers: IntArray, states: Float32Array) -> Float32Array:
    """Return what the last hidden units put out at each decision `(n, h)`."""
    last = layers.shape[0] - 1
    size = layers[last - 1, OUTPUTS]
    out = np.empty((states.shape[0], size), np.float32)
    width = 256
    work = new_workspace(layers, width, params)
    for start in range(0, states.shape[0], width):
        chosen = np.arange(start, min(start + width, states.shape[0]))
        _, units, _ = rows_up(params, layers, states, chosen, work)
        first = units.shape[0] - layers[last, OUTPUTS] - size
        for j in range(chosen.shape[0]):
            for i in range(size):
                out[start + j, i] = units[first + i, j]
    return out
