"""Dropout as Thompson sampling: each decision asks another random part of the network.

A mask over the hidden units is drawn for each decision, and the best product by what is left of the network is shown
(Gal & Ghahramani 2016; as a bandit policy Riquelme, Tucker & Snoek 2018). The spread of its draws does not shrink as
observations gather: it keeps exploring, and cannot tell a category that it knows from one that it has never shown.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.parameters import parameter
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.dense import dot
from zoosim.models import heads_net
from zoosim.models.embedding_net import Float32Array
from zoosim.policies.categories import Categories, new_categories
from zoosim.policies.kernel import DRAWS, Kernel, asked_key, first_of_each
from zoosim.policies.neural_linear import Arms, HeadsPolicy, features_of


class State(NamedTuple):
    """As that of `neural_linear`, without its ridge models."""

    learner: heads_net.Learner
    categories: Categories
    joint: BoolArray
    draws: IntArray
    arms: Arms


@jit
def _best(state: State, user: FloatArray, found: IntArray, key: np.uint64, i: int) -> int:
    """Return the product with the highest estimate of the network under mask number i."""
    net, best, top = heads_net.network(state.learner), -1, -np.inf
    z = _masked(state, user, 0, key, i)
    for g in range(found.shape[0]):
        if found[g] >= 0:
            if state.arms.joint:
                z = _masked(state, user, g, key, i)
            head = 0 if state.arms.joint else g
            score = net.b2[head] + dot(z, net.w2[head])
            if best < 0 or score > top or (score == top and found[g] < best):
                best, top = found[g], score
    return best


@jit
def _masked(state: State, user: FloatArray, group: int, key: np.uint64, i: int) -> Float32Array:
    """Return z `(h,)` under mask number i, the same mask for every group."""
    x, _ = features_of(state.arms, user, group)
    z = heads_net.hidden_layer(heads_net.network(state.learner), x)
    heads_net.drop_out(z, state.learner.dropout, key, i, 0)
    return z


@jit
def _choose(state: State, user_id: int, user: FloatArray, available: BoolArray) -> int:
    state.draws[0] += 1
    found = first_of_each(state.arms.group_of, available, state.arms.groups)
    return _best(state, user, found, state.learner.key[0], state.draws[0])


@jit
def _probability(state: State, user_id: int, user: FloatArray, available: BoolArray, action: int) -> float:
    found = first_of_each(state.arms.group_of, available, state.arms.groups)
    if found[state.arms.group_of[action]] != action:
        return 0.0
    key, hits = asked_key(state.learner.key, state.draws), 1.0 / np.sum(found >= 0)
    for i in range(DRAWS):
        hits += _best(state, user, found, key, i) == action
    chance: float = hits / (DRAWS + 1)
    return chance


@jit
def _learn(state: State, user_id: int, user: FloatArray, action: int, reward: float) -> None:
    x, head = features_of(state.arms, user, state.arms.group_of[action])
    heads_net.learn(state.learner, x, head, reward)


class DropoutTS(HeadsPolicy):
    """Thompson sampling by dropout masks; propensities come from 255 of them."""

    name = "dropout-ts"
    kernel = Kernel("dropout_ts", _choose, _learn, _probability)
    learned = ("learner", "categories", "joint", "draws")
    dropout: float = parameter(0.2, low=0.01, high=0.9, help="chance that a hidden unit is left out")
    optimism: float = parameter(0.5, low=-1e6, high=1e6, help="what a category is expected to earn before it is shown")

    def _new_state(self) -> State:
        learner = self._new_learner(self.dropout)
        heads_net.network(learner).b2[:] = self.optimism
        categories = new_categories(self._heads(), self.spec.product_dim)
        return State(learner, categories, np.zeros(1, np.bool_), np.zeros(1, np.int64), self._no_arms())
