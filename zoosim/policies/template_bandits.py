"""Bandits over templates: a ridge model of the reward for each, on what the shop knows of the visit.

Rewards of a search shop are EUR, mostly 0 and sometimes 100, so how wide to explore is told in standard deviations of
the reward around its estimate, which is estimated along the way. LinUCB: Li, Chu, Langford & Schapire (2010); linear
Thompson sampling: Agrawal & Goyal (2013). A discount below 1 follows a market that moves (D-LinUCB, Russac, Vernade &
Cappe 2019).
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.parameters import parameter
from zoosim.core.rng import draw_key, normal
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray
from zoosim.linear.dense import dot, nonzeros
from zoosim.linear.ridge import Ridge, fade, new_ridge, observe, variance
from zoosim.policies.kernel import DRAWS, Kernel, KernelPolicy, asked_key, with_one

CONTEXTS = ("simple", "rich", "rich-oracle")

NOISE_RATE = 1 / 2_000
"""Weight of the newest squared prediction error in the estimate of the rewards' variance, after the first ones."""


LEAST = 1e-12
"""The variance that rewards have at least."""


class State(NamedTuple):
    """A ridge model a template over [1, features].

    `moments (2,)`: the variance of rewards around their estimates, and how many made it; `key (1,)` and `draws (1,)`
    number the random draws.
    """

    ridge: Ridge
    moments: FloatArray
    key: np.ndarray
    draws: IntArray
    alpha: float
    sampling: bool


@jit
def _scores(state: State, user: FloatArray, available: BoolArray, key: np.uint64, i: int) -> FloatArray:
    """Return each template's bound or draw number i, -inf where it cannot be chosen."""
    x = with_one(user)
    nonzero, scores = nonzeros(x), np.full(available.shape[0], -np.inf)
    for k in range(available.shape[0]):
        if available[k]:
            scores[k] = dot(x, state.ridge.theta[k])
            if state.alpha > 0.0:
                deviation = np.sqrt(state.moments[0] * variance(state.ridge, k, x, nonzero))
                scores[k] += state.alpha * deviation * (normal(key, i, k) if state.sampling else 1.0)
    return scores


@jit
def _choose(state: State, user_id: int, user: FloatArray, available: BoolArray) -> int:
    state.draws[0] += state.sampling
    return int(np.argmax(_scores(state, user, available, state.key[0], state.draws[0])))


@jit
def _probability(state: State, user_id: int, user: FloatArray, available: BoolArray, action: int) -> float:
    key = asked_key(state.key, state.draws)
    if not (state.sampling and state.alpha > 0.0):
        return 1.0 if np.argmax(_scores(state, user, available, key, 0)) == action else 0.0
    if not available[action]:
        return 0.0
    hits = 1.0 / np.sum(available)
    for i in range(DRAWS):
        hits += np.argmax(_scores(state, user, available, key, i)) == action
    chance: float = hits / (DRAWS + 1)
    return chance


@jit
def _learn(state: State, user_id: int, user: FloatArray, action: int, reward: float) -> None:
    x, moments = with_one(user), state.moments
    error = reward - dot(x, state.ridge.theta[action])
    moments[1] += 1.0
    moments[0] += max(NOISE_RATE, 1.0 / moments[1]) * (error * error - moments[0])
    moments[0] = max(moments[0], LEAST)  # as long as all rewards were 0, what was tried least comes next
    if state.ridge.discount < 1.0:
        fade(state.ridge, 0, action, state.ridge.b.shape[0], int(moments[1]))
    observe(state.ridge, action, x, nonzeros(x), reward)


class TemplateBandit(KernelPolicy):
    """What the three have in common: all but how they explore."""

    kernel = Kernel("template_bandit", _choose, _learn, _probability)
    learned = ("ridge", "moments", "key", "draws")
    chooses = ("templates",)
    sampling: ClassVar[bool] = False
    context: str = parameter("rich", choices=CONTEXTS, help="what it sees of a search visit; rich-oracle for studies")
    regularization: float = parameter(1.0, low=1e-6, high=1e6, help="lambda of the ridge regression")
    discount: float = parameter(1.0, low=0.9, high=1, help="weight that an observation keeps, a visit")
    alpha: float

    def _new_state(self) -> State:
        return State(
            ridge=new_ridge(self.spec.n_products, self.spec.user_dim + 1, self.regularization, self.discount),
            moments=np.array([1.0, 0.0]),
            key=np.array([draw_key(self.rng)]),
            draws=np.zeros(1, np.int64),
            alpha=self.alpha,
            sampling=self.sampling,
        )

    def recommend(self, context: Context) -> int:
        """Return the template with the highest estimate, without exploring; moves no state."""
        self.attach(context.products)
        return int(self.kernel.choose(self.state._replace(alpha=0.0, sampling=False), *self._arguments(context)))

    def _signature(self) -> str:
        return f"{super()._signature()}, context {self.context}, alpha {self.alpha:g}, discount {self.discount:.10g}"

    def _sound(self, saved: Mapping[str, Any]) -> bool:
        return super()._sound(saved) and bool((np.asarray(saved["moments"]) >= 0.0).all())

    def _with_products(self, products: FloatArray) -> Any:
        return self.state


class TemplateGreedy(TemplateBandit):
    """Choose the template with the highest estimate; explores by nothing but its own errors."""

    name = "template-greedy"
    alpha: float = 0.0


class TemplateLinUCB(TemplateBandit):
    """Choose the template with the highest upper confidence bound."""

    name = "template-linucb"
    alpha: float = parameter(3.0, low=0, high=100, help="width of the bound, in standard deviations")


class TemplateTS(TemplateBandit):
    """Choose the template with the highest draw from its posterior; propensities come from 255 draws."""

    name = "template-ts"
    sampling = True
    alpha: float = parameter(1.0, low=0, high=100, help="width of the draws, in standard deviations")
