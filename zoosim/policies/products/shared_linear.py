"""One linear model for all products, with interactions: what a click on one toy says about every toy.

The features of a decision are x = [user, product, user (x) product]. Written as ([1, user] (x) [1, product]) without
its constant, x' M x for all products of one user is p~' Q p~ with p~ = [1, product] and one small matrix Q a user: no
product costs more than its own non-zero features squared.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from zoosim.core.jit import inlined, jit
from zoosim.core.parameters import parameter
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.dense import is_dense, nonzeros
from zoosim.linear.joint import contract, joint, new_joint_ridge
from zoosim.linear.posterior import variances
from zoosim.linear.ridge import Ridge, observe
from zoosim.policies.choice import add_share, best_of, distinct_rows, pick, with_one
from zoosim.policies.kernel import Kernel, KernelPolicy
from zoosim.policies.products.late_widths import LateWidths, count_decision, new_late_widths, settle, widths_of


class SharedLinearState(NamedTuple):
    """One ridge model over [1, user] (x) [1, product], whose first entry is always 0."""

    ridge: Ridge
    widths: LateWidths
    alpha: float
    epsilon: float


class SharedLinearCandidates(NamedTuple):
    """The distinct [1, product] among the candidates, `rows (R, 1 + d_p)`, and the row of each, `row_of (K,)`.

    `dense` tells whether most of their numbers are not 0.
    """

    rows: FloatArray
    row_of: IntArray
    dense: bool


@inlined
def _best(state: SharedLinearState, candidates: SharedLinearCandidates, user: FloatArray, available: BoolArray) -> int:
    mean, spread = see_products(state, candidates, user)
    return best_by_bound(mean, spread, candidates, state.alpha, available)


@inlined
def see_products(state: Any, candidates: SharedLinearCandidates, user: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean `(w,)` and covariance `(w, w)` of the weights of [1, product], as a visitor sees the shared model.

    Args:
        state: A state with the fields `ridge` and `widths` of `SharedLinearState`.
        candidates: Candidates, whose rows have w numbers.
        user: The visitor's features `(d_u,)`.
    """
    left = with_one(user)
    width = candidates.rows.shape[1]
    mean = np.zeros(width)
    spread = np.zeros((width, width))
    contract(state.ridge, widths_of(state.widths, state.ridge), 0, left, nonzeros(left), mean, spread)
    return mean, spread


@inlined
def best_by_bound(
    mean: FloatArray, spread: FloatArray, candidates: SharedLinearCandidates, alpha: float, available: BoolArray
) -> int:
    """Return the available candidate with the highest upper confidence bound.

    Args:
        mean, spread: Of the weights of [1, product], `(w,)` and `(w, w)`.
        candidates: The candidates.
        alpha: Width of the bound, in standard deviations.
        available: Which candidates may be shown `(K,)`.
    """
    rows = candidates.rows
    scores = np.zeros(rows.shape[0])
    if alpha > 0.0:
        variances(spread, rows, candidates.dense, scores)
    for r in range(scores.shape[0]):
        scores[r] = alpha * np.sqrt(scores[r])
        for j in range(rows.shape[1]):
            scores[r] += mean[j] * rows[r, j]
    return best_of(scores, candidates.row_of, available)


@inlined
def _choose(
    state: SharedLinearState,
    candidates: SharedLinearCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    draw: float,
) -> int:
    if draw < state.epsilon:
        return pick(available, draw / state.epsilon)
    return _best(state, candidates, user, available)


@jit
def _distribution(
    state: SharedLinearState,
    candidates: SharedLinearCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    out: FloatArray,
) -> None:
    out[_best(state, candidates, user, available)] = 1.0 - state.epsilon
    if state.epsilon > 0.0:
        add_share(available, state.epsilon, out)


@jit
def _features_of(candidates: SharedLinearCandidates, user: FloatArray, action: int) -> FloatArray:
    return joint(with_one(user), candidates.rows[candidates.row_of[action]])


@inlined
def decided(
    state: Any, candidates: SharedLinearCandidates, user_id: int, user: FloatArray, available: BoolArray, action: int
) -> None:
    """Count a decision in the widths of a state with `ridge`, `widths` and `alpha`; see `zoosim.policies.kernel`."""
    # Without bounds nobody reads widths.
    if state.alpha > 0.0:
        count_decision(state.widths, state.ridge, 0, _features_of(candidates, user, action))


@inlined
def learn(
    state: Any, candidates: SharedLinearCandidates, user_id: int, user: FloatArray, action: int, reward: float
) -> None:
    """Learn a reward in a state with `ridge`, `widths` and `alpha`; see `zoosim.policies.kernel`."""
    x = _features_of(candidates, user, action)
    observe(state.ridge, 0, x, nonzeros(x), reward)
    if state.alpha > 0.0:
        settle(state.widths, 0, x)


KERNEL = Kernel("shared_linear", _choose, _distribution, learn, decided)


class SharedLinear(KernelPolicy):
    """Base of policies on one linear model for all products and visitors."""

    kernel = KERNEL
    learned: ClassVar[tuple[str, ...]] = ("ridge", "widths")
    regularization: float = parameter(1.0, low=1e-6, high=1e6, help="lambda of the ridge regression")

    def _make(self, alpha: float, epsilon: float, discount: float) -> SharedLinearState:
        dim = (1 + self.spec.user_dim) * (1 + self.spec.product_dim)
        ridge, ahead = (new_joint_ridge(1, dim, self.regularization, discount) for _ in range(2))
        return SharedLinearState(ridge, new_late_widths(ahead), alpha, epsilon)

    def _candidates(self, ids: IntArray, products: FloatArray) -> SharedLinearCandidates:
        rows, row_of = distinct_rows(np.hstack([np.ones((len(products), 1)), products]))
        return SharedLinearCandidates(rows, row_of, is_dense(rows))

    def _exploiting(self) -> Any:
        return self.state._replace(alpha=0.0, epsilon=0.0)


class Greedy(SharedLinear):
    """Show the product with the highest estimate, and with probability epsilon any product (epsilon-greedy)."""

    name = "greedy"
    epsilon: float = parameter(0.05, low=0, high=1, help="share of visits spent on a random product")

    def _new_state(self) -> SharedLinearState:
        return self._make(alpha=0.0, epsilon=self.epsilon, discount=1.0)


class DiscountedLinUCB(SharedLinear):
    """LinUCB on one shared model whose memory fades (D-LinUCB, Russac, Vernade & Cappe 2019)."""

    name = "d-linucb"
    alpha: float = parameter(1.0, low=0, high=100, help="width of the confidence bound, in standard deviations")
    discount: float = parameter(1 - 1 / 8000, low=0.9, high=1, help="weight that an observation keeps, a visit")

    def _new_state(self) -> SharedLinearState:
        return self._make(alpha=self.alpha, epsilon=0.0, discount=self.discount)
