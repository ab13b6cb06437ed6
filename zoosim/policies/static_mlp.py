"""The batch-learning baseline: trained offline on a log of the past, never again."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.errors import ConfigError, PolicyError
from zoosim.core.jit import inlined, jit
from zoosim.core.parameters import parameter
from zoosim.core.types import BoolArray, Context, FloatArray, Progress
from zoosim.linear.dense import add_product, dot
from zoosim.models.embedding_net import Float32Array
from zoosim.policies.kernel import Kernel, KernelPolicy

MAX_REMEMBERED = 100_000_000
"""Scores kept (users x products); a larger shop's are computed anew at every visit."""


class State(NamedTuple):
    """The network, its first layer split: `upper (U, 64)` of users with bias, `lower (K, 64)` of products.

    `w2 (64, 32)`, `b2 (32,)`, `w3 (32,)`; `scores (U or 1, K)` filled at a user's first visit, `known (U or 1,)`.
    """

    upper: Float32Array
    lower: Float32Array
    w2: Float32Array
    b2: Float32Array
    w3: Float32Array
    scores: Float32Array
    known: BoolArray


@inlined
def _slot(state: State, user_id: int) -> int:
    """Return the row of `state.scores` with the logits `(K,)` of a user's products, up to a constant."""
    slot = user_id if state.scores.shape[0] > 1 else 0
    if not state.known[slot] or state.scores.shape[0] == 1:
        _score(state.upper[user_id], state.lower, state.w2, state.b2, state.w3, state.scores[slot])
        state.known[slot] = True
    return slot


@jit
def _score(
    upper: Float32Array, lower: Float32Array, w2: Float32Array, b2: Float32Array, w3: Float32Array, out: Float32Array
) -> None:
    """Write the logits `(K,)`, up to a constant, of a user `upper (64,)` with the products `lower (K, 64)` to `out`."""
    first, second = np.empty_like(upper), np.empty_like(b2)
    for k in range(lower.shape[0]):
        for i in range(upper.shape[0]):
            first[i] = max(upper[i] + lower[k, i], np.float32(0.0))
        second[:] = b2
        add_product(first, w2, second)
        for j in range(second.shape[0]):
            second[j] = max(second[j], np.float32(0.0))
        out[k] = dot(second, w3)


@inlined
def _best(state: State, user_id: int, available: BoolArray) -> int:
    scores, best = state.scores[_slot(state, user_id)], -1
    for k in range(available.shape[0]):
        if available[k] and (best < 0 or scores[k] > scores[best]):
            best = k
    return best


@inlined
def _choose(state: State, user_id: int, user: FloatArray, available: BoolArray) -> int:
    return _best(state, user_id, available)


@jit
def _learn(state: State, user_id: int, user: FloatArray, action: int, reward: float) -> None:
    pass


@jit
def _probability(state: State, user_id: int, user: FloatArray, available: BoolArray, action: int) -> float:
    return 1.0 if _best(state, user_id, available) == action else 0.0


class StaticMLP(KernelPolicy):
    """Show what an embedding + MLP recommender, trained on a log of random choices, thinks is clicked most.

    It knows users by their id, not by their features, and never learns again. It cannot decide before `fit`.
    """

    name = "static-mlp"
    kernel = Kernel("static_mlp", _choose, _learn, _probability)
    learned = ("upper", "lower", "w2", "b2", "w3")
    needs_user_ids = True
    past_visits: int = parameter(200_000, low=10, high=100_000_000, help="logged visits to train on")
    epochs: int = parameter(10, low=1, high=1000, help="passes over the log")
    batch_size: int = parameter(512, low=1, high=1_000_000, help="observations in a training step")
    learning_rate: float = parameter(0.001, low=1e-8, high=10, help="step size of Adam")
    embedding: int = parameter(32, low=1, high=1024, help="length of the user and product embeddings")

    def _new_state(self) -> State:
        if self.spec.n_users < 1:
            raise ConfigError("static-mlp: needs visitors with known ids (n_users of at least 1); leave it out here")
        self._seed = int(self.rng.integers(2**31))
        self._fitted = False
        n_users, k = self.spec.n_users, self.spec.n_products
        rows = n_users if n_users * k <= MAX_REMEMBERED else 1
        return State(
            upper=np.zeros((n_users, 64), np.float32),
            lower=np.zeros((k, 64), np.float32),
            w2=np.zeros((64, 32), np.float32),
            b2=np.zeros(32, np.float32),
            w3=np.zeros(32, np.float32),
            scores=np.zeros((rows, k), np.float32),
            known=np.zeros(rows, np.bool_),
        )

    def _with_products(self, products: FloatArray) -> Any:
        return self.state

    def fit(self, log: Mapping[str, Any], progress: Progress = lambda line: None) -> dict[str, float]:
        """Train on `log`, or take the model of the very same log, training and seed from the cache."""
        from zoosim.models.recommender import Training, load_or_train

        training = Training(self.embedding, self.epochs, self.batch_size, self.learning_rate)
        weights, losses = load_or_train(log, self.spec.n_users, self.spec.n_products, training, self._seed, progress)
        w1, dim = weights["fc1.weight"].T, self.embedding
        self.state.upper[:] = weights["user.weight"] @ w1[:dim] + weights["fc1.bias"]
        self.state.lower[:] = weights["product.weight"] @ w1[dim:]
        self.state.w2[:] = weights["fc2.weight"].T
        self.state.b2[:] = weights["fc2.bias"]
        self.state.w3[:] = weights["output.weight"][0]
        self.state.known[:] = False
        self._fitted = True
        return losses

    def attach(self, products: FloatArray) -> None:
        """Take in the candidates; refuses to decide before `fit`."""
        if not self._fitted:
            raise PolicyError("static-mlp: not trained; call fit(log) first, or load a saved state")
        super().attach(products)

    def _arguments(self, context: Context) -> tuple[int, FloatArray, BoolArray]:
        if not 0 <= context.user_id < self.spec.n_users:
            raise PolicyError(f"static-mlp: user {context.user_id} is not one of 0 to {self.spec.n_users - 1}")
        return super()._arguments(context)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over saved weights; the policy can then decide."""
        super().load_state_dict(state)
        self.state.known[:] = False
        self._fitted = True
