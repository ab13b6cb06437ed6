"""Dropout as Thompson sampling: each decision asks another random part of the network.

Dropout at prediction stands for draws from a posterior over the weights (Gal & Ghahramani 2016); the bandit that shows
what is best by one draw is Riquelme, Tucker & Snoek 2018. How far the draws spread follows from the network and the
chance that a unit is left out, not from how much was observed: it settles where that of a posterior shrinks, and a
category that was never shown looks no less sure than one that is well known. That is a fault of the published form,
kept here to be compared with. Unlike there, the memory fades, as that of `neural-linear`; a `horizon` of 1e12 keeps all
that there is room for.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.parameters import parameter
from zoosim.core.types import BoolArray, Float32Array, FloatArray, IntArray
from zoosim.linear.dense import dot
from zoosim.models import heads_net
from zoosim.policies.choice import DRAWS, draw_number, first_of_each, posterior_key
from zoosim.policies.kernel import Kernel, nothing_decided
from zoosim.policies.products.categories import Categories, new_categories
from zoosim.policies.products.category_heads import (
    MAX_HEADS,
    HeadsCandidates,
    HeadsPolicy,
    features_of,
    hidden_layers,
)


class DropoutState(NamedTuple):
    """The network's learner, the table of its hidden layer, and the categories that have heads.

    `joint (1,)` tells whether more categories came up than there are heads.
    """

    learner: heads_net.HeadsLearner
    layers: IntArray
    categories: Categories
    joint: BoolArray


@jit
def _best(
    learner: heads_net.HeadsLearner, zs: Float32Array, found: IntArray, joint: bool, key: np.uint64, i: int
) -> int:
    """Return the product with the highest estimate under mask number i, one mask for every row of `zs (R, h)`."""
    weights, biases = heads_net.heads(learner)
    mask = np.empty(zs.shape[1], np.float32)
    heads_net.draw_mask(learner.dropout, key, i, 0, mask)
    z = zs[0] * mask
    best = -1
    top = -np.inf
    for g in range(found.shape[0]):
        if found[g] >= 0:
            head = g
            if joint:
                head = 0
                z = zs[g] * mask
            score = biases[head] + dot(z, weights[head])
            # Groups are gone through by their numbers: on a tie, the lowest product wins, not the lowest group.
            if best < 0 or score > top or (score == top and found[g] < best):
                best = found[g]
                top = score
    return best


@jit
def _choose(
    state: DropoutState, candidates: HeadsCandidates, user_id: int, user: FloatArray, available: BoolArray, draw: float
) -> int:
    learner = state.learner
    found = first_of_each(candidates.group_of, available, candidates.groups)
    zs = hidden_layers(learner, candidates, user)
    key = posterior_key(learner.key, learner.counts)
    return _best(learner, zs, found, candidates.joint, key, draw_number(draw))


@jit
def _distribution(
    state: DropoutState,
    candidates: HeadsCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    out: FloatArray,
) -> None:
    learner = state.learner
    found = first_of_each(candidates.group_of, available, candidates.groups)
    zs = hidden_layers(learner, candidates, user)
    key = posterior_key(learner.key, learner.counts)
    for i in range(DRAWS):
        out[_best(learner, zs, found, candidates.joint, key, i)] += 1.0 / DRAWS


@jit
def _learn(
    state: DropoutState, candidates: HeadsCandidates, user_id: int, user: FloatArray, action: int, reward: float
) -> None:
    x, head = features_of(candidates, user, action)
    heads_net.learn(state.learner, state.layers, x, head, reward)


class DropoutTS(HeadsPolicy):
    """Thompson sampling by dropout: a decision takes one of 256 masks over the units, which change with every reward.

    Score: w_c' (m z) + b_c, the mask m drawn once for all categories: each unit 0 with probability `dropout`, else
    1 / (1 - dropout).
    """

    name = "dropout-ts"
    baseline_only = True
    kernel = Kernel("dropout_ts", _choose, _distribution, _learn, nothing_decided)
    learned = ("learner", "categories", "joint")
    dropout: float = parameter(0.2, low=0.01, high=0.9, help="chance that a unit of the hidden layer is left out")
    optimism: float = parameter(0.5, low=-1e6, high=1e6, help="what a category is expected to earn before it is shown")

    def _new_state(self) -> DropoutState:
        learner = self._new_learner(self.dropout)
        biases = heads_net.heads(learner)[1]
        biases[:] = self.optimism
        return DropoutState(
            learner=learner,
            layers=heads_net.hidden_layer_table(self.spec.user_dim + self.spec.product_dim, self.hidden),
            categories=new_categories(MAX_HEADS, self.spec.product_dim),
            joint=np.zeros(1, np.bool_),
        )

    def _exploiting(self) -> DropoutState:
        state: DropoutState = self.state._replace(learner=self.state.learner._replace(dropout=0.0))
        return state
