"""A value of states and a policy beside a network of action values, none of which asks what was never shown (IQL).

Implicit Q-learning (Kostrikov, Nair & Levine 2022) learns from logs alone. The value of a state is an expectile of
what was shown there (eq. 5); an action is worth its reward and the value of the next state (eq. 6), so that no best
action is searched among those that nobody tried; and the policy imitates the log, each decision by exp(sharpness x
advantage) (eq. 7).
"""

from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import ANY_SINGLES, trained_flaws
from zoosim.core.types import Float32Array, FloatArray, IntArray
from zoosim.models.q_net import (
    TRAINED,
    QNet,
    add_log_loss,
    draw_rows,
    shorten,
    step_towards,
    write_shown_values,
)
from zoosim.nets.adam import adam_step
from zoosim.nets.network import (
    INPUTS,
    LINEAR,
    OUTPUTS,
    RELU,
    Workspace,
    add_gradient,
    descend,
    flat_weights,
    make_layers,
    new_workspace,
    rows_up,
    with_moments,
)

LARGEST_WEIGHT = 100.0
"""The largest weight of a decision in the policy's loss, as in the authors' code."""


class ExpectileNet(NamedTuple):
    """The network of the value of states, and that of the policy: a score per kind, the more the better.

    `value (3, p)` and `actor (3, q)` weights and their moments, by tables of layers.
    """

    value: Annotated[Float32Array, ANY_SINGLES, trained_flaws]
    actor: Annotated[Float32Array, ANY_SINGLES, trained_flaws]
    value_layers: IntArray
    actor_layers: IntArray
    expectile: float
    sharpness: float


def new_expectile_net(
    hidden: tuple[int, ...], dim: int, kinds: int, *, expectile: float, sharpness: float, rng: np.random.Generator
) -> ExpectileNet:
    """Return networks to which all states and kinds are alike.

    Args:
        hidden: Units of the hidden layers of each.
        dim: Number of a state's features.
        kinds: Numbers of kinds, the one for unknown kinds included.
        expectile: Which one of what was shown a state is worth: .5 the mean, towards 1 the best.
        sharpness: Weight of an advantage in the exponent, an inverse temperature.
        rng: Draws the weights.
    """
    units = [*(RELU for _ in hidden), LINEAR]
    value_layers = make_layers([dim, *hidden, 1], units, "by input")
    actor_layers = make_layers([dim, *hidden, kinds], units, "by input")
    return ExpectileNet(
        value=with_moments(flat_weights(value_layers, rng=rng)),
        actor=with_moments(flat_weights(actor_layers, rng=rng)),
        value_layers=value_layers,
        actor_layers=actor_layers,
        expectile=expectile,
        sharpness=sharpness,
    )


@jit
def write_kind_scores(net: ExpectileNet, user: FloatArray, kinds: IntArray, scores: FloatArray) -> None:
    """Write the policy's scores of the `kinds (R,)` of a request at the state `user (d,)` to `scores (R,)`."""
    state = np.zeros((1, net.actor_layers[0, INPUTS]), np.float32)
    for i in range(user.shape[0]):
        state[0, i] = user[i]
    work = new_workspace(net.actor_layers, 1, net.actor)
    _, units, _ = rows_up(net.actor[0], net.actor_layers, state, np.zeros(1, np.int64), work)
    first = units.shape[0] - net.actor_layers[-1, OUTPUTS]
    for r in range(kinds.shape[0]):
        scores[r] = units[first + kinds[r], 0]


@jit
def train_all(q: QNet, net: ExpectileNet, steps: int, batch: int, rate: float) -> None:
    """Take some steps of Adam in all three networks, each on a batch drawn from the memory of `q`."""
    q_work = new_workspace(q.layers, batch, q.target)
    q_gradient = np.zeros_like(q.target)
    value_work = new_workspace(net.value_layers, batch, q.target)
    value_gradient = np.zeros(net.value.shape[1], np.float32)
    actor_work = new_workspace(net.actor_layers, batch, q.target)
    actor_gradient = np.zeros(net.actor.shape[1], np.float32)
    rows = np.empty(batch, np.int64)
    advantages = np.empty(batch, np.float32)
    goals = np.empty(batch, np.float32)
    for _ in range(steps):
        number = q.counts[TRAINED] + 1
        draw_rows(q, rows)
        write_shown_values(q, rows, q_work, advantages)
        _write_value_gradient(q, net, rows, value_work, advantages, value_gradient)
        _write_actor_gradient(q, net, rows, actor_work, advantages, actor_gradient)
        shorten(value_gradient)
        adam_step(net.value, value_gradient, rate, number)
        shorten(actor_gradient)
        adam_step(net.actor, actor_gradient, rate, number)
        _write_goals(q, net, rows, value_work, goals)
        step_towards(q, rows, goals, q_work, q_gradient, rate)


@jit
def _write_value_gradient(
    q: QNet, net: ExpectileNet, rows: IntArray, work: Workspace, advantages: Float32Array, gradient: Float32Array
) -> None:
    """Add the slopes of half the mean expectile loss of V (eq. 5); take V off the values in `advantages (w,)`."""
    inputs, units, slopes = rows_up(net.value[0], net.value_layers, q.memory.states, rows, work)
    last = units.shape[0] - 1
    for j in range(rows.shape[0]):
        advantages[j] -= units[last, j]
        weight = net.expectile if advantages[j] > 0.0 else 1.0 - net.expectile
        slopes[last, j] = np.float32(-weight * advantages[j] / rows.shape[0])
    descend(net.value[0], net.value_layers, slopes, work.scratch)
    add_gradient(net.value_layers, inputs, units, slopes, work, gradient)


@jit
def _write_actor_gradient(
    q: QNet, net: ExpectileNet, rows: IntArray, work: Workspace, advantages: Float32Array, gradient: Float32Array
) -> None:
    """Add the slopes of the mean of -exp(sharpness x advantage) log pi(a|s) (eq. 7), pi over what was offered."""
    memory = q.memory
    inputs, units, slopes = rows_up(net.actor[0], net.actor_layers, memory.states, rows, work)
    slopes[units.shape[0] - net.actor_layers[-1, OUTPUTS] :] = 0.0
    for j in range(rows.shape[0]):
        # Cut in the exponent: beyond, an advantage that has gone astray would overflow.
        exponent = min(net.sharpness * advantages[j], np.log(LARGEST_WEIGHT))
        weight = np.exp(exponent) / rows.shape[0]
        add_log_loss(units, slopes, j, memory.offered[rows[j]], memory.kinds[rows[j]], weight)
    descend(net.actor[0], net.actor_layers, slopes, work.scratch)
    add_gradient(net.actor_layers, inputs, units, slopes, work, gradient)


@jit
def _write_goals(q: QNet, net: ExpectileNet, rows: IntArray, work: Workspace, goals: Float32Array) -> None:
    """Write r + discount V(s') of the transitions `rows (w,)` to `goals (w,)` (eq. 6)."""
    memory = q.memory
    _, units, _ = rows_up(net.value[0], net.value_layers, memory.next_states, rows, work)
    for j in range(rows.shape[0]):
        goals[j] = memory.rewards[rows[j]]
        if not memory.ends[rows[j]]:
            goals[j] += np.float32(q.discount) * units[units.shape[0] - 1, j]
