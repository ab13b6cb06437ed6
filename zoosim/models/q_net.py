"""A network of action values Q(state, kind of product), trained by Q-learning on a memory of transitions.

Its outputs are a value of the state and an advantage for each kind, Q = V + A - mean of A over the kinds that may be
known (dueling, Wang et al. 2016, eq. 9). A target is r + discount Q'(s', a*), with a* the best at s' by the network
that learns and Q' by a network that trails it (double DQN, van Hasselt, Guez & Silver 2016; the trailing network of
Lillicrap et al. 2016). Beside them stands an average of the weights over the last steps (Polyak & Juditsky 1992): each
step moves the values of actions that are worth nearly the same past each other. The loss is squared by default: clipped
errors (Huber 1964; Mnih et al. 2015) estimate something like a median, and where a rare bad end weighs as much as many
small gains, medians do not see it.

With pessimism the loss also holds down what the transitions do not show: its share of log sum exp Q(s, .) - Q(s, a) is
added (CQL(H), Kumar, Zhou, Tucker & Levine 2020, eq. 4).
"""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import ANY_SINGLES, FLAGS, SINGLES, trained_flaws
from zoosim.core.rng import uniform
from zoosim.core.types import Float32Array, FloatArray, IntArray
from zoosim.linear.dense import copy_vector, scale_vector
from zoosim.nets.adam import adam_step
from zoosim.nets.network import (
    BIAS_STEP,
    BIASES,
    INPUTS,
    LINEAR,
    OUTPUTS,
    RELU,
    Workspace,
    add_gradient,
    count_units,
    descend,
    flat_weights,
    make_layers,
    new_workspace,
    rows_up,
    weights_of,
    with_moments,
)

LONGEST = 10.0
"""The longest gradient of a step (clipped by its norm: Pascanu, Mikolov & Bengio 2013)."""

AVERAGING_DECAY = 4.0
"""How fast steps of training lose their weight in the average: eta of Shamir & Zhang (2013)."""

DRAWN, TRAINED = 0, 1


class Transitions(NamedTuple):
    """The newest C decisions, in a ring, with kinds of products as numbers 0 to H - 1, 0 for all that are unknown.

    `states (C, d)` and `next_states (C, d)`; `kinds (C,)` that were shown, of those that were `offered (C, H)`;
    `rewards (C,)`; `ends (C,)`, 1 where nothing follows; `next_open (C, H)` which kinds may be shown next.
    """

    states: Annotated[Float32Array, SINGLES]
    next_states: Annotated[Float32Array, SINGLES]
    kinds: IntArray
    rewards: Annotated[Float32Array, SINGLES]
    ends: Annotated[IntArray, FLAGS]
    offered: Annotated[IntArray, FLAGS]
    next_open: Annotated[IntArray, FLAGS]

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        if self.kinds.max() >= self.next_open.shape[1]:
            yield f"kinds holds {self.kinds.max()}, expected a number below {self.next_open.shape[1]}"


class QNet(NamedTuple):
    """The network, the one that trails it, its average over steps, and how it is trained.

    `trained (3, p)` weights and their moments, `target (p,)` the trailing weights, `average (p,)` the averaged ones,
    `layers` their table; `counts (2,)`: transitions taken in and steps of training; `key (1,)` numbers the draws.
    """

    trained: Annotated[Float32Array, ANY_SINGLES, trained_flaws]
    target: Annotated[Float32Array, ANY_SINGLES]
    average: Annotated[Float32Array, ANY_SINGLES]
    counts: IntArray
    key: np.ndarray
    memory: Transitions
    layers: IntArray
    discount: float
    trail: float
    averaging: float
    weight_decay: float
    longest_error: float
    pessimism: float


def new_transitions(capacity: int, dim: int, kinds: int) -> Transitions:
    """Return an empty memory."""
    return Transitions(
        states=np.zeros((capacity, dim), np.float32),
        next_states=np.zeros((capacity, dim), np.float32),
        kinds=np.zeros(capacity, np.int64),
        rewards=np.zeros(capacity, np.float32),
        ends=np.zeros(capacity, np.int8),
        offered=np.zeros((capacity, kinds), np.int8),
        next_open=np.zeros((capacity, kinds), np.int8),
    )


def new_q_net(
    hidden: tuple[int, ...],
    memory: Transitions,
    *,
    discount: float,
    trail: float,
    averaging: float,
    weight_decay: float,
    longest_error: float,
    pessimism: float,
    key: np.uint64,
    rng: np.random.Generator,
) -> QNet:
    """Return a network that values everything at 0.

    Args:
        hidden: Units of the hidden layers.
        memory: The transitions that it will learn from.
        discount: Weight of what comes after the next decision, 0 to 1.
        trail: Share of the way to the trained weights that the trailing ones go in a step; 1 for no trailing network.
        averaging: Share of the way to the trained weights that the averaged ones go in a step, more in the first
            steps; 1 for no average.
        weight_decay: Share of the weights that a step takes off at a learning rate of 1, apart from the loss (AdamW,
            Loshchilov & Hutter 2019).
        longest_error: Size at which an error's slope stops growing; large for a squared loss.
        pessimism: Weight of log sum exp Q(s, .) - Q(s, a) in the loss, beside half the squared error; 0 for none.
        key: Numbers the draws of batches.
        rng: Draws the weights.
    """
    kinds = memory.next_open.shape[1]
    layers = make_layers([memory.states.shape[1], *hidden, 1 + kinds], [*(RELU for _ in hidden), LINEAR], "by input")
    # A kind that was never shown must be worth what one is that is not known yet: no advantage.
    weights = flat_weights(layers, rng=rng)
    return QNet(
        trained=with_moments(weights),
        target=weights.copy(),
        average=weights.copy(),
        counts=np.zeros(2, np.int64),
        key=np.array([key]),
        memory=memory,
        layers=layers,
        discount=discount,
        trail=trail,
        averaging=averaging,
        weight_decay=weight_decay,
        longest_error=longest_error,
        pessimism=pessimism,
    )


@jit
def write_kind_values(net: QNet, user: FloatArray, kinds: IntArray, values: FloatArray) -> None:
    """Write Q, by the trailing network, of the `kinds (R,)` of a request at the state `user (d,)` to `values (R,)`."""
    state = np.zeros((1, net.layers[0, INPUTS]), np.float32)
    for i in range(user.shape[0]):
        state[0, i] = user[i]
    work = new_workspace(net.layers, 1, net.target)
    _, units, _ = rows_up(net.target, net.layers, state, np.zeros(1, np.int64), work)
    first = units.shape[0] - net.memory.next_open.shape[1]
    level = _level(units, first, 0)
    for r in range(kinds.shape[0]):
        values[r] = level + units[first + kinds[r], 0]


def averaged(net: QNet) -> QNet:
    """Return the network with its averaged weights, which both share, in place of the trailing ones."""
    return net._replace(target=net.average)


@jit
def next_place(net: QNet) -> int:
    """Return where in the memory the next transition goes, and count it."""
    place = net.counts[DRAWN] % net.memory.kinds.shape[0]
    net.counts[DRAWN] += 1
    return int(place)


@jit
def forget_kind(net: QNet, kind: int) -> None:
    """Value a kind as one that is not known, since its number is another product's from now on.

    So are those of the memory that had the number.
    """
    memory = net.memory
    for params in (net.trained[0], net.target, net.average):
        forget_output(params, net.layers[-1], memory.next_open.shape[1], kind)
    forget_number(memory.kinds, memory.offered, kind)
    forget_number(memory.kinds, memory.next_open, kind)


@jit
def forget_number(kinds: IntArray, offered: IntArray, kind: int) -> None:
    """Take what has a number for a kind that is not known, 0, since the number is another product's from now on.

    Args:
        kinds: What was shown in each of N decisions `(N,)`.
        offered: Which kinds could be shown then, or next `(N, H)`.
        kind: The number.
    """
    for n in range(kinds.shape[0]):
        if kinds[n] == kind:
            kinds[n] = 0
        if offered[n, kind]:
            offered[n, kind] = 0
            offered[n, 0] = 1


@jit
def forget_output(params: Float32Array, last: IntArray, kinds: int, kind: int) -> None:
    """Give a kind the output of the kind that is not known, since its number is another product's from now on.

    Outputs of so many `kinds` are the last ones of all.
    """
    unknown = last[OUTPUTS] - kinds
    weights = weights_of(params, last)
    copy_vector(weights[unknown], weights[unknown + kind])
    biases = params[last[BIASES] :]
    biases[(unknown + kind) * last[BIAS_STEP]] = biases[unknown * last[BIAS_STEP]]


@jit
def train(net: QNet, steps: int, batch: int, rate: float) -> None:
    """Take some steps of Adam, each on a batch of transitions drawn with replacement; the other networks follow."""
    work = new_workspace(net.layers, batch, net.target)
    gradient = np.zeros_like(net.target)
    rows = np.empty(batch, np.int64)
    goals = np.empty(batch, np.float32)
    best = np.empty(batch, np.int64)
    for _ in range(steps):
        draw_rows(net, rows)
        _write_goals(net, rows, work, best, goals)
        step_towards(net, rows, goals, work, gradient, rate)


@jit
def draw_rows(net: QNet, rows: IntArray) -> None:
    """Draw the numbers of the transitions of the next step `(w,)` from the memory, with replacement."""
    held = min(net.counts[DRAWN], net.memory.kinds.shape[0])
    for j in range(rows.shape[0]):
        rows[j] = int(uniform(net.key[0], net.counts[TRAINED] + 1, j) * held)


@jit
def step_towards(
    net: QNet, rows: IntArray, goals: Float32Array, work: Workspace, gradient: Float32Array, rate: float
) -> None:
    """Take a step of Adam by which Q of the transitions `rows (w,)` nears the `goals (w,)`; the other networks follow.

    Args:
        net: The network.
        rows: Numbers of transitions.
        goals: What each should be worth.
        work: Room for a pass on w rows.
        gradient: Zeros `(p,)`, and zeros again afterwards.
        rate: The learning rate.
    """
    _write_gradient(net, rows, goals, work, gradient)
    shorten(gradient)
    net.counts[TRAINED] += 1
    # Apart from the gradient: as a part of it, Adam would divide decay by the size of past gradients.
    scale_vector(net.trained[0], 1.0 - rate * net.weight_decay)
    adam_step(net.trained, gradient, rate, net.counts[TRAINED])
    params = net.trained[0]
    trail = np.float32(net.trail)
    # Over the last fifth or so of all steps, as long as these are fewer than 1/averaging.
    share = np.float32(max(net.averaging, (AVERAGING_DECAY + 1.0) / (net.counts[TRAINED] + AVERAGING_DECAY)))
    for i in range(params.shape[0]):
        net.target[i] += trail * (params[i] - net.target[i])
        net.average[i] += share * (params[i] - net.average[i])


@jit
def write_shown_values(net: QNet, rows: IntArray, work: Workspace, values: Float32Array) -> None:
    """Write Q, by the trailing network, of what was shown in the transitions `rows (w,)` to `values (w,)`."""
    memory = net.memory
    _, units, _ = rows_up(net.target, net.layers, memory.states, rows, work)
    first = units.shape[0] - memory.next_open.shape[1]
    for j in range(rows.shape[0]):
        values[j] = _level(units, first, j) + units[first + memory.kinds[rows[j]], j]


@jit
def _write_goals(net: QNet, rows: IntArray, work: Workspace, best: IntArray, goals: Float32Array) -> None:
    """Write r + discount Q'(s', a*) of the transitions `rows (w,)` to `goals (w,)`, and each a* to `best (w,)`."""
    memory = net.memory
    kinds = memory.next_open.shape[1]
    _, units, _ = rows_up(net.trained[0], net.layers, memory.next_states, rows, work)
    first = units.shape[0] - kinds
    for j in range(rows.shape[0]):
        best[j] = -1
        for h in range(kinds):
            if memory.next_open[rows[j], h] and (best[j] < 0 or units[first + h, j] > units[first + best[j], j]):
                best[j] = h
    _, units, _ = rows_up(net.target, net.layers, memory.next_states, rows, work)
    for j in range(rows.shape[0]):
        goals[j] = memory.rewards[rows[j]]
        if not memory.ends[rows[j]] and best[j] >= 0:
            goals[j] += np.float32(net.discount) * (_level(units, first, j) + units[first + best[j], j])


@jit
def _write_gradient(net: QNet, rows: IntArray, goals: Float32Array, work: Workspace, gradient: Float32Array) -> None:
    """Add the slopes of the mean loss of Q at what was shown, by its distance from the goals."""
    memory = net.memory
    inputs, units, slopes = rows_up(net.trained[0], net.layers, memory.states, rows, work)
    kinds = memory.next_open.shape[1]
    first = count_units(net.layers) - kinds
    longest = np.float32(net.longest_error)
    for j in range(rows.shape[0]):
        chosen = first + memory.kinds[rows[j]]
        error = _level(units, first, j) + units[chosen, j] - goals[j]
        slope = max(min(error, longest), -longest) / np.float32(rows.shape[0])
        slopes[first - 1, j] = slope
        for h in range(kinds):
            slopes[first + h, j] = -slope / np.float32(kinds)
        slopes[chosen, j] += slope
    if net.pessimism > 0.0:
        for j in range(rows.shape[0]):
            row = rows[j]
            # The slopes add up to 0, so that the level of the state stays.
            add_log_loss(units, slopes, j, memory.offered[row], memory.kinds[row], net.pessimism / rows.shape[0])
    descend(net.trained[0], net.layers, slopes, work.scratch)
    add_gradient(net.layers, inputs, units, slopes, work, gradient)


@jit
def add_log_loss(
    units: Float32Array, slopes: Float32Array, j: int, offered: IntArray, chosen: int, weight: float
) -> None:
    """Add `weight` times the slopes of log sum exp x - x_chosen to `slopes` of row j of a batch.

    Args:
        units: What a network's units put out, the last H of them x, a number per kind `(n, w)`.
        slopes: Slopes of a loss in these `(n, w)`.
        j: The row of the batch, a column of both.
        offered: The kinds that the sum goes over `(H,)`.
        chosen: One of them.
        weight: At least 0.
    """
    kinds = offered.shape[0]
    first = units.shape[0] - kinds
    top = units[first + chosen, j]
    for h in range(kinds):
        if offered[h]:
            top = max(top, units[first + h, j])
    total = 0.0
    for h in range(kinds):
        if offered[h]:
            total += np.exp(units[first + h, j] - top)
    for h in range(kinds):
        if offered[h]:
            slopes[first + h, j] += np.float32(weight * np.exp(units[first + h, j] - top) / total)
    slopes[first + chosen, j] -= np.float32(weight)


@jit
def _level(units: Float32Array, first: int, j: int) -> float:
    """Return the value of row j's state less the mean advantage, to which a kind's advantage is added."""
    total = np.float32(0.0)
    for h in range(first, units.shape[0]):
        total += units[h, j]
    level: float = units[first - 1, j] - total / np.float32(units.shape[0] - first)
    return level


@jit
def shorten(gradient: Float32Array) -> None:
    """Shorten a gradient that is longer than `LONGEST`."""
    square = 0.0
    for i in range(gradient.shape[0]):
        square += float(gradient[i]) * float(gradient[i])
    if square > LONGEST * LONGEST:
        factor = np.float32(LONGEST / np.sqrt(square))
        for i in range(gradient.shape[0]):
            gradient[i] *= factor
