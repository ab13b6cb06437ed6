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
from zoosim.policies.choice import DRAWS, draw_number, first_of_each, posterior_key
from zoosim.policies.kernel import Kernel, nothing_decided
from zoosim.policies.products.categories import Categories, new_categories
from zoosim.policies.products.neural_linear import MAX_HEADS, Candidates, HeadsPolicy, features_of, hidden_layers


class State(NamedTuple):
    """As that of `neural_linear`, without its ridge models."""

    learner: heads_net.Learner
    categories: Categories
    joint: BoolArray


@jit
def _best(learner: heads_net.Learner, zs: Float32Array, found: IntArray, joint: bool, key: np.uint64, i: int) -> int:
    """Return the product with the highest estimate under mask number i, the same for every row of `zs (R, h)`."""
    net, best, top = heads_net.network(learner), -1, -np.inf
    mask = np.ones(zs.shape[1], np.float32)
    heads_net.drop_out(mask, learner.dropout, key, i, 0)
    z = zs[0] * mask
    for g in range(found.shape[0]):
        if found[g] >= 0:
            if joint:
                z = zs[g] * mask
            head = 0 if joint else g
            score = net.b2[head] + dot(z, net.w2[head])
            if best < 0 or score > top or (score == top and found[g] < best):
                best, top = found[g], score
    return best


@jit
def _choose(
    state: State, candidates: Candidates, user_id: int, user: FloatArray, available: BoolArray, draw: float
) -> int:
    learner = state.learner
    found = first_of_each(candidates.group_of, available, candidates.groups)
    zs = hidden_layers(learner, candidates, user)
    key = posterior_key(learner.key, learner.counts)
    return _best(learner, zs, found, candidates.joint, key, draw_number(draw))


@jit
def _distribution(
    state: State, candidates: Candidates, user_id: int, user: FloatArray, available: BoolArray, out: FloatArray
) -> None:
    learner = state.learner
    found = first_of_each(candidates.group_of, available, candidates.groups)
    zs = hidden_layers(learner, candidates, user)
    key = posterior_key(learner.key, learner.counts)
    for i in range(DRAWS):
        out[_best(learner, zs, found, candidates.joint, key, i)] += 1.0 / DRAWS


@jit
def _learn(state: State, candidates: Candidates, user_id: int, user: FloatArray, action: int, reward: float) -> None:
    x, head = features_of(candidates, user, action)
    heads_net.learn(state.learner, x, head, reward)


class DropoutTS(HeadsPolicy):
    """Thompson sampling by dropout masks: each decision takes one of 256 masks, which change with every reward."""

    name = "dropout-ts"
    kernel = Kernel("dropout_ts", _choose, _distribution, _learn, nothing_decided)
    learned = ("learner", "categories", "joint")
    dropout: float = parameter(0.2, low=0.01, high=0.9, help="chance that a hidden unit is left out")
    optimism: float = parameter(0.5, low=-1e6, high=1e6, help="what a category is expected to earn before it is shown")

    def _new_state(self) -> State:
        learner = self._new_learner(self.dropout)
        heads_net.network(learner).b2[:] = self.optimism
        return State(learner, new_categories(MAX_HEADS, self.spec.product_dim), np.zeros(1, np.bool_))

    def _exploiting(self) -> State:
        state: State = self.state._replace(learner=self.state.learner._replace(dropout=0.0))
        return state
