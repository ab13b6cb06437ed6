"""Neural-Linear in its three published forms: a network's embedding, and LinUCB on top of it.

All keep the sums A = I + sum z z' and b = sum r z although the network that made each z has moved on since. That is a
fault of the published forms, measured here on purpose: the experiments are about it. (Riquelme, Tucker & Snoek 2018
recompute the sums.) x = [user, product], z = W2' relu(W1' x + b1) + b2, or the ReLU of that;
the score is z' A^-1 b + alpha sqrt(z' A^-1 z).
"""

from collections.abc import Iterator
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from zoosim.core.claims import claim
from zoosim.core.jit import inlined, jit
from zoosim.core.limits import ANY_SINGLES, trained_flaws
from zoosim.core.parameters import parameter
from zoosim.core.rng import draw_key, uniform
from zoosim.core.types import BoolArray, Float32Array, FloatArray, IntArray
from zoosim.linear.dense import add_product, copy_vector, dot, scale_vector
from zoosim.linear.ridge import Ridge, add_sums, clear, new_ridge, observe, solve
from zoosim.models import embedding_net as nets
from zoosim.nets.adam import LARGEST_ERROR
from zoosim.nets.heads import fit_heads, heads_gradient
from zoosim.nets.network import INPUTS, LINEAR, RELU, with_moments
from zoosim.policies.choice import best_of, distinct_rows
from zoosim.policies.kernel import Kernel, KernelPolicy, nothing_decided

MAX_CACHED = 20_000
"""Embeddings that are kept between decisions for a set of candidates, over all remembered users."""

LONGEST = 1e3
"""The longest gradient of a step by plain descent (clipped by its norm: Pascanu, Mikolov & Bengio 2013)."""

LONGEST_EMBEDDING = 1e4
"""The length that embeddings are shortened to: sums of squares of longer ones drown the regularization in rounding."""


class PublishedNeuralLinearCandidates(NamedTuple):
    """The distinct products among the candidates, and their embeddings as the network was after so many `steps (1,)`.

    `rows (R, d_p)` distinct products, `row_of (K,)`; `users (M, d_u)` the last distinct users, NaN where there is none,
    `z (M, R, e)` their embeddings, `next (1,)` the slot to fill next.
    """

    rows: FloatArray
    row_of: IntArray
    users: FloatArray
    z: FloatArray
    next: IntArray
    steps: IntArray


class ObservationRing(NamedTuple):
    """The newest observations, in a ring: `xs (C, d)`, `rewards (C,)`; `order (C,)` to draw from."""

    xs: Float32Array
    rewards: Float32Array
    order: IntArray

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        if not np.array_equal(np.sort(self.order), np.arange(len(self.rewards))):
            yield f"order holds other numbers than 0 to {len(self.rewards) - 1:,}, each once"


SEEN, STEPS = 0, 1


class PublishedNeuralLinearState(NamedTuple):
    """Ridge sums over embeddings, the network with its optimiser, and the memory.

    `trained (3, p)` weights and their moments, `layers` their table; `counts (2,)` observations seen and gradient steps
    taken.
    """

    ridge: Ridge
    trained: Annotated[Float32Array, ANY_SINGLES, trained_flaws]
    layers: IntArray
    counts: IntArray
    memory: ObservationRing
    key: np.ndarray
    alpha: float
    rate: float
    batch_size: int
    train_every: int
    training_steps: int
    recompute: bool


@jit
def _slot(
    trained: Float32Array, layers: IntArray, steps: int, candidates: PublishedNeuralLinearCandidates, user: FloatArray
) -> int:
    """Return where in `candidates.z` the embeddings `(R, e)` of this user with every distinct product stand."""
    if candidates.steps[0] != steps:  # those of a network that has moved are forgotten
        candidates.users[:] = np.nan
        candidates.steps[0] = steps
    found = _find(candidates.users, user)
    if found >= 0:
        return found
    slot: int = candidates.next[0]
    candidates.next[0] = (slot + 1) % candidates.users.shape[0]
    copy_vector(user, candidates.users[slot])
    out = candidates.z[slot]
    xs = np.empty((out.shape[0], layers[0, INPUTS]), np.float32)
    for r in range(xs.shape[0]):
        copy_vector(user, xs[r, : user.shape[0]])
        copy_vector(candidates.rows[r], xs[r, user.shape[0] :])
    nets.embed(trained[0], layers, xs, out)
    for r in range(xs.shape[0]):
        _shorten(out[r])
    return slot


@jit
def _find(users: FloatArray, user: FloatArray) -> int:
    """Return the row of `users (M, d_u)` that equals `user`, or -1."""
    for m in range(users.shape[0]):
        i = 0
        # NaN equals nothing, so a slot without a user is never found.
        while i < user.shape[0] and users[m, i] == user[i]:
            i += 1
        if i == user.shape[0]:
            return m
    return -1


@jit
def _shorten(z: FloatArray) -> None:
    """Shorten an embedding `(e,)` that is longer than `LONGEST_EMBEDDING`."""
    square = dot(z, z)
    if square > LONGEST_EMBEDDING * LONGEST_EMBEDDING:
        scale_vector(z, LONGEST_EMBEDDING / np.sqrt(square))


@inlined
def _best(
    state: PublishedNeuralLinearState,
    candidates: PublishedNeuralLinearCandidates,
    user: FloatArray,
    available: BoolArray,
) -> int:
    z = candidates.z[_slot(state.trained, state.layers, state.counts[STEPS], candidates, user)]
    scores = _scores(z, state.ridge.theta[0], state.ridge.inverse[0], state.alpha)
    return best_of(scores, candidates.row_of, available)


@jit
def _scores(z: FloatArray, theta: FloatArray, inverse: FloatArray, alpha: float) -> FloatArray:
    """Return z' theta + alpha sqrt(z' A^-1 z) of every row of `z (R, e)`."""
    scores = np.empty(z.shape[0])
    spread = np.empty(z.shape[1])
    for r in range(z.shape[0]):
        spread[:] = 0.0
        add_product(z[r], inverse, spread)
        scores[r] = dot(z[r], theta) + alpha * np.sqrt(max(dot(z[r], spread), 0.0))
    return scores


@inlined
def _choose(
    state: PublishedNeuralLinearState,
    candidates: PublishedNeuralLinearCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    draw: float,
) -> int:
    return _best(state, candidates, user, available)


@jit
def _distribution(
    state: PublishedNeuralLinearState,
    candidates: PublishedNeuralLinearCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    out: FloatArray,
) -> None:
    out[_best(state, candidates, user, available)] = 1.0


@inlined
def _learn_online(
    state: PublishedNeuralLinearState,
    candidates: PublishedNeuralLinearCandidates,
    user_id: int,
    user: FloatArray,
    action: int,
    reward: float,
) -> None:
    row = candidates.row_of[action]
    z = candidates.z[_slot(state.trained, state.layers, state.counts[STEPS], candidates, user), row]
    x = np.concatenate((user, candidates.rows[row])).astype(np.float32).reshape(1, -1)
    observe(state.ridge, 0, z, np.arange(z.shape[0]), reward)
    theta = state.ridge.theta[0]
    error = max(min(dot(z, theta) - reward, LARGEST_ERROR), -LARGEST_ERROR)
    gradient = np.zeros(state.trained.shape[1], np.float32)
    # d (z'theta - r)^2 / dz = 2 (z'theta - r) theta, with theta held constant.
    nets.embedding_gradient(state.trained[0], state.layers, x, 2.0 * error * theta, gradient)
    _descend(state.trained[0], gradient, state.rate)
    state.counts[STEPS] += 1


@jit
def _descend(params: Float32Array, gradient: Float32Array, learning_rate: float) -> None:
    """Take a step of plain descent on `params (p,)`."""
    rate = np.float32(learning_rate * _kept(gradient))
    for i in range(params.shape[0]):
        params[i] -= rate * gradient[i]


@jit
def _kept(gradient: Float32Array) -> float:
    """Return the share of a gradient `(p,)` that a step takes: 1 unless it is longer than `LONGEST`."""
    square = 0.0
    for i in range(gradient.shape[0]):
        square += float(gradient[i]) * float(gradient[i])
    return LONGEST / np.sqrt(square) if square > LONGEST * LONGEST else 1.0


@inlined
def _learn_head(
    state: PublishedNeuralLinearState,
    candidates: PublishedNeuralLinearCandidates,
    user_id: int,
    user: FloatArray,
    action: int,
    reward: float,
) -> None:
    row = candidates.row_of[action]
    z = candidates.z[_slot(state.trained, state.layers, state.counts[STEPS], candidates, user), row]
    observe(state.ridge, 0, z, np.arange(z.shape[0]), reward)
    xs = np.concatenate((user, candidates.rows[row])).astype(np.float32).reshape(1, -1)
    first = np.zeros(1, np.int64)
    none = np.empty((0, 0), np.float32)  # neither traits of heads nor masks
    gradient = np.zeros(state.trained.shape[1], np.float32)
    data = xs, first, first, none, none, np.full(1, reward), np.ones(1)
    heads_gradient(state.trained[0], state.layers, *data, gradient)
    _descend(state.trained[0], gradient, state.rate)
    state.counts[STEPS] += 1


@inlined
def _learn_stable(
    state: PublishedNeuralLinearState,
    candidates: PublishedNeuralLinearCandidates,
    user_id: int,
    user: FloatArray,
    action: int,
    reward: float,
) -> None:
    row = candidates.row_of[action]
    memory = state.memory
    counts = state.counts
    z = candidates.z[_slot(state.trained, state.layers, counts[STEPS], candidates, user), row]
    observe(state.ridge, 0, z, np.arange(z.shape[0]), reward)
    slot = counts[SEEN] % memory.rewards.shape[0]
    copy_vector(user, memory.xs[slot, : user.shape[0]])
    copy_vector(candidates.rows[row], memory.xs[slot, user.shape[0] :])
    memory.rewards[slot] = reward
    counts[SEEN] += 1
    held = min(counts[SEEN], memory.rewards.shape[0])
    if counts[SEEN] % state.train_every == 0 and held >= state.batch_size:
        for step in range(state.training_steps):
            # A number of its own for each step, whichever training it belongs to.
            draw = counts[SEEN] * state.training_steps + step
            batch = _draw_batch(memory.order, held, state.batch_size, state.key[0], draw)
            counts[STEPS] += 1
            targets = memory.rewards[batch].astype(np.float64)
            weights = np.full(batch.shape[0], 1.0 / batch.shape[0])
            none = np.empty((0, 0), np.float32)  # neither traits of heads nor masks
            data = memory.xs, batch, np.zeros_like(batch), none, none, targets, weights
            fit_heads(state.trained, state.layers, *data, state.rate, counts[STEPS])
        if state.recompute:
            _recompute(state.trained[0], state.layers, state.ridge, memory, held)


@jit
def _recompute(params: Float32Array, layers: IntArray, ridge: Ridge, memory: ObservationRing, held: int) -> None:
    """Compute the sums anew from the `held` observations in memory, as the network now embeds them."""
    z = np.empty((held, ridge.b.shape[1]))
    nets.embed(params, layers, memory.xs[:held], z)
    clear(ridge, 0)
    everywhere = np.arange(z.shape[1])
    for n in range(held):
        _shorten(z[n])
        add_sums(ridge, 0, z[n], everywhere, 1.0, memory.rewards[n])
    solve(ridge, 0)


@jit
def _draw_batch(order: IntArray, held: int, size: int, key: np.uint64, time: int) -> IntArray:
    """Draw `size` of 0 to `held - 1` without replacement: the first steps of a Fisher-Yates shuffle."""
    # Swaps stay among the first `held` places, so these always hold 0 to held - 1 in some order, and need no reset.
    for n in range(size):
        other = n + int(uniform(key, time, n) * (held - n))
        order[n], order[other] = order[other], order[n]
    return order[:size].copy()


class _NeuralLinear(KernelPolicy):
    """Base of the published forms; `units` are those of the embedding."""

    baseline_only = True
    units: ClassVar[int] = LINEAR
    learned = ("ridge", "trained", "counts", "memory", "key")
    hidden: int = parameter(64, low=1, high=4096, help="units of the hidden layer")
    embedding: int = parameter(32, low=1, high=1024, help="length of the embedding")
    learning_rate: float = parameter(0.01, low=0, high=10, help="step size of the network's training")
    alpha: float

    def _make(
        self, memory: int, batch_size: int, train_every: int, training_steps: int = 1, recompute: bool = False
    ) -> PublishedNeuralLinearState:
        dim = self.spec.user_dim + self.spec.product_dim
        claim((dim + self.embedding) * self.hidden + memory)
        params = nets.new_params(dim, self.hidden, self.embedding, rng=self.rng)
        store = ObservationRing(np.zeros((memory, dim), np.float32), np.zeros(memory, np.float32), np.arange(memory))
        return PublishedNeuralLinearState(
            ridge=new_ridge(1, self.embedding),
            trained=with_moments(params),
            layers=nets.embedding_layers(dim, self.hidden, self.embedding, self.units),
            counts=np.zeros(2, np.int64),
            memory=store,
            key=np.array([draw_key(self.rng)]),
            alpha=self.alpha,
            rate=self.learning_rate,
            batch_size=batch_size,
            train_every=train_every,
            training_steps=training_steps,
            recompute=recompute,
        )

    def _exploiting(self) -> PublishedNeuralLinearState:
        state: PublishedNeuralLinearState = self.state._replace(alpha=0.0)
        return state

    def _candidates(self, ids: IntArray, products: FloatArray) -> PublishedNeuralLinearCandidates:
        rows, row_of = distinct_rows(products)
        users = int(np.clip(MAX_CACHED // len(rows), 1, 64))
        return PublishedNeuralLinearCandidates(
            rows=rows,
            row_of=row_of,
            users=np.full((users, self.spec.user_dim), np.nan),
            z=np.zeros((users, len(rows), self.embedding)),
            next=np.zeros(1, np.int64),
            steps=np.full(1, -1),
        )


class NeuralLinearOnline(_NeuralLinear):
    """Neural-Linear with a gradient step after every decision, through the linear head's own estimate.

    One SGD step on (z' theta - r)^2 a visit, theta held constant; the sums are never recomputed.
    """

    name = "neural-linear-online"
    kernel = Kernel("neural_linear_online", _choose, _distribution, _learn_online, nothing_decided)
    alpha: float = parameter(0.2, low=0, high=100, help="width of the confidence bound, in standard deviations")

    def _new_state(self) -> PublishedNeuralLinearState:
        return self._make(memory=1, batch_size=1, train_every=1)


class NeuralLinearHead(_NeuralLinear):
    """Neural-Linear with a ReLU on the embedding and a gradient step after every decision, through a head of its own.

    One SGD step on (w' z + c - r)^2 a visit, in the network and the head w, c, which trains and never decides; the sums
    are never recomputed.
    """

    name = "neural-linear-head"
    kernel = Kernel("neural_linear_head", _choose, _distribution, _learn_head, nothing_decided)
    units = RELU
    alpha: float = parameter(1.0, low=0, high=100, help="width of the confidence bound, in standard deviations")

    def _new_state(self) -> PublishedNeuralLinearState:
        return self._make(memory=1, batch_size=1, train_every=1)


class NeuralLinearStable(_NeuralLinear):
    """Neural-Linear with a replay memory: every `train_every` visits one Adam step on a batch drawn from it.

    The network trains on the squared error of a head of its own. As published the sums are never recomputed; with
    `recompute` they are, from the memory, after each training.
    """

    name = "neural-linear-stable"
    kernel = Kernel("neural_linear_stable", _choose, _distribution, _learn_stable, nothing_decided)
    alpha: float = parameter(0.3, low=0, high=100, help="width of the confidence bound, in standard deviations")
    memory: int = parameter(10_000, low=1, high=10_000_000, help="observations kept for training, the newest")
    batch_size: int = parameter(64, low=1, high=100_000, help="observations in a training step")
    train_every: int = parameter(50, low=1, high=1_000_000, help="visits between trainings")
    training_steps: int = parameter(1, low=1, high=1000, help="steps of a training")
    recompute: bool = parameter(False, help="compute the sums anew from the memory after each training")

    def _new_state(self) -> PublishedNeuralLinearState:
        batch_size = min(self.batch_size, self.memory)
        return self._make(self.memory, batch_size, self.train_every, self.training_steps, self.recompute)
