"""Neural-Linear that holds: what a network makes of a visitor, a linear bandit for each category, sums kept fresh.

A hidden layer z = ReLU(W' x + b) is trained on a memory of what was shown, with a head for each category of products
(Riquelme, Tucker & Snoek 2018). Decisions use Bayesian linear regression on z, a model a category. Whenever the network
moves, the sums of all models are computed anew from the memory, so they never speak of representations that are gone
(the published forms' fault); and the memory fades, so that uncertainty comes back in a market that moves. The width of
the confidence bound follows the noise of the rewards, which is estimated from prediction errors.

Where more categories come up than there is room for heads, one head reads z of [user, product] from then on.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np

from zoosim.core.id_table import IN_USE
from zoosim.core.jit import jit
from zoosim.core.limits import NOT_NEGATIVE
from zoosim.core.parameters import parameter
from zoosim.core.rng import normal
from zoosim.core.state import saved_length
from zoosim.core.types import BoolArray, FloatArray, IntArray, PastLog, Progress
from zoosim.linear.dense import add_matrix, copy_vector, dot, nonzeros, scale_vector
from zoosim.linear.ridge import Ridge, add_sums, clear, grown_ridge, new_ridge, observe, solve, variance
from zoosim.models import heads_net
from zoosim.policies.base import reads_blocks
from zoosim.policies.choice import DRAWS, draw_number, first_of_each, posterior_key
from zoosim.policies.kernel import Kernel, nothing_decided
from zoosim.policies.products.categories import Categories, count, new_categories
from zoosim.policies.products.category_heads import (
    MAX_HEADS,
    HeadsCandidates,
    HeadsPolicy,
    features_of,
    hidden_layers,
)

FIRST_HEADS = 8
"""Heads that there is a ridge model for at first; the room doubles as categories come up."""

NOISE_RATE = 1 / 500
"""Weight of the newest squared prediction error in the estimate of the rewards' variance."""

SCALE, VARIANCE = 0, 1


class NeuralLinearState(NamedTuple):
    """Ridge models of the heads over scaled z, the network's learner, and the categories that have heads.

    `layers` is the table of the network's hidden layer; `levels (2,)`: what z is multiplied by, and the variance of
    rewards; `joint (1,)` whether more categories came up than there are heads.
    """

    ridge: Ridge
    learner: heads_net.HeadsLearner
    layers: IntArray
    categories: Categories
    joint: BoolArray
    levels: Annotated[FloatArray, NOT_NEGATIVE]
    alpha: float
    thompson: bool

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        heads = len(self.ridge.b)
        if self.learner.memory.heads.max() >= heads:
            yield f"learner.memory.heads holds {self.learner.memory.heads.max()}, expected a head below {heads}"
        if count(self.categories) > heads:
            yield f"categories.table.counts holds {count(self.categories)} categories, expected at most {heads}"


@jit
def _embed(state: NeuralLinearState, x: FloatArray) -> FloatArray:
    """Return the scaled z `(h,)` of x `(d,)`."""
    z: FloatArray = heads_net.hidden_layer(state.learner, x).astype(np.float64)
    scale_vector(z, state.levels[SCALE])
    return z


@jit
def _estimates(
    state: NeuralLinearState, candidates: HeadsCandidates, user: FloatArray, found: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation `(G,)` of each group that has a product in `found (G,)`."""
    ridge = state.ridge
    noise = state.levels[VARIANCE]
    zs = hidden_layers(state.learner, candidates, user).astype(np.float64) * state.levels[SCALE]
    if candidates.joint:
        return _estimates_of_rows(ridge.theta[0], ridge.inverse[0], noise, zs)
    means = np.zeros(found.shape[0])
    deviations = np.zeros(found.shape[0])
    nonzero = nonzeros(zs[0])
    for head in range(found.shape[0]):
        if found[head] >= 0:
            means[head] = dot(zs[0], ridge.theta[head])
            deviations[head] = np.sqrt(noise * variance(ridge, head, zs[0], nonzero))
    return means, deviations


@jit
def _estimates_of_rows(
    theta: FloatArray, inverse: FloatArray, noise: float, zs: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation `(R,)` of each row of `zs (R, h)` by one model.

    One matrix product takes a third of the time of a `variance` for each of 500 rows (h = 128).
    """
    means = np.empty(zs.shape[0])
    deviations = np.empty(zs.shape[0])
    spread = np.zeros(zs.shape)
    add_matrix(zs, inverse, spread)
    for r in range(zs.shape[0]):
        means[r] = dot(zs[r], theta)
        deviations[r] = np.sqrt(noise * max(dot(zs[r], spread[r]), 0.0))
    return means, deviations


@jit
def _best(
    means: FloatArray,
    deviations: FloatArray,
    found: IntArray,
    alpha: float,
    thompson: bool,
    key: np.uint64,
    i: int,
) -> int:
    """Return the product with the highest bound, or the highest draw number i, never drawn below its mean."""
    best = -1
    top = -np.inf
    for g in range(found.shape[0]):
        if found[g] >= 0:
            width = max(normal(key, i, g), 0.0) if thompson else 1.0
            score = means[g] + alpha * width * deviations[g]
            # Groups are gone through by their numbers: on a tie, the lowest product wins, not the lowest group.
            if best < 0 or score > top or (score == top and found[g] < best):
                best = found[g]
                top = score
    return best


@jit
def _choose(
    state: NeuralLinearState,
    candidates: HeadsCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    draw: float,
) -> int:
    found = first_of_each(candidates.group_of, available, candidates.groups)
    means, deviations = _estimates(state, candidates, user, found)
    key = posterior_key(state.learner.key, state.learner.counts)
    return _best(means, deviations, found, state.alpha, state.thompson, key, draw_number(draw))


@jit
def _distribution(
    state: NeuralLinearState,
    candidates: HeadsCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    out: FloatArray,
) -> None:
    found = first_of_each(candidates.group_of, available, candidates.groups)
    means, deviations = _estimates(state, candidates, user, found)
    key = posterior_key(state.learner.key, state.learner.counts)
    draws = DRAWS if state.thompson else 1
    for i in range(draws):
        out[_best(means, deviations, found, state.alpha, state.thompson, key, i)] += 1.0 / draws


@jit
def _learn(
    state: NeuralLinearState,
    candidates: HeadsCandidates,
    user_id: int,
    user: FloatArray,
    action: int,
    reward: float,
) -> None:
    x, head = features_of(candidates, user, action)
    z = _embed(state, x)
    # Before the model learns from it: the error of a prediction, not of a fit.
    error = reward - dot(z, state.ridge.theta[head])
    state.levels[VARIANCE] += NOISE_RATE * (error * error - state.levels[VARIANCE])
    # By the network that predicted; if training then moves it, `_renew` makes all sums anew.
    observe(state.ridge, head, z, nonzeros(z), reward)
    slots = heads_net.learn(state.learner, state.layers, x, head, reward)
    if slots.shape[0] > 0:
        _renew(state, slots)


@jit
def _renew(state: NeuralLinearState, slots: IntArray) -> None:
    """Scale z to a mean square norm of 1 over the memory, and compute the sums of all models from it."""
    memory = state.learner.memory
    ridge = state.ridge
    levels = state.levels
    # First, so that `_embed` returns the hidden layer as it is.
    levels[SCALE] = 1.0
    zs = np.empty((slots.shape[0], ridge.b.shape[1]))
    weight = 0.0
    square = 0.0
    for n, slot in enumerate(slots):
        copy_vector(_embed(state, memory.xs[slot]), zs[n])
        weight += memory.counts[slot]
        square += memory.counts[slot] * dot(zs[n], zs[n])
    # A mean square length of 1 keeps lambda and alpha comparable, however long the network makes z.
    levels[SCALE] = np.sqrt(weight / square) if square > 0.0 else 1.0
    first, stop = (0, 1) if state.joint[0] else (1, state.categories.table.counts[IN_USE])
    for head in range(first, stop):
        clear(ridge, head)
    for n, slot in enumerate(slots):
        z = zs[n]
        scale_vector(z, levels[SCALE])
        add_sums(ridge, memory.heads[slot], z, nonzeros(z), memory.counts[slot], memory.sums[slot])
    for head in range(first, stop):
        solve(ridge, head)


class NeuralLinear(HeadsPolicy):
    """LinUCB on a trained hidden layer, a model for each category, its sums computed anew whenever the network moves.

    Score: theta_c' z + alpha s sqrt(z' A_c^-1 z), with s the standard deviation of rewards around their estimates;
    Thompson sampling multiplies the second term by max(0, N(0, 1)). With more than 63 categories one model is over the
    hidden layer of [user, product]. With `tune` "head" the network stays as `fit` left it, and rewards teach the
    regression on it alone: LinUCB on a representation that was learned from a log, whose memory fades all the same.
    """

    name = "neural-linear"
    kernel = Kernel("neural_linear", _choose, _distribution, _learn, nothing_decided)
    learned = ("ridge", "learner", "categories", "joint", "levels")
    alpha: float = parameter(2.5, low=0, high=100, help="width of the confidence bound, in standard deviations")
    thompson: bool = parameter(False, help="draw from the posterior, for which alpha 1 is wide enough")
    regularization: float = parameter(0.5, low=1e-6, high=1e6, help="lambda of the regression on the hidden layer")
    tune: str = parameter(
        "all",
        choices=("all", "head"),
        help="what rewards train: all, or the regression alone, on a network that only logs have trained",
    )

    def _new_state(self) -> NeuralLinearState:
        return NeuralLinearState(
            ridge=new_ridge(FIRST_HEADS, self.hidden, self.regularization),
            learner=self._new_learner()._replace(training_steps=self._online_steps),
            layers=heads_net.hidden_layer_table(self.spec.user_dim + self.spec.product_dim, self.hidden),
            categories=new_categories(MAX_HEADS, self.spec.product_dim),
            joint=np.zeros(1, np.bool_),
            levels=np.array([self.hidden**-0.5, 0.25]),
            alpha=self.alpha,
            thompson=self.thompson,
        )

    @reads_blocks
    def fit(self, log: PastLog, progress: Progress = lambda line: None) -> dict[str, float]:
        """Take the logged choices as decisions and rewards of its own, which train the network whatever `tune` is."""
        self._set_training_steps(self.training_steps)
        try:
            return super().fit(log, progress)
        finally:
            self._set_training_steps(self._online_steps)

    @property
    def _online_steps(self) -> int:
        """Steps that the network takes at a training by rewards of its own decisions."""
        return 0 if self.tune == "head" else self.training_steps

    def _set_training_steps(self, steps: int) -> None:
        self.state = self.state._replace(learner=self.state.learner._replace(training_steps=steps))

    def _exploiting(self) -> NeuralLinearState:
        state: NeuralLinearState = self.state._replace(alpha=0.0)
        return state

    @property
    def _heads(self) -> int:
        """Number of heads that there is a ridge model for now."""
        return len(self.state.ridge.b)

    def _make_heads(self, heads: int) -> None:
        if heads > self._heads:
            room = min(max(heads, 2 * self._heads), MAX_HEADS)
            self.state = self.state._replace(ridge=grown_ridge(self.state.ridge, room))

    def _forget(self) -> None:
        super()._forget()
        for head in range(self._heads):
            clear(self.state.ridge, head)

    def _shaped_as(self, saved: Mapping[str, Any]) -> NeuralLinearState:
        state: NeuralLinearState = self.state
        heads = saved_length(saved, "ridge.b")
        if FIRST_HEADS <= heads <= MAX_HEADS:
            state = state._replace(ridge=new_ridge(heads, self.hidden, self.regularization))
        return state
