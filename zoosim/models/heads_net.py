"""A network of one hidden layer that many linear heads read: x -> z = ReLU(W1' x + b1) -> w_head' z + b_head.

Compiled, in float32, trained by least squares with Adam on a memory that fades. All weights are one flat vector `(p,)`,
as in `embedding_net`.
"""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import ANY_SINGLES, trained_flaws
from zoosim.core.rng import uniform
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import add_product, dot
from zoosim.models.embedding_net import LARGEST_ERROR, Float32Array, adam_step, rectify
from zoosim.models.row_memory import RowMemory, fade, remember

LEAST = 1e-3
"""The weight below which the memory drops a slot."""

SEEN = 0
STEPS = 1


class HeadsNet(NamedTuple):
    """Weights or their gradients: `w1 (d, h)`, `b1 (h,)`, and for each of n heads `w2 (n, h)`, `b2 (n,)`."""

    w1: Float32Array
    b1: Float32Array
    w2: Float32Array
    b2: Float32Array


class Learner(NamedTuple):
    """A network, its optimiser, and the memory that it is trained on.

    `trained (3, p)` weights and their moments; `counts (2,)` visits learned from and training steps done; every
    `train_every` visits the memory keeps `keep` of its weights and `training_steps` steps are taken on `batch_size` of
    its slots. `key (1,)` numbers the draws.
    """

    trained: Annotated[Float32Array, ANY_SINGLES]
    counts: IntArray
    memory: RowMemory
    key: np.ndarray
    hidden: int
    rate: float
    batch_size: int
    train_every: int
    training_steps: int
    keep: float

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        yield from trained_flaws(self.trained)
        heads = len(network(self).b2)
        if self.memory.heads.max() >= heads:
            yield f"memory.heads holds {self.memory.heads.max()}, expected a head below {heads}"
        if self.memory.seen.max() > self.counts[SEEN]:
            yield f"memory.seen holds {self.memory.seen.max()}, expected at most the visits, {self.counts[SEEN]}"


@jit
def layers(params: Float32Array, dim: int, hidden: int) -> HeadsNet:
    """Return the parts of `params (p,)`, as views."""
    below = (dim + 1) * hidden
    heads = (params.shape[0] - below) // (hidden + 1)
    above = below + heads * hidden
    w1 = params[: dim * hidden].reshape(dim, hidden)
    w2 = params[below:above].reshape(heads, hidden)
    return HeadsNet(w1, params[dim * hidden : below], w2, params[above:])


def new_params(dim: int, hidden: int, heads: int, *, rng: np.random.Generator) -> Float32Array:
    """Return fresh weights `(p,)`, uniform in +-1/sqrt(inputs) as torch's linear layers."""
    params = np.zeros((dim + 1) * hidden + heads * (hidden + 1), np.float32)
    for array, inputs in zip(layers(params, dim, hidden), [dim, dim, hidden, hidden], strict=True):
        array[...] = rng.uniform(-1, 1, array.shape) / np.sqrt(inputs)
    return params


@jit
def network(learner: Learner) -> HeadsNet:
    """Return the parts of a learner's network, as views."""
    return layers(learner.trained[0], learner.memory.xs.shape[1], learner.hidden)


@jit
def hidden_layer(net: HeadsNet, x: FloatArray) -> Float32Array:
    """Return z `(h,)` of x `(d,)`."""
    z = net.b1.copy()
    add_product(x.astype(np.float32), net.w1, z)
    rectify(z)
    return z


@jit
def learn(learner: Learner, x: FloatArray, head: int, reward: float) -> IntArray:
    """Remember (x, head, reward) and train when it is time; return the memory's slots in use if the network moved."""
    counts = learner.counts
    counts[SEEN] += 1
    remember(learner.memory, x, head, reward, counts[SEEN])
    if counts[SEEN] % learner.train_every != 0:
        return np.empty(0, np.int64)
    slots = fade(learner.memory, learner.keep, LEAST)
    if slots.shape[0] > 0:
        _train(learner, slots)
    return slots


@jit
def _train(learner: Learner, slots: IntArray) -> None:
    """Train on all slots `(n,)` when they make a batch, else on some drawn by weight."""
    memory = learner.memory
    counts = learner.counts
    size = min(slots.shape[0], learner.batch_size)
    totals = np.cumsum(memory.counts[slots])
    weights = np.full(size, 1.0 / size)
    batch = slots.copy()
    if size == slots.shape[0]:
        weights = memory.counts[slots] / totals[-1]
    for _ in range(learner.training_steps):
        counts[STEPS] += 1
        if size < slots.shape[0]:
            batch = slots[draw_by_weight(totals, size, learner.key[0], -counts[STEPS])]
        gradient = np.zeros(learner.trained.shape[1], np.float32)
        _add_gradient(learner, batch, weights, layers(gradient, memory.xs.shape[1], learner.hidden))
        adam_step(learner.trained, gradient, learner.rate, counts[STEPS])


@jit
def draw_by_weight(totals: FloatArray, size: int, key: np.uint64, i: int) -> IntArray:
    """Draw `size` places of the cumulative weights `totals (n,)`, one in each of as many equal parts."""
    drawn = np.empty(size, np.int64)
    for part in range(size):
        point = (part + uniform(key, i, part)) / size * totals[-1]
        drawn[part] = min(np.searchsorted(totals, point, side="right"), totals.shape[0] - 1)
    return drawn


@jit
def _add_gradient(learner: Learner, batch: IntArray, weights: FloatArray, grad: HeadsNet) -> None:
    """Add the gradient of sum weight (estimate - mean reward)^2 over slots `batch (n,)`."""
    memory = learner.memory
    net = network(learner)
    hidden = learner.hidden
    for n in range(batch.shape[0]):
        x = memory.xs[batch[n]]
        head = memory.heads[batch[n]]
        z = hidden_layer(net, x)
        error = net.b2[head] + dot(z, net.w2[head]) - memory.sums[batch[n]] / memory.counts[batch[n]]
        slope = np.float32(2.0 * weights[n] * max(min(error, LARGEST_ERROR), -LARGEST_ERROR))
        grad.b2[head] += slope
        for j in range(hidden):
            grad.w2[head, j] += slope * z[j]
            z[j] = slope * net.w2[head, j] if z[j] > 0.0 else np.float32(0.0)
            grad.b1[j] += z[j]
        for i in range(x.shape[0]):
            if x[i] != 0.0:
                for j in range(hidden):
                    grad.w1[i, j] += np.float32(x[i]) * z[j]
