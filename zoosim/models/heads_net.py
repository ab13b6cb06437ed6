"""A network of one hidden layer that many linear heads read: x -> z = ReLU(W1' x + b1) -> w_head' z + b_head.

Trained by least squares with Adam on a memory that fades.
"""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import ANY_SINGLES, trained_flaws
from zoosim.core.rng import uniform
from zoosim.core.types import Float32Array, FloatArray, IntArray
from zoosim.linear.dense import add_product
from zoosim.models.row_memory import RowMemory, fade, remember
from zoosim.nets.heads import fit_heads, fresh_heads
from zoosim.nets.network import RELU, fresh_weights, make_layers

LEAST = 1e-3
"""The weight below which the memory drops a slot."""

SEEN = 0
STEPS = 1


class HeadsLearner(NamedTuple):
    """A network, its optimiser, and the memory that it is trained on.

    `trained (3, p)` weights and their moments; `counts (2,)` visits learned from and training steps done; every
    `train_every` visits the memory keeps `keep` of its weights and `training_steps` steps are taken on `batch_size` of
    its slots, with a chance of `dropout` that a unit of the hidden layer is left out for a slot. `key (1,)` numbers the
    draws.
    """

    trained: Annotated[Float32Array, ANY_SINGLES, trained_flaws]
    counts: IntArray
    memory: RowMemory
    key: np.ndarray
    hidden: int
    rate: float
    batch_size: int
    train_every: int
    training_steps: int
    keep: float
    dropout: float

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        below = (self.memory.xs.shape[1] + 1) * self.hidden
        heads = (self.trained.shape[1] - below) // (self.hidden + 1)
        if self.memory.heads.max() >= heads:
            yield f"memory.heads holds {self.memory.heads.max()}, expected a head below {heads}"
        if self.memory.seen.max() > self.counts[SEEN]:
            yield f"memory.seen holds {self.memory.seen.max()}, expected at most the visits, {self.counts[SEEN]}"


def hidden_layer_table(dim: int, hidden: int) -> IntArray:
    """Return the table of the one hidden layer, as `zoosim.nets` has it."""
    return make_layers([dim, hidden], [RELU], "by input")


def new_params(dim: int, hidden: int, heads: int, *, rng: np.random.Generator) -> Float32Array:
    """Return fresh weights `(p,)`, uniform in +-1/sqrt(inputs)."""
    lower = fresh_weights(hidden_layer_table(dim, hidden), rng=rng)
    return np.concatenate([lower, fresh_heads(heads, hidden, rng=rng)]).astype(np.float32)


@jit
def first_layer(learner: HeadsLearner) -> tuple[Float32Array, Float32Array]:
    """Return the weights `(d, h)` and the bias `(h,)` of the hidden layer, as views."""
    end = learner.memory.xs.shape[1] * learner.hidden
    params = learner.trained[0]
    return params[:end].reshape(learner.memory.xs.shape[1], learner.hidden), params[end : end + learner.hidden]


@jit
def hidden_layer(learner: HeadsLearner, x: FloatArray) -> Float32Array:
    """Return z `(h,)` of x `(d,)`."""
    weights, bias = first_layer(learner)
    z = bias.copy()
    add_product(x.astype(np.float32), weights, z)
    for j in range(z.shape[0]):
        z[j] = max(z[j], np.float32(0.0))
    return z


@jit
def heads(learner: HeadsLearner) -> tuple[Float32Array, Float32Array]:
    """Return the weights `(m, h)` and the biases `(m,)` of all heads, as views."""
    params = learner.trained[0]
    start = (learner.memory.xs.shape[1] + 1) * learner.hidden
    count = (params.shape[0] - start) // (learner.hidden + 1)
    end = start + count * learner.hidden
    return params[start:end].reshape(count, learner.hidden), params[end:]


@jit
def draw_mask(chance: float, key: np.uint64, i: int, j: int, out: Float32Array) -> None:
    """Write what dropout multiplies units by `(h,)`: 0 with `chance`, by draws (key, i, j), ..., else 1/(1 - chance).

    Srivastava et al. 2014, with the scale at training rather than at prediction: units keep their expectation.
    """
    scale = np.float32(1.0 / (1.0 - chance))
    for unit in range(out.shape[0]):
        out[unit] = np.float32(0.0) if uniform(key, i, j + unit) < chance else scale


@jit
def learn(learner: HeadsLearner, layers: IntArray, x: FloatArray, head: int, reward: float) -> IntArray:
    """Remember (x, head, reward) and train when it is time; return the memory's slots in use if the network moved."""
    counts = learner.counts
    counts[SEEN] += 1
    remember(learner.memory, x, head, reward, counts[SEEN])
    if counts[SEEN] % learner.train_every != 0:
        return np.empty(0, np.int64)
    slots = fade(learner.memory, learner.keep, LEAST)
    if slots.shape[0] > 0:
        _train(learner, layers, slots)
    return slots


@jit
def _train(learner: HeadsLearner, layers: IntArray, slots: IntArray) -> None:
    """Train on all slots `(n,)` when they make a batch, else on some drawn by weight."""
    memory = learner.memory
    counts = learner.counts
    size = min(slots.shape[0], learner.batch_size)
    totals = np.cumsum(memory.counts[slots])
    # Slots that are drawn in proportion to their weights count alike; where all are taken, each counts by its weight.
    weights = np.full(size, 1.0 / size)
    batch = slots.copy()
    if size == slots.shape[0]:
        weights = memory.counts[slots] / totals[-1]
    no_traits = np.empty((0, 0), np.float32)
    masks = np.empty((size if learner.dropout > 0.0 else 0, learner.hidden), np.float32)
    for _ in range(learner.training_steps):
        counts[STEPS] += 1
        if size < slots.shape[0]:
            batch = slots[draw_by_weight(totals, size, learner.key[0], -counts[STEPS])]
        for n in range(masks.shape[0]):
            # Behind the draws of slots, which take the first numbers of a step.
            draw_mask(learner.dropout, learner.key[0], -counts[STEPS], size + n * learner.hidden, masks[n])
        # The squared error of a slot's rewards is that of their mean times their weight, but for a constant.
        targets = memory.sums[batch] / memory.counts[batch]
        data = memory.xs, batch, memory.heads[batch], no_traits, masks, targets, weights
        fit_heads(learner.trained, layers, *data, learner.rate, counts[STEPS])


@jit
def draw_by_weight(totals: FloatArray, size: int, key: np.uint64, i: int) -> IntArray:
    """Draw `size` places of the cumulative weights `totals (n,)`, one in each of as many equal parts."""
    drawn = np.empty(size, np.int64)
    for part in range(size):
        # Stratified: each slot is drawn as often in the mean as by independent draws, with less scatter.
        point = (part + uniform(key, i, part)) / size * totals[-1]
        # Rounding may bring the last point behind the last weight.
        drawn[part] = min(np.searchsorted(totals, point, side="right"), totals.shape[0] - 1)
    return drawn
