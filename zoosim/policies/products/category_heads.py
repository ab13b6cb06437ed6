"""Policies on a network with a head for each category of products: what Neural-Linear and dropout sampling share.

A hidden layer z = ReLU(W' x + b) is trained on a memory of what was shown that fades, with a head for each category.
Where more categories come up than there is room for heads, one head reads z of [user, product] from then on.
"""

import copy
from typing import NamedTuple

import numpy as np

from zoosim.core.claims import claim
from zoosim.core.errors import ConfigError
from zoosim.core.jit import jit
from zoosim.core.parameters import parameter
from zoosim.core.rng import draw_key
from zoosim.core.types import Context, Float32Array, FloatArray, IntArray
from zoosim.linear.dense import add_matrix, add_product, joined
from zoosim.models import heads_net
from zoosim.models.row_memory import new_row_memory
from zoosim.nets.network import with_moments
from zoosim.policies.base import policy_name
from zoosim.policies.choice import distinct_rows
from zoosim.policies.kernel import DrawingPolicy, KernelPolicy
from zoosim.policies.products.categories import all_numbered, count, number
from zoosim.policies.requests import checked_candidates

MAX_HEADS = 64
"""Heads of the network: number 0 serves all products when there are more than 63 categories, which have the others."""

LEAST_KEPT = 0.01
"""The least weight that observations may keep from one training to the next."""


class HeadsCandidates(NamedTuple):
    """Candidates in G groups of products, each product `k` in group `group_of[k]`, `group_of (K,)`.

    A group is a category with a head of its own, or, when they are `joint`, a distinct product. `rows (R, d_p)` are
    what the network reads of them: the distinct products when joint, else one row of 0. `lower (R, h)` is what they add
    to the hidden layer, by the network as it was after so many training `steps (1,)`.
    """

    rows: FloatArray
    group_of: IntArray
    groups: int
    joint: bool
    lower: Float32Array
    steps: IntArray


@jit
def features_of(candidates: HeadsCandidates, user: FloatArray, action: int) -> tuple[FloatArray, int]:
    """Return x `(d,)` that the network reads for a user and a product, and the product's head."""
    group = candidates.group_of[action]
    if candidates.joint:
        return joined(user, candidates.rows[group]), 0
    return joined(user, candidates.rows[0]), group


@jit
def hidden_layers(learner: heads_net.HeadsLearner, candidates: HeadsCandidates, user: FloatArray) -> Float32Array:
    """Return z `(R, h)` of a user with each row of the candidates."""
    weights, bias = heads_net.first_layer(learner)
    lower = candidates.lower
    if candidates.steps[0] != learner.counts[heads_net.STEPS]:
        lower[:] = 0.0
        add_matrix(candidates.rows.astype(np.float32), weights[user.shape[0] :], lower)
        candidates.steps[0] = learner.counts[heads_net.STEPS]
    upper = bias.copy()
    zs = np.empty_like(lower)
    add_product(user.astype(np.float32), weights[: user.shape[0]], upper)
    for r in range(zs.shape[0]):
        for j in range(zs.shape[1]):
            zs[r, j] = max(upper[j] + lower[r, j], np.float32(0.0))
    return zs


class HeadsPolicy(KernelPolicy):
    """Base of policies whose `state` has a `learner` of heads, their `categories`, and whether one is `joint`."""

    hidden: int = parameter(128, low=1, high=1024, help="units of the hidden layer")
    horizon: float = parameter(8000.0, low=10, high=1e12, help="visits after which an observation weighs 1/e")
    learning_rate: float = parameter(0.005, low=0, high=10, help="step size of the network's training")
    memory: int = parameter(4096, low=8, high=10_000_000, help="distinct pairs of visitor and category remembered")
    batch_size: int = parameter(64, low=1, high=100_000, help="pairs in a training step")
    train_every: int = parameter(50, low=1, high=1_000_000, help="visits between trainings")
    training_steps: int = parameter(8, low=1, high=1000, help="steps of a training")

    def _new_learner(self, dropout: float = 0.0) -> heads_net.HeadsLearner:
        """Return a network that has seen nothing, and leaves out units with a chance of `dropout` as it trains."""
        dim = self.spec.user_dim + self.spec.product_dim
        keep = (1 - 1 / self.horizon) ** self.train_every
        if keep < LEAST_KEPT:
            label = policy_name(type(self))
            most = int(np.log(LEAST_KEPT) / np.log1p(-1 / self.horizon))
            raise ConfigError(
                f"{label}.train_every: got {self.train_every:,}, expected at most {most:,} with a horizon of "
                f"{self.horizon:g}: all would be forgotten between two trainings"
            )
        claim((dim + MAX_HEADS) * self.hidden)
        params = heads_net.new_params(dim, self.hidden, MAX_HEADS, rng=self.rng)
        return heads_net.HeadsLearner(
            trained=with_moments(params),
            counts=np.zeros(2, np.int64),
            memory=new_row_memory(self.memory, dim),
            key=np.array([draw_key(self.rng)]),
            hidden=self.hidden,
            rate=self.learning_rate,
            batch_size=self.batch_size,
            train_every=self.train_every,
            training_steps=self.training_steps,
            keep=keep,
            dropout=dropout,
        )

    def _candidates(self, ids: IntArray, products: FloatArray) -> HeadsCandidates:
        if not self.state.joint[0]:
            group_of = self._number(products)
        if self.state.joint[0]:  # as it may have become just now
            rows, group_of = distinct_rows(products)
            groups = len(rows)
        else:
            rows = np.zeros((1, products.shape[1]))
            groups = count(self.state.categories)
        lower = np.zeros((len(rows), self.hidden), np.float32)
        return HeadsCandidates(rows, group_of, groups, bool(self.state.joint[0]), lower, np.full(1, -1))

    def _number(self, products: FloatArray) -> IntArray:
        """Return the category `(K,)` of each product; with more of them than heads, one head decides from now on."""
        state = self.state
        before = count(state.categories)
        categories, group_of, new, anew = number(state.categories, products, MAX_HEADS)
        self.state = state._replace(categories=categories)
        heads_needed = (1 if anew else before) + len(new)
        state.joint[0] = heads_needed > MAX_HEADS or not group_of.all()
        if anew or state.joint[0]:
            self._forget()
            self._forget_candidates()
        self._make_heads(count(categories))
        return group_of

    def _make_heads(self, heads: int) -> None:
        """Make room for what is kept of so many heads beside the network."""

    def _forget(self) -> None:
        """Forget what was learned of heads that mean something else from now on."""
        memory = self.state.learner.memory
        for array in (memory.counts, memory.sums, memory.seen):
            array[:] = 0

    def _reader(self, context: Context) -> DrawingPolicy:
        # Categories that are new get heads, until one head serves all.
        if self.state.joint[0] or self._is_attached(context):
            return self
        _, products = checked_candidates(context, self.spec)
        return self if all_numbered(self.state.categories, products) else copy.deepcopy(self)
