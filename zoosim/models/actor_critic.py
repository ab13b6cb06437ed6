"""A policy and a value of states, each a network, improved on what the policy itself decided (PPO).

Proximal policy optimisation (Schulman, Wolski, Dhariwal, Radford & Klimov 2017): the policy draws kinds of products
from a softmax over those that may be shown. After so many decisions it goes some steps up their advantages, each
weighted by how likely it still makes the decision, and not beyond a bound of that ratio (eq. 7). Advantages are sums of
one-step errors of the value along a visitor's decisions that fade with the distance (GAE: Schulman, Moritz, Levine,
Jordan & Abbeel 2016, eq. 16).
"""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import ANY_SINGLES, FLAGS, SINGLES, trained_flaws
from zoosim.core.rng import uniform
from zoosim.core.types import Float32Array, FloatArray, IntArray
from zoosim.models.q_net import shorten
from zoosim.nets.adam import adam_step
from zoosim.nets.network import (
    INPUTS,
    LINEAR,
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

HELD, EPOCHS, STEPS = range(3)
"""Counts: decisions in the rollout, passes over rollouts so far, and steps of training."""

LARGEST_SCORE = 1e10
"""The largest score of a kind in size: probabilities are numbers whatever the weights are."""

LARGEST_CHANGE = 20.0
"""The largest logarithm of a ratio of probabilities: beyond, its exponential would lose its digits."""

TINY = 1e-8


class ActorCritic(NamedTuple):
    """The network of the value of states, and that of the policy: a score per kind, the logarithm of its odds.

    `value (3, p)` and `actor (3, q)` weights and their moments, by tables of layers; `counts (3,)`; `key (1,)` numbers
    the draws of batches.
    """

    value: Annotated[Float32Array, ANY_SINGLES, trained_flaws]
    actor: Annotated[Float32Array, ANY_SINGLES, trained_flaws]
    value_layers: IntArray
    actor_layers: IntArray
    counts: IntArray
    key: np.ndarray


class Rollout(NamedTuple):
    """The newest decisions of the policy, up to N, with kinds of products as numbers 0 to H - 1, 0 for unknown ones.

    `states (N, d)` and `next_states (N, d)`; `kinds (N,)` that were shown of those that were `offered (N, H)`, and the
    logarithm of their probability then, `log_chances (N,)`; `rewards (N,)`; `ends (N,)`, 1 where nothing follows;
    `following (N,)` the same visitor's next decision, the decision's own number where the rollout has none.
    """

    states: Annotated[Float32Array, SINGLES]
    next_states: Annotated[Float32Array, SINGLES]
    kinds: IntArray
    offered: Annotated[IntArray, FLAGS]
    log_chances: Annotated[Float32Array, SINGLES]
    rewards: Annotated[Float32Array, SINGLES]
    ends: Annotated[IntArray, FLAGS]
    following: IntArray

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        if self.kinds.max() >= self.offered.shape[1]:
            yield f"kinds holds {self.kinds.max()}, expected a number below {self.offered.shape[1]}"
        if self.following.max() >= len(self.kinds):
            yield f"following holds {self.following.max()}, expected a number below {len(self.kinds)}"


class Improvement(NamedTuple):
    """The parameters by which a policy is improved on a rollout.

    `discount` weighs what comes after a decision, `fading` errors of the value by one decision of distance (lambda);
    `clip` is the bound of ratios' distance from 1, `entropy` the weight of the policy's entropy in what it climbs;
    `epochs` passes over the rollout in batches of `batch_size`. `value_rate` is the learning rate of the value, in
    units of the policy's.
    """

    discount: float
    fading: float
    clip: float
    entropy: float
    epochs: int
    batch_size: int
    value_rate: float


def new_actor_critic(
    hidden: tuple[int, ...], dim: int, kinds: int, *, key: np.uint64, rng: np.random.Generator
) -> ActorCritic:
    """Return networks to which all states and kinds are alike.

    Args:
        hidden: Units of the hidden layers of each.
        dim: Number of a state's features.
        kinds: Numbers of kinds, the one for unknown kinds included.
        key: Numbers the draws of batches.
        rng: Draws the weights.
    """
    units = [*(RELU for _ in hidden), LINEAR]
    value_layers = make_layers([dim, *hidden, 1], units, "by input")
    actor_layers = make_layers([dim, *hidden, kinds], units, "by input")
    return ActorCritic(
        value=with_moments(flat_weights(value_layers, rng=rng)),
        actor=with_moments(flat_weights(actor_layers, rng=rng)),
        value_layers=value_layers,
        actor_layers=actor_layers,
        counts=np.zeros(3, np.int64),
        key=np.array([key]),
    )


def new_rollout(size: int, dim: int, kinds: int) -> Rollout:
    """Return an empty rollout."""
    return Rollout(
        states=np.zeros((size, dim), np.float32),
        next_states=np.zeros((size, dim), np.float32),
        kinds=np.zeros(size, np.int64),
        offered=np.zeros((size, kinds), np.int8),
        log_chances=np.zeros(size, np.float32),
        rewards=np.zeros(size, np.float32),
        ends=np.zeros(size, np.int8),
        following=np.zeros(size, np.int64),
    )


@jit
def write_scores(net: ActorCritic, user: FloatArray, scores: FloatArray) -> None:
    """Write the scores of all kinds at the state `user (d,)` to `scores (H,)`."""
    state = np.zeros((1, net.actor_layers[0, INPUTS]), np.float32)
    for i in range(user.shape[0]):
        state[0, i] = user[i]
    work = new_workspace(net.actor_layers, 1, net.actor)
    _, units, _ = rows_up(net.actor[0], net.actor_layers, state, np.zeros(1, np.int64), work)
    first = units.shape[0] - scores.shape[0]
    for h in range(scores.shape[0]):
        scores[h] = _bounded(units[first + h, 0])


@jit
def write_chances(scores: FloatArray, offered: IntArray, chosen: int, chances: FloatArray) -> float:
    """Write the probabilities `(H,)` of kinds, and return the logarithm of that of one of them.

    Args:
        scores: Of all kinds `(H,)`.
        offered: Which of them are drawn from `(H,)`; the chosen one is in any case.
        chosen: The one that was shown.
        chances: Takes the probabilities, 0 where a kind is not offered.
    """
    top = scores[chosen]
    for h in range(scores.shape[0]):
        if offered[h]:
            top = max(top, scores[h])
    total = 0.0
    for h in range(scores.shape[0]):
        chances[h] = np.exp(scores[h] - top) if offered[h] or h == chosen else 0.0
        total += chances[h]
    for h in range(scores.shape[0]):
        chances[h] /= total
    log_chance: float = scores[chosen] - top - np.log(total)
    return log_chance


@jit
def improve(net: ActorCritic, rollout: Rollout, how: Improvement, rate: float) -> None:
    """Improve the policy and the value on a rollout, and begin a new one.

    Args:
        net: The networks.
        rollout: Decisions of the policy, as many as there is room for.
        how: What is climbed, and in which steps.
        rate: The learning rate.
    """
    size = rollout.kinds.shape[0]
    batch = min(how.batch_size, size)
    value_work = new_workspace(net.value_layers, batch, net.value)
    actor_work = new_workspace(net.actor_layers, batch, net.actor)
    value_gradient = np.zeros(net.value.shape[1], np.float32)
    actor_gradient = np.zeros(net.actor.shape[1], np.float32)
    goals = np.empty(size, np.float32)
    advantages = np.empty(size, np.float32)
    write_advantages(net, rollout, how.discount, how.fading, value_work, batch, goals, advantages)
    order = np.arange(size)
    for _ in range(how.epochs):
        net.counts[EPOCHS] += 1
        _shuffle(net, order)
        for start in range(0, size, batch):
            rows = order[start : start + batch]
            net.counts[STEPS] += 1
            write_value_gradient(net, rollout, rows, value_work, goals, value_gradient)
            shorten(value_gradient)
            adam_step(net.value, value_gradient, how.value_rate * rate, net.counts[STEPS])
            write_actor_gradient(net, rollout, rows, actor_work, advantages, how, actor_gradient)
            shorten(actor_gradient)
            adam_step(net.actor, actor_gradient, rate, net.counts[STEPS])
    net.counts[HELD] = 0


@jit
def _shuffle(net: ActorCritic, order: IntArray) -> None:
    """Put numbers in a random order (Fisher & Yates; Knuth 1997, section 3.4.2, algorithm P)."""
    for i in range(order.shape[0] - 1, 0, -1):
        j = int(uniform(net.key[0], net.counts[EPOCHS], i) * (i + 1))
        kept = order[i]
        order[i] = order[j]
        order[j] = kept


@jit
def write_advantages(
    net: ActorCritic,
    rollout: Rollout,
    discount: float,
    fading: float,
    work: Workspace,
    batch: int,
    goals: Float32Array,
    advantages: Float32Array,
) -> None:
    """Write the advantage of each decision of a rollout, `(N,)`, and what its state should be worth, `goals (N,)`.

    The advantage is the error of the value at the decision, r + discount V(s') - V(s), plus discount x fading times
    that of the same visitor's next decision. A visitor's last one in the rollout that others follow is judged by V(s').
    """
    size = goals.shape[0]
    values = np.empty(size, np.float32)
    ahead = np.empty(size, np.float32)
    for start in range(0, size, batch):
        rows = np.arange(start, min(start + batch, size))
        _write_values(net, rollout.states, rows, work, values)
        _write_values(net, rollout.next_states, rows, work, ahead)
    # From the last one: what follows a decision was told after it.
    for n in range(size - 1, -1, -1):
        advantages[n] = rollout.rewards[n] - values[n]
        if not rollout.ends[n]:
            advantages[n] += np.float32(discount) * ahead[n]
            if rollout.following[n] > n:
                advantages[n] += np.float32(discount * fading) * advantages[rollout.following[n]]
        goals[n] = values[n] + advantages[n]


@jit
def _write_values(
    net: ActorCritic, states: Float32Array, rows: IntArray, work: Workspace, values: Float32Array
) -> None:
    """Write the value of the `states (N, d)` with the numbers `rows` to their places in `values (N,)`."""
    _, units, _ = rows_up(net.value[0], net.value_layers, states, rows, work)
    for j in range(rows.shape[0]):
        values[rows[j]] = units[units.shape[0] - 1, j]


@jit
def write_value_gradient(
    net: ActorCritic, rollout: Rollout, rows: IntArray, work: Workspace, goals: Float32Array, gradient: Float32Array
) -> None:
    """Add the slopes of half the mean squared distance of V from the goals at the decisions `rows (w,)`."""
    inputs, units, slopes = rows_up(net.value[0], net.value_layers, rollout.states, rows, work)
    last = units.shape[0] - 1
    for j in range(rows.shape[0]):
        slopes[last, j] = (units[last, j] - goals[rows[j]]) / np.float32(rows.shape[0])
    descend(net.value[0], net.value_layers, slopes, work.scratch)
    add_gradient(net.value_layers, inputs, units, slopes, work, gradient)


@jit
def write_actor_gradient(
    net: ActorCritic,
    rollout: Rollout,
    rows: IntArray,
    work: Workspace,
    advantages: Float32Array,
    how: Improvement,
    gradient: Float32Array,
) -> None:
    """Add the slopes of minus the mean clipped objective and entropy at the decisions `rows (w,)`.

    Advantages count in standard deviations from their mean over these rows.
    """
    inputs, units, slopes = rows_up(net.actor[0], net.actor_layers, rollout.states, rows, work)
    kinds = rollout.offered.shape[1]
    first = units.shape[0] - kinds
    mean, deviation = _moments(advantages, rows)
    scores = np.empty(kinds)
    chances = np.empty(kinds)
    for j in range(rows.shape[0]):
        row = rows[j]
        for h in range(kinds):
            scores[h] = _bounded(units[first + h, j])
        log_chance = write_chances(scores, rollout.offered[row], rollout.kinds[row], chances)
        change = log_chance - rollout.log_chances[row]
        ratio = np.exp(max(min(change, LARGEST_CHANGE), -LARGEST_CHANGE))
        advantage = (advantages[row] - mean) / (deviation + TINY)
        # The objective is flat where the ratio has gone beyond the bound in the direction that the advantage asks for.
        is_flat = ratio > 1.0 + how.clip if advantage > 0.0 else ratio < 1.0 - how.clip
        climb = 0.0 if is_flat else ratio * advantage
        entropy = 0.0
        for h in range(kinds):
            if chances[h] > 0.0:
                entropy -= chances[h] * np.log(chances[h])
        for h in range(kinds):
            slope = climb * chances[h]
            if chances[h] > 0.0:
                slope += how.entropy * chances[h] * (np.log(chances[h]) + entropy)
            slopes[first + h, j] = np.float32(slope / rows.shape[0])
        slopes[first + rollout.kinds[row], j] -= np.float32(climb / rows.shape[0])
    descend(net.actor[0], net.actor_layers, slopes, work.scratch)
    add_gradient(net.actor_layers, inputs, units, slopes, work, gradient)


@jit
def _moments(values: Float32Array, rows: IntArray) -> tuple[float, float]:
    """Return mean and standard deviation of some values."""
    mean = 0.0
    for row in rows:
        mean += values[row] / rows.shape[0]
    square = 0.0
    for row in rows:
        square += (values[row] - mean) ** 2 / rows.shape[0]
    return mean, np.sqrt(square)


@jit
def _bounded(score: float) -> float:
    """Return a score, within bounds; infinite and undefined ones are at a bound."""
    if score > LARGEST_SCORE:
        return LARGEST_SCORE
    if score >= -LARGEST_SCORE:
        return float(score)
    return -LARGEST_SCORE
