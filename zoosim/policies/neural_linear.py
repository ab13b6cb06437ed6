"""Neural-Linear in its two published forms: a network's embedding, and LinUCB on top of it.

Both keep the sums A = I + sum z z' and b = sum r z although the network that made each z has moved on since. That is a
fault of the published forms, measured here on purpose: the experiments are about it. (Riquelme, Tucker & Snoek 2018
recompute the sums.) x = [user, product], z = W2' relu(W1' x + b1) + b2, score z' A^-1 b + alpha sqrt(z' A^-1 z).
"""

from typing import Any, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.parameters import parameter
from zoosim.core.rng import draw_key, uniform
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.ridge import Ridge, new_ridge, observe
from zoosim.models import embedding_net as nets
from zoosim.policies.kernel import Kernel, KernelPolicy, best_of, distinct_rows

MAX_CACHED = 20_000
"""How many embeddings are kept between decisions, over all remembered users."""


class Cache(NamedTuple):
    """Embeddings that hold until the network moves.

    `rows (R, d_p)` distinct products, `row_of (K,)`; `users (M, d_u)` the last distinct users, `z (M, R, e)` their
    embeddings, `valid (M,)`, `next (1,)` the slot to fill next, `lower (R, h)` the products' part of the first layer,
    `lower_valid (1,)`.
    """

    rows: FloatArray
    row_of: IntArray
    users: FloatArray
    z: FloatArray
    valid: BoolArray
    next: IntArray
    lower: nets.Float32Array
    lower_valid: BoolArray


class Memory(NamedTuple):
    """The newest observations, in a ring: `xs (C, d)`, `rewards (C,)`, `seen (1,)` ever; `order (C,)` to draw from."""

    xs: FloatArray
    rewards: FloatArray
    seen: IntArray
    order: IntArray


class State(NamedTuple):
    """Ridge sums over embeddings, the network with room for its gradient, its optimiser, the memory, and the cache."""

    ridge: Ridge
    net: nets.Network
    grad: nets.Network
    adam: nets.Adam
    memory: Memory
    cache: Cache
    key: np.ndarray
    alpha: float
    rate: float
    batch_size: int
    train_every: int


@jit
def _slot(state: State, user: FloatArray) -> int:
    """Return where in `cache.z` the embeddings `(R, e)` of this user with every distinct product stand."""
    found = _find(state.cache.users, state.cache.valid, user)
    return found if found >= 0 else _embed_user(state.net, state.cache, user)


@jit
def _find(users: FloatArray, valid: BoolArray, user: FloatArray) -> int:
    """Return the valid row of `users (M, d_u)` that equals `user`, or -1."""
    for m in range(valid.shape[0]):
        same = valid[m]
        for i in range(user.shape[0]):
            same = same and users[m, i] == user[i]
        if same:
            return m
    return -1


@jit
def _embed_user(net: nets.Network, cache: Cache, user: FloatArray) -> int:
    """Embed this user with every distinct product in the next slot; return the slot."""
    if not cache.lower_valid[0]:
        _embed_products(net, cache, user.shape[0])
    slot: int = cache.next[0]
    cache.next[0] = (slot + 1) % cache.valid.shape[0]
    cache.users[slot], cache.valid[slot] = user, True
    upper = net.b1.copy()
    nets.project(net.w1[: user.shape[0]], user, upper)
    z = np.empty(net.b2.shape[0], np.float32)
    for r in range(cache.rows.shape[0]):
        hidden = upper + cache.lower[r]
        nets.rectify(hidden)
        nets.embed(net, hidden, z)
        cache.z[slot, r] = z
    return slot


@jit
def _embed_products(net: nets.Network, cache: Cache, user_dim: int) -> None:
    cache.lower[:] = 0.0
    for r in range(cache.rows.shape[0]):
        nets.project(net.w1[user_dim:], cache.rows[r], cache.lower[r])
    cache.lower_valid[0] = True


@jit
def _forget_embeddings(cache: Cache) -> None:
    cache.valid[:] = False
    cache.next[0] = 0
    cache.lower_valid[0] = False


@jit
def _best(state: State, user: FloatArray, available: BoolArray) -> int:
    z = state.cache.z[_slot(state, user)]
    return best_of(_scores(z, state.ridge, state.alpha), state.cache.row_of, available)


@jit
def _scores(z: FloatArray, ridge: Ridge, alpha: float) -> FloatArray:
    """Return z' theta + alpha sqrt(z' A^-1 z) of every row of `z (R, e)`."""
    scores, spread = np.empty(z.shape[0]), np.empty(z.shape[1])
    theta, inverse = ridge.theta, ridge.inverse
    for r in range(z.shape[0]):
        spread[:] = 0.0
        for i in range(z.shape[1]):
            for j in range(z.shape[1]):
                spread[j] += z[r, i] * inverse[0, i, j]
        mean = variance = 0.0
        for i in range(z.shape[1]):
            mean += z[r, i] * theta[0, i]
            variance += z[r, i] * spread[i]
        scores[r] = mean + alpha * np.sqrt(max(variance, 0.0))
    return scores


@jit
def _choose(state: State, user_id: int, user: FloatArray, available: BoolArray) -> tuple[int, float]:
    return _best(state, user, available), 1.0


@jit
def _probability(state: State, user_id: int, user: FloatArray, available: BoolArray, action: int) -> float:
    return 1.0 if _best(state, user, available) == action else 0.0


@jit
def _learn_online(state: State, user_id: int, user: FloatArray, action: int, reward: float) -> None:
    row = state.cache.row_of[action]
    z = state.cache.z[_slot(state, user), row]
    x = np.concatenate((user, state.cache.rows[row]))
    observe(state.ridge, 0, z, np.arange(z.shape[0]), reward)
    theta = state.ridge.theta[0]
    slope = (2.0 * (np.sum(z * theta) - reward) * theta).astype(np.float32)
    state.grad.params[:] = 0.0
    nets.backpropagate(state.grad, state.net.w2.T.copy(), x, nets.hidden_of(state.net, x), slope)
    for i in range(state.net.params.shape[0]):
        state.net.params[i] -= np.float32(state.rate) * state.grad.params[i]
    _forget_embeddings(state.cache)


@jit
def _learn_stable(state: State, user_id: int, user: FloatArray, action: int, reward: float) -> None:
    row, memory = state.cache.row_of[action], state.memory
    z = state.cache.z[_slot(state, user), row]
    observe(state.ridge, 0, z, np.arange(z.shape[0]), reward)
    slot = memory.seen[0] % memory.rewards.shape[0]
    memory.xs[slot, : user.shape[0]] = user
    memory.xs[slot, user.shape[0] :] = state.cache.rows[row]
    memory.rewards[slot] = reward
    memory.seen[0] += 1
    held = min(memory.seen[0], memory.rewards.shape[0])
    if memory.seen[0] % state.train_every == 0 and held >= state.batch_size:
        batch = _draw_batch(memory.order, held, state.batch_size, state.key[0], memory.seen[0])
        nets.fit_batch(state.net, state.grad, state.adam, memory.xs, memory.rewards, batch, state.rate)
        _forget_embeddings(state.cache)


@jit
def _draw_batch(order: IntArray, held: int, size: int, key: np.uint64, time: int) -> IntArray:
    """Draw `size` of 0 to `held - 1` without replacement: the first steps of a Fisher-Yates shuffle."""
    for n in range(size):
        other = n + int(uniform(key, time, n) * (held - n))
        order[n], order[other] = order[other], order[n]
    return order[:size].copy()


class _NeuralLinear(KernelPolicy):
    """What the two published forms have in common."""

    learned = ("ridge", "net", "adam", "memory", "key")
    hidden: int = parameter(64, low=1, high=4096, help="units of the hidden layer")
    embedding: int = parameter(32, low=1, high=1024, help="length of the embedding")
    learning_rate: float = parameter(0.01, low=0, high=10, help="step size of the network's training")
    alpha: float

    def _make(self, memory: int, batch_size: int, train_every: int) -> State:
        dim = self.spec.user_dim + self.spec.product_dim
        net = nets.new_network(dim, self.hidden, self.embedding, rng=self.rng)
        store = Memory(np.zeros((memory, dim)), np.zeros(memory), np.zeros(1, np.int64), np.arange(memory))
        return State(
            ridge=new_ridge(1, self.embedding),
            net=net,
            grad=nets.empty_network(dim, self.hidden, self.embedding),
            adam=nets.new_adam(net),
            memory=store,
            cache=self._new_cache(np.zeros((self.spec.n_products, self.spec.product_dim))),
            key=np.array([draw_key(self.rng)]),
            alpha=self.alpha,
            rate=self.learning_rate,
            batch_size=batch_size,
            train_every=train_every,
        )

    def _with_products(self, products: FloatArray) -> Any:
        return self.state._replace(cache=self._new_cache(products))

    def _new_cache(self, products: FloatArray) -> Cache:
        rows, row_of = distinct_rows(products)
        users = int(np.clip(MAX_CACHED // len(rows), 1, 64))
        return Cache(
            rows=rows,
            row_of=row_of,
            users=np.zeros((users, self.spec.user_dim)),
            z=np.zeros((users, len(rows), self.embedding)),
            valid=np.zeros(users, np.bool_),
            next=np.zeros(1, np.int64),
            lower=np.zeros((len(rows), self.hidden), np.float32),
            lower_valid=np.zeros(1, np.bool_),
        )


class NeuralLinearOnline(_NeuralLinear):
    """Neural-Linear with a gradient step after every decision, through the linear head's own estimate.

    One SGD step on (z' theta - r)^2 a visit, theta held constant; the sums are never recomputed.
    """

    name = "neural-linear-online"
    kernel = Kernel("neural_linear_online", _choose, _learn_online, _probability)
    alpha: float = parameter(0.2, low=0, high=100, help="width of the confidence bound, in standard deviations")

    def _new_state(self) -> State:
        return self._make(memory=1, batch_size=1, train_every=1)


class NeuralLinearStable(_NeuralLinear):
    """Neural-Linear with a replay memory: every `train_every` visits one Adam step on a batch drawn from it.

    The network trains on the squared error of a head of its own; the sums are never recomputed.
    """

    name = "neural-linear-stable"
    kernel = Kernel("neural_linear_stable", _choose, _learn_stable, _probability)
    alpha: float = parameter(0.3, low=0, high=100, help="width of the confidence bound, in standard deviations")
    memory: int = parameter(10_000, low=1, high=10_000_000, help="observations kept for training, the newest")
    batch_size: int = parameter(64, low=1, high=100_000, help="observations in a training step")
    train_every: int = parameter(50, low=1, high=1_000_000, help="visits between training steps")

    def _new_state(self) -> State:
        return self._make(self.memory, min(self.batch_size, self.memory), self.train_every)
