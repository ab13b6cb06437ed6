"""Bandits over templates: a ridge model of the reward for each, on what the shop knows of the visit.

Rewards of a search shop are EUR, mostly 0 and sometimes 100, so how wide to explore is told in standard deviations of
the reward around its estimate, which is estimated along the way. LinUCB: Li, Chu, Langford & Schapire (2010); linear
Thompson sampling: Agrawal & Goyal (2013). A discount below 1 follows a market that moves (D-LinUCB, Russac, Vernade &
Cappe 2019).
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from zoosim.core.arrays import resized
from zoosim.core.id_table import IN_USE, VERSION, IdTable, capacity_for, claim_slot, find_slots, grown, new_id_table
from zoosim.core.jit import inlined, jit
from zoosim.core.limits import MOST, NOT_NEGATIVE
from zoosim.core.parameters import parameter
from zoosim.core.rng import draw_key, normal
from zoosim.core.search_names import LIBRARY_NAMES, MOST_TEMPLATES, SHOP
from zoosim.core.state import saved_length
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.dense import dot, nonzeros
from zoosim.linear.ridge import Ridge, clear, fade_by_turns, grown_ridge, new_ridge, observe, period_of, variance
from zoosim.policies.choice import DRAWS, draw_number, posterior_key, with_one
from zoosim.policies.kernel import Kernel, KernelPolicy
from zoosim.policies.open_decisions import hash_decision
from zoosim.policies.products.late_widths import (
    LateWidths,
    count_decision_in_group,
    grown_widths,
    new_late_widths,
    settle_in_group,
    widths_of,
)

CONTEXTS = ("simple", "rich", "rich-oracle")

NOISE_RATE = 1 / 2_000
"""Weight of the newest squared prediction error in the estimate of the rewards' variance, after the first ones."""


LEAST = 1e-12
"""The variance that rewards have at least."""


FIRST_SLOTS = 16
MOST_SLOTS = 1 + MOST_TEMPLATES
"""Slots at first and at most, with that of unknown templates; beyond, the template unused for longest is dropped."""


class TemplateState(NamedTuple):
    """A ridge model a template over [1, features], by the slots of `templates`; the first has seen nothing.

    `turns (slots,)` when each fades; `moments (2,)`: the variance of rewards around their estimates, and how many made
    it; `key (1,)` of the posterior draws; `updates (1,)`, rewards learned.
    """

    ridge: Ridge
    templates: IdTable
    turns: IntArray
    widths: LateWidths
    moments: Annotated[FloatArray, NOT_NEGATIVE]
    key: np.ndarray
    updates: IntArray
    alpha: float
    sampling: bool

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        if self.turns.max() >= period_of(self.ridge):
            yield f"turns holds {self.turns.max()}, expected a turn below {period_of(self.ridge)}"
        if self.moments[1] > MOST:
            yield f"moments holds {self.moments[1]:g} rewards, expected at most {MOST:,}"


class TemplateCandidates(NamedTuple):
    """The `ids (K,)` of templates, and the model `slots (K,)` of each, read at the `version (1,)` of their table."""

    ids: IntArray
    slots: IntArray
    version: IntArray


@jit
def _read_slots(templates: IdTable, candidates: TemplateCandidates) -> None:
    if candidates.version[0] != templates.counts[VERSION]:
        find_slots(templates, candidates.ids, candidates.slots)
        candidates.version[0] = templates.counts[VERSION]


@jit
def _means(ridge: Ridge, slots: IntArray, x: FloatArray, available: BoolArray) -> FloatArray:
    """Return each template's estimate, -inf where it cannot be chosen."""
    means = np.full(available.shape[0], -np.inf)
    for k in range(available.shape[0]):
        if available[k]:
            means[k] = dot(x, ridge.theta[slots[k]])
    return means


@jit
def _deviations(
    widths: Ridge, slots: IntArray, x: FloatArray, available: BoolArray, variance_of_rewards: float
) -> FloatArray:
    """Return the standard deviation of each template's estimate, 0 where it cannot be chosen."""
    nonzero = nonzeros(x)
    deviations = np.zeros(available.shape[0])
    for k in range(available.shape[0]):
        if available[k]:
            deviations[k] = np.sqrt(variance_of_rewards * variance(widths, slots[k], x, nonzero))
    return deviations


@jit
def _best_drawn(means: FloatArray, deviations: FloatArray, alpha: float, key: np.uint64, i: int) -> int:
    """Return the template with the highest draw number i."""
    scores = means.copy()
    for k in range(scores.shape[0]):
        if deviations[k] > 0.0:
            scores[k] += alpha * deviations[k] * normal(key, i, k)
    return int(np.argmax(scores))


@inlined
def _estimates(
    state: TemplateState, candidates: TemplateCandidates, user: FloatArray, available: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return each template's estimate and the standard deviation of it."""
    _read_slots(state.templates, candidates)
    x = with_one(user)
    widths = widths_of(state.widths, state.ridge)
    means = _means(state.ridge, candidates.slots, x, available)
    if state.alpha > 0.0:
        return means, _deviations(widths, candidates.slots, x, available, state.moments[0])
    return means, np.zeros(means.shape[0])


@inlined
def _choose(
    state: TemplateState,
    candidates: TemplateCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    draw: float,
) -> int:
    means, deviations = _estimates(state, candidates, user, available)
    if state.sampling:
        return _best_drawn(means, deviations, state.alpha, posterior_key(state.key, state.updates), draw_number(draw))
    return int(np.argmax(means + state.alpha * deviations))


@jit
def _distribution(
    state: TemplateState,
    candidates: TemplateCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    out: FloatArray,
) -> None:
    means, deviations = _estimates(state, candidates, user, available)
    if state.sampling:
        key = posterior_key(state.key, state.updates)
        for i in range(DRAWS):
            # Counted, since the chance that one of several normal draws is the largest has no closed form.
            out[_best_drawn(means, deviations, state.alpha, key, i)] += 1.0 / DRAWS
    else:
        out[np.argmax(means + state.alpha * deviations)] = 1.0


@jit
def _model_of(state: TemplateState, template: int) -> int:
    """Return the model of a template, cleared if it is new."""
    slot, is_new = claim_slot(state.templates, template)
    if is_new:
        clear(state.ridge, slot)
        clear(state.widths.ahead, slot)
        # Spread over the period, so that models do not all fade, which costs a rebuild, at one visit.
        state.turns[slot] = template % period_of(state.ridge)
    return slot


@inlined
def _decided(
    state: TemplateState,
    candidates: TemplateCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    action: int,
) -> None:
    if state.alpha > 0.0 and not state.sampling:
        x = with_one(user)
        template = candidates.ids[action]
        ridge = state.ridge
        model = _model_of(state, template)
        used = state.templates.counts[IN_USE]
        key = hash_decision(template, user)
        # All templates are one group; its clock, the number of rewards, is the second of the moments.
        count_decision_in_group(state.widths, ridge, used, state.moments[1:], state.turns, model, x, key)


@inlined
def _learn(
    state: TemplateState, candidates: TemplateCandidates, user_id: int, user: FloatArray, action: int, reward: float
) -> None:
    x = with_one(user)
    moments = state.moments
    template = candidates.ids[action]
    model = _model_of(state, template)
    # Before the model learns from it: the error of a prediction, not of a fit.
    error = reward - dot(x, state.ridge.theta[model])
    moments[1] += 1.0
    # The plain mean of the first squares, and an exponential one from 1 / NOISE_RATE rewards on.
    moments[0] += max(NOISE_RATE, 1.0 / moments[1]) * (error * error - moments[0])
    moments[0] = max(moments[0], LEAST)  # as long as all rewards were 0, what was tried least comes next
    if state.ridge.discount < 1.0:
        fade_by_turns(state.ridge, 0, model, state.turns, int(moments[1]))
    observe(state.ridge, model, x, nonzeros(x), reward)
    state.updates[0] += 1
    if state.alpha > 0.0 and not state.sampling:
        settle_in_group(state.widths, state.turns, model, x, hash_decision(template, user))


class TemplateBandit(KernelPolicy):
    """The common part of the three bandits: all but how they explore."""

    kernel = Kernel("template_bandit", _choose, _distribution, _learn, _decided)
    learned = ("ridge", "templates", "turns", "widths", "moments", "key", "updates")
    chooses = ("templates",)
    sampling: ClassVar[bool] = False
    context: str = parameter("rich", choices=CONTEXTS, help="what it sees of a search visit; rich-oracle for studies")
    library: str = parameter(SHOP, choices=(SHOP, *LIBRARY_NAMES), help="whose templates; in simulated shops")
    regularization: float = parameter(1.0, low=1e-6, high=1e6, help="lambda of the ridge regression")
    discount: float = parameter(1.0, low=0.9, high=1, help="weight that an observation keeps, a visit")
    alpha: float

    def _new_state(self) -> TemplateState:
        return self._state_of(FIRST_SLOTS, draw_key(self.rng))

    def _state_of(self, capacity: int, key: np.uint64) -> TemplateState:
        learning = self.spec.user_dim + 1, self.regularization, self.discount
        return TemplateState(
            ridge=new_ridge(capacity, *learning),
            templates=new_id_table(capacity),
            turns=np.zeros(capacity, np.int64),
            widths=new_late_widths(new_ridge(capacity, *learning)),
            # The first squared error has a weight of 1 / 1, so that nothing is left of this 1.
            moments=np.array([1.0, 0.0]),
            key=np.array([key]),
            updates=np.zeros(1, np.int64),
            alpha=self.alpha,
            sampling=self.sampling,
        )

    def _make_room(self, candidates: TemplateCandidates, decisions: int) -> None:
        state = self.state
        capacity = capacity_for(state.templates, candidates.ids, decisions, MOST_SLOTS)
        if capacity > len(state.turns):
            self.state = state._replace(
                ridge=grown_ridge(state.ridge, capacity),
                templates=grown(state.templates, capacity),
                turns=resized(state.turns, capacity),
                widths=grown_widths(state.widths, capacity),
            )

    def _candidates(self, ids: IntArray, products: FloatArray) -> TemplateCandidates:
        return TemplateCandidates(ids, np.zeros(len(ids), np.int64), np.full(1, -1))

    def _exploiting(self) -> TemplateState:
        state: TemplateState = self.state._replace(alpha=0.0, sampling=False)
        return state

    def _shaped_as(self, saved: Mapping[str, Any]) -> TemplateState:
        capacity = saved_length(saved, "turns")
        return self._state_of(capacity, self.state.key[0]) if 2 <= capacity <= MOST_SLOTS else self.state

    def _signature(self) -> str:
        return f"{super()._signature()}, context {self.context}, alpha {self.alpha:g}, discount {self.discount:.10g}"


class TemplateGreedy(TemplateBandit):
    """Choose the template with the highest estimate; explores by nothing but its own errors."""

    name = "template-greedy"
    alpha: float = 0.0


class TemplateLinUCB(TemplateBandit):
    """Choose the template with the highest upper confidence bound."""

    name = "template-linucb"
    alpha: float = parameter(3.0, low=0, high=100, help="width of the bound, in standard deviations")


class TemplateTS(TemplateBandit):
    """Choose the template with the highest draw from its posterior; propensities count 256 of them."""

    name = "template-ts"
    sampling = True
    alpha: float = parameter(1.0, low=0, high=100, help="width of the draws, in standard deviations")
