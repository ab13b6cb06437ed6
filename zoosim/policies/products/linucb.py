"""LinUCB with a model for each product (Li, Chu, Langford & Schapire 2010, algorithm 1)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.id_table import IdTable, capacity_for, claim_slot, grown, new_id_table, renew_slots
from zoosim.core.jit import inlined, jit
from zoosim.core.parameters import parameter
from zoosim.core.state import saved_length
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray
from zoosim.linear.dense import joined, nonzeros
from zoosim.linear.ridge import Ridge, clear, grown_ridge, new_ridge, observe
from zoosim.policies.kernel import Kernel, KernelPolicy
from zoosim.policies.products.late_widths import (
    LateWidths,
    count_decision,
    grown_widths,
    new_late_widths,
    settle,
    widths_of,
)
from zoosim.policies.requests import checked_request

MAX_BYTES = 2**30
"""Bytes that all models may take; then the product that was shown or rewarded longest ago is dropped."""

FIRST_PRODUCTS = 64


class LinUCBState(NamedTuple):
    """A ridge model over x = [user, product] for each product that was shown, by the slots of `products`.

    Model 0 has seen nothing: it speaks for products that were never shown.
    """

    ridge: Ridge
    products: IdTable
    widths: LateWidths
    alpha: float


class LinUCBCandidates(NamedTuple):
    """The candidates' `ids (K,)`, features `products (K, d_p)`, and the model `slots (K,)` of each.

    `active (K, d_p)` the columns where a product is not 0, the first `n_active (K,)` of each row; `version (1,)` of the
    id table that the slots were read at.
    """

    ids: IntArray
    products: FloatArray
    active: IntArray
    n_active: IntArray
    slots: IntArray
    version: IntArray


@inlined
def _best(state: LinUCBState, candidates: LinUCBCandidates, user: FloatArray, available: BoolArray) -> int:
    renew_slots(state.products, candidates.ids, candidates.slots, candidates.version)
    theta = state.ridge.theta
    inverse = widths_of(state.widths, state.ridge).inverse
    products = candidates.products
    active = candidates.active
    n_active = candidates.n_active
    index, value, n_user = _non_zero_user(user, theta.shape[1])
    best = -1
    top = -np.inf
    for k in range(available.shape[0]):
        if not available[k]:
            continue
        slot = candidates.slots[k]
        for n in range(n_active[k]):
            index[n_user + n] = user.shape[0] + active[k, n]
            value[n_user + n] = products[k, active[k, n]]
        # x' A^-1 x over the non-zero entries of x alone, each pair of them once, since A^-1 is symmetric.
        mean = square = 0.0
        for n in range(n_user + n_active[k]):
            cross = 0.0
            if slot:  # model 0 is a multiple of the identity
                for m in range(n):
                    cross += value[m] * inverse[slot, index[n], index[m]]
            mean += value[n] * theta[slot, index[n]]
            square += value[n] * (value[n] * inverse[slot, index[n], index[n]] + 2.0 * cross)
        score = mean + state.alpha * np.sqrt(max(square, 0.0))
        if best < 0 or score > top:
            best = k
            top = score
    return best


@jit
def _non_zero_user(user: FloatArray, dim: int) -> tuple[IntArray, FloatArray, int]:
    """Return room for the non-zero entries of x, indices and values, the user's in place, and how many those are."""
    index = np.empty(dim, np.int64)
    value = np.empty(dim)
    count = 0
    for i in range(user.shape[0]):
        if user[i] != 0.0:
            index[count], value[count] = i, user[i]
            count += 1
    return index, value, count


@jit
def _active_columns(products: FloatArray) -> tuple[IntArray, IntArray]:
    """Return where each product is not 0, `(K, d_p)` with the columns in front, and how many those are `(K,)`."""
    active = np.empty(products.shape, np.int64)
    n_active = np.zeros(products.shape[0], np.int64)
    for k in range(products.shape[0]):
        for i in range(products.shape[1]):
            if products[k, i] != 0.0:
                active[k, n_active[k]] = i
                n_active[k] += 1
    return active, n_active


@inlined
def _choose(
    state: LinUCBState, candidates: LinUCBCandidates, user_id: int, user: FloatArray, available: BoolArray, draw: float
) -> int:
    return _best(state, candidates, user, available)


@jit
def _distribution(
    state: LinUCBState,
    candidates: LinUCBCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    out: FloatArray,
) -> None:
    out[_best(state, candidates, user, available)] = 1.0


@jit
def _means(state: LinUCBState, candidates: LinUCBCandidates, user: FloatArray) -> FloatArray:
    """Return the expected reward of each candidate `(K,)`."""
    renew_slots(state.products, candidates.ids, candidates.slots, candidates.version)
    means = np.zeros(len(candidates.ids))
    for k in range(len(means)):
        means[k] = joined(user, candidates.products[k]) @ state.ridge.theta[candidates.slots[k]]
    return means


@jit
def _model_of(state: LinUCBState, product_id: int) -> int:
    """Return the model of a product, cleared if it is new."""
    slot, is_new = claim_slot(state.products, product_id)
    if is_new:
        clear(state.ridge, slot)
        clear(state.widths.ahead, slot)
    return slot


@inlined
def _decided(
    state: LinUCBState, candidates: LinUCBCandidates, user_id: int, user: FloatArray, available: BoolArray, action: int
) -> None:
    x = joined(user, candidates.products[action])
    count_decision(state.widths, state.ridge, _model_of(state, candidates.ids[action]), x)


@inlined
def _learn(
    state: LinUCBState, candidates: LinUCBCandidates, user_id: int, user: FloatArray, action: int, reward: float
) -> None:
    x = joined(user, candidates.products[action])
    model = _model_of(state, candidates.ids[action])
    observe(state.ridge, model, x, nonzeros(x), reward)
    settle(state.widths, model, x)


class LinUCB(KernelPolicy):
    """Choose the product with the highest upper confidence bound, each product with a linear model of its own.

    Score: theta_k' x + alpha sqrt(x' A_k^-1 x) with x = [user, product]. Products are known by their id; those that
    were never shown have the prior. All models together take 1 GB at most: then the product that was shown or
    rewarded longest ago is dropped, and begins anew should it return.
    """

    name = "linucb"
    most_singles = 4_096
    predicts = True
    kernel = Kernel("linucb", _choose, _distribution, _learn, _decided)
    learned = ("ridge", "products", "widths")
    alpha: float = parameter(1.0, low=0, high=100, help="width of the confidence bound, in standard deviations")
    regularization: float = parameter(1.0, low=1e-6, high=1e6, help="lambda of the ridge regression")

    @property
    def _dim(self) -> int:
        return self.spec.user_dim + self.spec.product_dim

    @property
    def _most(self) -> int:
        """Return the most models there may be, that of unknown products included."""
        # A gram and an inverse in float64, both in the ridge of rewards and in that of late widths.
        return max(2, MAX_BYTES // (4 * 8 * self._dim**2))

    def _new_state(self) -> LinUCBState:
        return self._state_of(min(FIRST_PRODUCTS, self._most))

    def _state_of(self, capacity: int) -> LinUCBState:
        ridge, ahead = (new_ridge(capacity, self._dim, self.regularization) for _ in range(2))
        return LinUCBState(ridge, new_id_table(capacity), new_late_widths(ahead), self.alpha)

    def _make_room(self, candidates: LinUCBCandidates, decisions: int) -> None:
        state = self.state
        capacity = capacity_for(state.products, candidates.ids, decisions, self._most)
        if capacity > len(state.products.ids):
            self.state = state._replace(
                ridge=grown_ridge(state.ridge, capacity),
                products=grown(state.products, capacity),
                widths=grown_widths(state.widths, capacity),
            )

    def _candidates(self, ids: IntArray, products: FloatArray) -> LinUCBCandidates:
        active, n_active = _active_columns(products)
        return LinUCBCandidates(ids, products, active, n_active, np.zeros(len(ids), np.int64), np.full(1, -1))

    def expected_rewards(self, context: Context) -> FloatArray:
        """Return the mean of each candidate's model `(K,)`; moves no state."""
        request = checked_request(context, self.spec)
        return np.asarray(_means(self.state, self.attach(context), request.user))

    def _exploiting(self) -> LinUCBState:
        state: LinUCBState = self.state._replace(alpha=0.0)
        return state

    def _shaped_as(self, saved: Mapping[str, Any]) -> LinUCBState:
        capacity = saved_length(saved, "products.ids")
        return self._state_of(capacity) if 2 <= capacity <= self._most else self.state
