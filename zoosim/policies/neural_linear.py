"""Neural-Linear that holds: what a network makes of a visitor, a linear bandit for each category, sums kept fresh.

A hidden layer z = ReLU(W' x + b) is trained on a memory of what was shown, with a head for each category of products
(Riquelme, Tucker & Snoek 2018). Decisions use Bayesian linear regression on z, a model a category. Whenever the network
moves, the sums of all models are computed anew from the memory, so they never speak of representations that are gone
(the published forms' fault); and the memory fades, so that uncertainty comes back in a market that moves. The width of
the confidence bound follows the noise of the rewards, which is estimated from prediction errors.

Where more categories come up than there is room for heads, one head reads z of [user, product] from then on.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.errors import ConfigError
from zoosim.core.jit import jit
from zoosim.core.parameters import parameter
from zoosim.core.rng import draw_key, normal
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.dense import dot, nonzeros
from zoosim.linear.ridge import Ridge, add_sums, clear, new_ridge, observe, solve, variance
from zoosim.models import heads_net
from zoosim.models.row_memory import new_row_memory
from zoosim.policies.base import policy_name
from zoosim.policies.categories import Categories, new_categories, number
from zoosim.policies.kernel import DRAWS, Kernel, KernelPolicy, asked_key, distinct_rows, first_of_each

MAX_HEADS = 64

LEAST_KEPT = 0.01
"""The least weight that observations may keep from one training to the next."""

NOISE_RATE = 1 / 500
"""Weight of the newest squared prediction error in the estimate of the rewards' variance."""

SCALE, VARIANCE = 0, 1


class Arms(NamedTuple):
    """What there is to choose from: G groups of products, each product `k` in group `group_of[k]`, `group_of (K,)`.

    A group is a category with a head of its own, or, when they are `joint`, a distinct product. `rows (R, d_p)` are
    what the network reads of them: the distinct products when joint, else one row of 0.
    """

    rows: FloatArray
    group_of: IntArray
    groups: int
    joint: bool


class State(NamedTuple):
    """Ridge models of the heads over scaled z, the network's learner, and what there is to choose from.

    `levels (2,)`: what z is multiplied by, and the variance of rewards; `draws (1,)` how many were made; `joint (1,)`
    whether more categories came up than there are heads.
    """

    ridge: Ridge
    learner: heads_net.Learner
    categories: Categories
    joint: BoolArray
    levels: FloatArray
    draws: IntArray
    arms: Arms
    alpha: float
    thompson: bool


@jit
def features_of(arms: Arms, user: FloatArray, group: int) -> tuple[FloatArray, int]:
    """Return x `(d,)` that the network reads for a user and a group, and the group's head."""
    if arms.joint:
        return np.concatenate((user, arms.rows[group])), 0
    return np.concatenate((user, arms.rows[0])), group


@jit
def _embed(state: State, x: FloatArray) -> FloatArray:
    """Return the scaled z `(h,)` of x `(d,)`."""
    z: FloatArray = heads_net.hidden_layer(heads_net.network(state.learner), x).astype(np.float64)
    z *= state.levels[SCALE]
    return z


@jit
def _estimates(state: State, user: FloatArray, found: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation `(G,)` of each group that has a product in `found (G,)`."""
    means, deviations = np.zeros(found.shape[0]), np.zeros(found.shape[0])
    z = _embed(state, features_of(state.arms, user, 0)[0])
    nonzero = nonzeros(z)
    for g in range(found.shape[0]):
        if found[g] >= 0:
            x, head = features_of(state.arms, user, g)
            if state.arms.joint:
                z = _embed(state, x)
                nonzero = nonzeros(z)
            means[g] = dot(z, state.ridge.theta[head])
            deviations[g] = np.sqrt(state.levels[VARIANCE] * variance(state.ridge, head, z, nonzero))
    return means, deviations


@jit
def _best(state: State, means: FloatArray, deviations: FloatArray, found: IntArray, key: np.uint64, i: int) -> int:
    """Return the product with the highest bound, or the highest draw number i, never drawn below its mean."""
    best, top = -1, -np.inf
    for g in range(found.shape[0]):
        if found[g] >= 0:
            width = max(normal(key, i, g), 0.0) if state.thompson else 1.0
            score = means[g] + state.alpha * width * deviations[g]
            if best < 0 or score > top or (score == top and found[g] < best):
                best, top = found[g], score
    return best


@jit
def _choose(state: State, user_id: int, user: FloatArray, available: BoolArray) -> int:
    found = first_of_each(state.arms.group_of, available, state.arms.groups)
    means, deviations = _estimates(state, user, found)
    state.draws[0] += 1
    return _best(state, means, deviations, found, state.learner.key[0], state.draws[0])


@jit
def _probability(state: State, user_id: int, user: FloatArray, available: BoolArray, action: int) -> float:
    found = first_of_each(state.arms.group_of, available, state.arms.groups)
    means, deviations = _estimates(state, user, found)
    key = asked_key(state.learner.key, state.draws)
    if not state.thompson:
        return 1.0 if _best(state, means, deviations, found, key, 0) == action else 0.0
    if found[state.arms.group_of[action]] != action:
        return 0.0
    hits = 1.0 / np.sum(found >= 0)
    for i in range(DRAWS):
        hits += _best(state, means, deviations, found, key, i) == action
    chance: float = hits / (DRAWS + 1)
    return chance


@jit
def _learn(state: State, user_id: int, user: FloatArray, action: int, reward: float) -> None:
    x, head = features_of(state.arms, user, state.arms.group_of[action])
    z = _embed(state, x)
    error = reward - dot(z, state.ridge.theta[head])
    state.levels[VARIANCE] += NOISE_RATE * (error * error - state.levels[VARIANCE])
    observe(state.ridge, head, z, nonzeros(z), reward)
    slots = heads_net.learn(state.learner, x, head, reward)
    if slots.shape[0] > 0:
        _renew(state, slots)


@jit
def _renew(state: State, slots: IntArray) -> None:
    """Scale z to a mean square norm of 1 over the memory, and compute the sums of all models from it."""
    memory, ridge, levels = state.learner.memory, state.ridge, state.levels
    levels[SCALE] = 1.0
    zs, weight, square = np.empty((slots.shape[0], ridge.b.shape[1])), 0.0, 0.0
    for n, slot in enumerate(slots):
        zs[n] = _embed(state, memory.xs[slot])
        weight += memory.counts[slot]
        square += memory.counts[slot] * dot(zs[n], zs[n])
    levels[SCALE] = np.sqrt(weight / square) if square > 0.0 else 1.0
    heads = 1 if state.arms.joint else state.arms.groups
    for head in range(heads):
        clear(ridge, head)
    for n, slot in enumerate(slots):
        z = levels[SCALE] * zs[n]
        add_sums(ridge, memory.heads[slot], z, nonzeros(z), memory.counts[slot], memory.sums[slot])
    for head in range(heads):
        solve(ridge, head)


class HeadsPolicy(KernelPolicy):
    """What policies on a `heads_net` have in common."""

    hidden: int = parameter(128, low=1, high=1024, help="units of the hidden layer")
    horizon: float = parameter(8000.0, low=10, high=1e12, help="visits after which an observation weighs 1/e")
    learning_rate: float = parameter(0.005, low=0, high=10, help="step size of the network's training")
    memory: int = parameter(4096, low=8, high=10_000_000, help="distinct pairs of visitor and category remembered")
    batch_size: int = parameter(64, low=1, high=100_000, help="pairs in a training step")
    train_every: int = parameter(50, low=1, high=1_000_000, help="visits between trainings")
    training_steps: int = parameter(8, low=1, high=1000, help="steps of a training")

    def _new_learner(self, dropout: float) -> heads_net.Learner:
        dim, keep = self.spec.user_dim + self.spec.product_dim, (1 - 1 / self.horizon) ** self.train_every
        if keep < LEAST_KEPT:
            label, most = policy_name(type(self)), int(np.log(LEAST_KEPT) / np.log1p(-1 / self.horizon))
            raise ConfigError(
                f"{label}.train_every: got {self.train_every:,}, expected at most {most:,} with a horizon of "
                f"{self.horizon:g}: all would be forgotten between two trainings"
            )
        params = heads_net.new_params(dim, self.hidden, self._heads(), rng=self.rng)
        return heads_net.Learner(
            trained=np.stack([params, np.zeros_like(params), np.zeros_like(params)]),
            counts=np.zeros(2, np.int64),
            memory=new_row_memory(self.memory, dim),
            key=np.array([draw_key(self.rng)]),
            hidden=self.hidden,
            dropout=dropout,
            rate=self.learning_rate,
            batch_size=self.batch_size,
            train_every=self.train_every,
            training_steps=self.training_steps,
            keep=keep,
        )

    def _heads(self) -> int:
        return min(self.spec.n_products, MAX_HEADS)

    def _no_arms(self) -> Arms:
        return Arms(np.zeros((1, self.spec.product_dim)), np.zeros(self.spec.n_products, np.int64), 1, False)

    def _with_products(self, products: FloatArray) -> Any:
        state, rows = self.state, np.zeros((1, products.shape[1]))
        if not state.joint[0]:
            group_of, anew = number(state.categories, products)
            state.joint[0] = group_of.min() < 0
            if anew or state.joint[0]:
                self._forget()
        if state.joint[0]:
            rows, group_of = distinct_rows(products)
        groups = len(rows) if state.joint[0] else int(state.categories.found[0])
        return state._replace(arms=Arms(rows, group_of, groups, bool(state.joint[0])))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over saved arrays; refuses a state of another shape and then changes nothing.

        The products met before are forgotten: they must not be numbered among the categories that come with the state.
        """
        products, self._products = self._products, None
        try:
            super().load_state_dict(state)
        except ConfigError:
            self._products = products
            raise

    def _forget(self) -> None:
        """Forget what was learned of heads that mean something else from now on."""
        memory = self.state.learner.memory
        for array in (memory.counts, memory.sums, memory.seen):
            array[:] = 0


class NeuralLinear(HeadsPolicy):
    """LinUCB on a trained hidden layer, a model for each category, its sums computed anew whenever the network moves.

    Score: theta_c' z + alpha s sqrt(z' A_c^-1 z), with s the standard deviation of rewards around their estimates;
    Thompson sampling multiplies the second term by max(0, N(0, 1)), its propensities come from 255 draws.
    """

    name = "neural-linear"
    kernel = Kernel("neural_linear", _choose, _learn, _probability)
    learned = ("ridge", "learner", "categories", "joint", "levels", "draws")
    alpha: float = parameter(2.5, low=0, high=100, help="width of the confidence bound, in standard deviations")
    thompson: bool = parameter(False, help="draw from the posterior, for which alpha 1 is wide enough")
    regularization: float = parameter(0.5, low=1e-6, high=1e6, help="lambda of the regression on the hidden layer")

    def _new_state(self) -> State:
        return State(
            ridge=new_ridge(self._heads(), self.hidden, self.regularization),
            learner=self._new_learner(dropout=0.0),
            categories=new_categories(self._heads(), self.spec.product_dim),
            joint=np.zeros(1, np.bool_),
            levels=np.array([self.hidden**-0.5, 0.25]),
            draws=np.zeros(1, np.int64),
            arms=self._no_arms(),
            alpha=self.alpha,
            thompson=self.thompson,
        )

    def _forget(self) -> None:
        super()._forget()
        for head in range(self._heads()):
            clear(self.state.ridge, head)
            solve(self.state.ridge, head)
