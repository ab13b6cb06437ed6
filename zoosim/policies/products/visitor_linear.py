"""LinUCB on one shared linear model and each visitor's own deviation from it, shrunk as far as visitors are alike.

Of the hybrid model of Li, Chu, Langford & Schapire (2010, algorithm 2) the deviations are those of visitors in place of
products; that their size is learned is empirical Bayes, as in the Thompson sampler with effects of persons of Tomkins,
Liao, Klasnja & Murphy (2021, "IntelligentPooling").
"""

from collections.abc import Mapping
from typing import NamedTuple

from zoosim.core.jit import inlined, jit
from zoosim.core.parameters import parameter
from zoosim.core.state import saved_length
from zoosim.core.types import BoolArray, FloatArray
from zoosim.linear.ridge import Ridge
from zoosim.policies.kernel import Kernel
from zoosim.policies.products.late_widths import LateWidths
from zoosim.policies.products.shared_linear import (
    SharedLinear,
    SharedLinearCandidates,
    best_by_bound,
    decided,
    learn,
    see_products,
)
from zoosim.policies.products.visitor_memory import (
    VisitorMemory,
    add_deviation,
    bytes_per_visitor,
    new_memory,
    remember,
    with_room,
)

MAX_BYTES = 2**30
"""Bytes that all visitors may take; then the one who was rewarded longest ago is dropped."""

FIRST_VISITORS = 64


class VisitorLinearState(NamedTuple):
    """The shared model, a `ridge` over [1, user] (x) [1, product] with `widths`, and the memory of `visitors`."""

    ridge: Ridge
    widths: LateWidths
    visitors: VisitorMemory
    alpha: float


@inlined
def _choose(
    state: VisitorLinearState,
    candidates: SharedLinearCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    draw: float,
) -> int:
    mean, spread = see_products(state, candidates, user)
    add_deviation(state.visitors, user_id, state.ridge.theta[0], mean)
    return best_by_bound(mean, spread, candidates, state.alpha, available)


@jit
def _distribution(
    state: VisitorLinearState,
    candidates: SharedLinearCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    out: FloatArray,
) -> None:
    out[_choose(state, candidates, user_id, user, available, 0.0)] = 1.0


@inlined
def _learn(
    state: VisitorLinearState,
    candidates: SharedLinearCandidates,
    user_id: int,
    user: FloatArray,
    action: int,
    reward: float,
) -> None:
    row = candidates.rows[candidates.row_of[action]]
    # Before the shared model learns of it, so that what is predicted is not known yet.
    remember(state.visitors, user_id, user, row, reward, state.ridge.theta[0])
    learn(state, candidates, user_id, user, action, reward)


class VisitorLinUCB(SharedLinear):
    """LinUCB on one linear model for all, and for each visitor a deviation from it by the last rewarded visits.

    Score: the mean of x'(theta + delta) and `alpha` standard deviations of x'theta, x = [1, product]: theta what the
    model of all visitors says of this one's features, delta the visitor's own. The width is that of theta alone: a look
    at what a visitor's own tastes might be would cost one of the few visits that it is good for. Visitors are known by
    their id; one without any is as one who comes for the first time. A visitor's last `visits` rewarded visits are
    held, and all visitors take 1 GB at most: then the one who was rewarded longest ago is dropped, and begins anew from
    the model of all. How much visitors differ is learned; where they do not, decisions are those of the shared model,
    `d-linucb`.

    The shared model forgets over so many visits as it has weights, times `memory`: with fewer it would know the weights
    less well, and with more it would follow a market that changes later.
    """

    name = "visitor-linucb"
    kernel = Kernel("visitor_linear", _choose, _distribution, _learn, decided)
    learned = ("ridge", "widths", "visitors")
    reads_user_ids = True
    alpha: float = parameter(1.0, low=0, high=100, help="width of the confidence bound, in standard deviations")
    memory: float = parameter(512.0, low=1, high=1e12, help="visits per weight of the model of all that it learns from")
    visits: int = parameter(8, low=1, high=64, help="rewarded visits that are held of each visitor, the last ones")

    @property
    def discount(self) -> float:
        """The weight that an observation of the shared model keeps from a visit to the next."""
        weights = (1 + self.spec.user_dim) * (1 + self.spec.product_dim)
        return 1.0 - 1.0 / (self.memory * weights)

    @property
    def _visit_dim(self) -> int:
        return self.spec.user_dim + self.spec.product_dim

    @property
    def _most(self) -> int:
        """Return the most slots that there may be, that of unknown visitors included."""
        return max(2, MAX_BYTES // bytes_per_visitor(self.visits, self._visit_dim))

    def _new_state(self) -> VisitorLinearState:
        return self._state_of(min(FIRST_VISITORS, self._most))

    def _state_of(self, capacity: int) -> VisitorLinearState:
        shared = self._make(self.alpha, 0.0, self.discount)
        visitors = new_memory(capacity, self.visits, self._visit_dim)
        return VisitorLinearState(shared.ridge, shared.widths, visitors, self.alpha)

    def _make_room(self, candidates: SharedLinearCandidates, decisions: int) -> None:
        state: VisitorLinearState = self.state
        visitors = with_room(state.visitors, decisions, self._most)
        if visitors is not state.visitors:
            self.state = state._replace(visitors=visitors)

    def _exploiting(self) -> VisitorLinearState:
        state: VisitorLinearState = self.state._replace(alpha=0.0)
        return state

    def _shaped_as(self, saved: Mapping[str, object]) -> VisitorLinearState:
        capacity = saved_length(saved, "visitors.counts")
        state: VisitorLinearState = self.state
        return self._state_of(capacity) if 2 <= capacity <= self._most else state
