"""One linear model for all products, with interactions: what a click on one toy says about every toy.

The features of a decision are x = [user, product, user (x) product]. Written as ([1, user] (x) [1, product]) without
its constant, x' M x for all products of one user is p~' Q p~ with p~ = [1, product] and one small matrix Q a user: no
product costs more than its own non-zero features squared.
"""

from typing import Any, NamedTuple

import numpy as np

from zoosim.core.jit import inlined, jit
from zoosim.core.parameters import parameter
from zoosim.core.rng import draw_key, uniform
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.condition import HARD
from zoosim.linear.dense import dot, nonzeros
from zoosim.linear.joint import contract, joint
from zoosim.linear.ridge import Ridge, new_ridge, observe, quadratic, variance
from zoosim.policies.kernel import Kernel, KernelPolicy, best_of, distinct_rows, pick, share, with_one


class State(NamedTuple):
    """One ridge model over [1, user] (x) [1, product], whose first entry is always 0.

    `rows (R, 1 + d_p)` the distinct [1, product], `row_of (K,)` the row of each product; the `key` of the draws and
    how many `draws` were made, each (1,).
    """

    ridge: Ridge
    rows: FloatArray
    row_of: IntArray
    alpha: float
    epsilon: float
    key: np.ndarray
    draws: IntArray


@inlined
def _best(state: State, user: FloatArray, available: BoolArray) -> int:
    left, width = with_one(user), state.rows.shape[1]
    if state.ridge.condition[0, HARD]:
        return best_of(_exact_scores(state.ridge, left, state.rows, state.alpha), state.row_of, available)
    mean, spread = np.zeros(width), np.zeros((width, width))
    contract(state.ridge, 0, left, nonzeros(left), mean, spread)
    scores = np.empty(state.rows.shape[0])
    for r in range(scores.shape[0]):
        row = state.rows[r]
        nonzero = nonzeros(row)
        scores[r] = state.alpha * np.sqrt(quadratic(spread, row, nonzero)) if state.alpha > 0.0 else 0.0
        for j in nonzero:
            scores[r] += mean[j] * row[j]
    return best_of(scores, state.row_of, available)


@jit
def _exact_scores(ridge: Ridge, left: FloatArray, rows: FloatArray, alpha: float) -> FloatArray:
    """Return the score of each row where double precision may not do."""
    scores = np.empty(rows.shape[0])
    for r in range(rows.shape[0]):
        x = joint(left, rows[r])
        scores[r] = dot(ridge.theta[0], x) + alpha * np.sqrt(variance(ridge, 0, x, nonzeros(x)))
    return scores


@inlined
def _choose(state: State, user_id: int, user: FloatArray, available: BoolArray) -> int:
    best = _best(state, user, available)
    if state.epsilon == 0.0:
        return best
    state.draws[0] += 1
    if uniform(state.key[0], state.draws[0], 0) < state.epsilon:
        return pick(available, uniform(state.key[0], state.draws[0], 1))
    return best


@inlined
def _learn(state: State, user_id: int, user: FloatArray, action: int, reward: float) -> None:
    x = joint(with_one(user), state.rows[state.row_of[action]])
    observe(state.ridge, 0, x, nonzeros(x), reward)


@jit
def _probability(state: State, user_id: int, user: FloatArray, available: BoolArray, action: int) -> float:
    exploit = 1.0 if _best(state, user, available) == action else 0.0
    return state.epsilon * share(available, action) + (1.0 - state.epsilon) * exploit


KERNEL = Kernel("shared_linear", _choose, _learn, _probability)


class _SharedLinear(KernelPolicy):
    """What `greedy` and `d-linucb` have in common."""

    kernel = KERNEL
    learned = ("ridge", "key", "draws")
    regularization: float = parameter(1.0, low=1e-6, high=1e6, help="lambda of the ridge regression")

    def _make(self, alpha: float, epsilon: float, discount: float) -> State:
        width = 1 + self.spec.product_dim
        ridge = new_ridge(1, (1 + self.spec.user_dim) * width, self.regularization, discount)
        key, draws = np.array([draw_key(self.rng)]), np.zeros(1, np.int64)
        row_of = np.zeros(self.spec.n_products, np.int64)
        return State(ridge, np.ones((1, width)), row_of, alpha, epsilon, key, draws)

    def _with_products(self, products: FloatArray) -> Any:
        rows, row_of = distinct_rows(np.hstack([np.ones((len(products), 1)), products]))
        return self.state._replace(rows=rows, row_of=row_of)


class Greedy(_SharedLinear):
    """Show the product with the highest estimate, and with probability epsilon any product (epsilon-greedy)."""

    name = "greedy"
    epsilon: float = parameter(0.05, low=0, high=1, help="share of visits spent on a random product")

    def _new_state(self) -> State:
        return self._make(alpha=0.0, epsilon=self.epsilon, discount=1.0)


class DiscountedLinUCB(_SharedLinear):
    """LinUCB on one shared model whose memory fades (D-LinUCB, Russac, Vernade & Cappe 2019)."""

    name = "d-linucb"
    alpha: float = parameter(1.0, low=0, high=100, help="width of the confidence bound, in standard deviations")
    discount: float = parameter(1 - 1 / 8000, low=0.9, high=1, help="weight that an observation keeps, a visit")

    def _new_state(self) -> State:
        return self._make(alpha=self.alpha, epsilon=0.0, discount=self.discount)
