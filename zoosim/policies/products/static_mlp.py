"""The batch-learning baseline: trained offline on a log of the past, never again."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np

from zoosim.core.errors import ConfigError, PolicyError
from zoosim.core.jit import inlined, jit
from zoosim.core.limits import IDS
from zoosim.core.parameters import parameter
from zoosim.core.state import saved_length
from zoosim.core.types import BoolArray, Context, Float32Array, FloatArray, IntArray, PastLog, Progress
from zoosim.linear.dense import add_product, copy_vector, dot
from zoosim.policies.kernel import Kernel, KernelPolicy, nothing_decided

MAX_REMEMBERED = 25_000_000
"""Scores kept for a set of candidates (users x products); those of a larger shop are computed anew at every visit."""


class StaticMLPState(NamedTuple):
    """The network, its first layer split: `upper (U, 64)` of users with bias, `lower (P + 1, 64)` of products.

    `product_ids (P,)`, ascending, are those of the log; the last row of `lower` is the mean of all, for other products.
    `w2 (64, 32)`, `b2 (32,)`, `w3 (32,)`.
    """

    upper: Float32Array
    product_ids: Annotated[IntArray, IDS]
    lower: Float32Array
    w2: Float32Array
    b2: Float32Array
    w3: Float32Array

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        if (self.product_ids[1:] <= self.product_ids[:-1]).any():
            yield "product_ids are not ascending"


class StaticMLPCandidates(NamedTuple):
    """The products' part of the first layer, `lower (K, 64)`.

    `scores (U or 1, K)` are filled at a user's first visit, `known (U or 1,)`.
    """

    lower: Float32Array
    scores: Float32Array
    known: BoolArray


@inlined
def _scores_of(state: StaticMLPState, candidates: StaticMLPCandidates, user_id: int) -> Float32Array:
    """Return the logits `(K,)` of a user's products, up to a constant."""
    slot = user_id if candidates.scores.shape[0] > 1 else 0
    if not candidates.known[slot] or candidates.scores.shape[0] == 1:
        _score(state.upper[user_id], candidates.lower, state.w2, state.b2, state.w3, candidates.scores[slot])
        candidates.known[slot] = True
    scores: Float32Array = candidates.scores[slot]
    return scores


@jit
def _score(
    upper: Float32Array, lower: Float32Array, w2: Float32Array, b2: Float32Array, w3: Float32Array, out: Float32Array
) -> None:
    """Write the logits `(K,)`, up to a constant, of a user `upper (64,)` with the products `lower (K, 64)` to `out`."""
    first = np.empty_like(upper)
    second = np.empty_like(b2)
    for k in range(lower.shape[0]):
        for i in range(upper.shape[0]):
            first[i] = max(upper[i] + lower[k, i], np.float32(0.0))
        copy_vector(b2, second)
        add_product(first, w2, second)
        for j in range(second.shape[0]):
            second[j] = max(second[j], np.float32(0.0))
        out[k] = dot(second, w3)


@inlined
def _best(state: StaticMLPState, candidates: StaticMLPCandidates, user_id: int, available: BoolArray) -> int:
    scores = _scores_of(state, candidates, user_id)
    best = -1
    for k in range(available.shape[0]):
        if available[k] and (best < 0 or scores[k] > scores[best]):
            best = k
    return best


@inlined
def _choose(
    state: StaticMLPState,
    candidates: StaticMLPCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    draw: float,
) -> int:
    return _best(state, candidates, user_id, available)


@jit
def _distribution(
    state: StaticMLPState,
    candidates: StaticMLPCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    out: FloatArray,
) -> None:
    out[_best(state, candidates, user_id, available)] = 1.0


@jit
def _learn(
    state: StaticMLPState, candidates: StaticMLPCandidates, user_id: int, user: FloatArray, action: int, reward: float
) -> None:
    pass


class StaticMLP(KernelPolicy):
    """Show what an embedding + MLP recommender, trained on a log of random choices, thinks is clicked most.

    It knows users and products by their ids, not by their features, and never learns again. It cannot decide before
    `fit`. A product that was not in the log is taken for the mean of those that were; an unknown user is refused.
    """

    name = "static-mlp"
    kernel = Kernel("static_mlp", _choose, _distribution, _learn, nothing_decided)
    learned = ("upper", "product_ids", "lower", "w2", "b2", "w3")
    needs_user_ids = True
    learns_online = False
    past_visits: int = parameter(200_000, low=10, high=100_000_000, help="logged visits to train on")
    epochs: int = parameter(10, low=1, high=1000, help="passes over the log")
    batch_size: int = parameter(512, low=1, high=1_000_000, help="observations in a training step")
    learning_rate: float = parameter(0.001, low=1e-8, high=10, help="step size of Adam")
    embedding: int = parameter(32, low=1, high=1024, help="length of the user and product embeddings")

    def _new_state(self) -> StaticMLPState:
        if self.spec.n_users < 1:
            raise ConfigError("static-mlp: needs visitors with known ids (n_users of at least 1); leave it out here")
        self._seed = int(self.rng.integers(2**31))
        self._fitted = False
        return StaticMLPState(
            upper=np.zeros((self.spec.n_users, 64), np.float32),
            product_ids=np.zeros(0, np.int64),
            lower=np.zeros((1, 64), np.float32),
            w2=np.zeros((64, 32), np.float32),
            b2=np.zeros(32, np.float32),
            w3=np.zeros(32, np.float32),
        )

    def _candidates(self, ids: IntArray, products: FloatArray) -> StaticMLPCandidates:
        known_ids = self.state.product_ids
        places = np.searchsorted(known_ids, ids)
        is_known = np.isin(ids, known_ids)
        rows = self.spec.n_users if self.spec.n_users * len(ids) <= MAX_REMEMBERED else 1
        return StaticMLPCandidates(
            lower=self.state.lower[np.where(is_known, places, len(known_ids))],
            scores=np.zeros((rows, len(ids)), np.float32),
            known=np.zeros(rows, np.bool_),
        )

    def fit(self, log: PastLog, progress: Progress = lambda line: None) -> dict[str, float]:
        """Train on `log`, or take the model of the very same log, training and seed from the cache."""
        from zoosim.models.recommender import TrainingSettings, load_or_train

        if log.user_ids is None:
            raise PolicyError("static-mlp: the log has no user ids, by which it knows visitors")
        for user_id in (log.user_ids.min(), log.user_ids.max()):
            self._check_user(user_id)
        product_ids, product_of = np.unique(np.asarray(log.product_ids, np.int64), return_inverse=True)
        choices = {"user_id": log.user_ids, "action": product_of[log.actions], "reward": log.rewards}
        training = TrainingSettings(self.embedding, self.epochs, self.batch_size, self.learning_rate)
        sizes = (self.spec.n_users, len(product_ids))
        weights, losses = load_or_train(choices, *sizes, training, self._seed, progress)
        self._take_over(product_ids, weights)
        self._fitted = True
        self._forget_candidates()
        return losses

    def _take_over(self, product_ids: IntArray, weights: Mapping[str, Any]) -> None:
        """Split the first layer of trained `weights` into what users and what products add to it."""
        # W [u, p] = W_u u + W_p p, so each part is computed once per user and per product, not once per pair.
        of_users, of_products = np.split(weights["fc1.weight"].T, [self.embedding])
        lower = weights["product.weight"] @ of_products
        # The last row, of unknown products, is the mean of the others: the layer
        # is linear, so it is that of the mean embedding.
        self.state = self.state._replace(product_ids=product_ids, lower=np.vstack([lower, lower.mean(axis=0)]))
        self.state.upper[:] = weights["user.weight"] @ of_users + weights["fc1.bias"]
        self.state.w2[:] = weights["fc2.weight"].T
        self.state.b2[:] = weights["fc2.bias"]
        self.state.w3[:] = weights["output.weight"][0]

    def attach(self, context: Context) -> StaticMLPCandidates:
        """Take in the candidates; refuses to decide before `fit`, and for visitors it does not know."""
        if not self._fitted:
            raise PolicyError("static-mlp: not trained; call fit(log) first, or load a saved state")
        self._check_user(context.get("user_id", 0))  # a block of visits has candidates, but no visitor
        candidates: StaticMLPCandidates = super().attach(context)
        return candidates

    def _check_user(self, user_id: int) -> None:
        if not 0 <= user_id < self.spec.n_users:
            raise PolicyError(f"static-mlp: user {user_id} is not one of 0 to {self.spec.n_users - 1}")

    def _shaped_as(self, saved: Mapping[str, Any]) -> StaticMLPState:
        state: StaticMLPState = self.state
        n = saved_length(saved, "product_ids")
        if n >= 0:
            state = state._replace(product_ids=np.zeros(n, np.int64), lower=np.zeros((n + 1, 64), np.float32))
        return state

    def _state_loaded(self) -> None:
        super()._state_loaded()
        self._fitted = True
