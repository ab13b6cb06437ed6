"""LinUCB with a model for each product (Li, Chu, Langford & Schapire 2010, algorithm 1)."""

from typing import Any, NamedTuple

import numpy as np

from zoosim.core.jit import inlined, jit
from zoosim.core.parameters import parameter
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.condition import HARD
from zoosim.linear.dense import dot, nonzeros
from zoosim.linear.ridge import Ridge, new_ridge, observe, variance
from zoosim.policies.kernel import Kernel, KernelPolicy


class State(NamedTuple):
    """A ridge model a product over x = [user, product].

    `products (K, d_p)`, `active (K, d_p)` the columns where a product is not 0, the first `n_active (K,)` of each row.
    """

    ridge: Ridge
    products: FloatArray
    active: IntArray
    n_active: IntArray
    alpha: float


@inlined
def _best(state: State, user: FloatArray, available: BoolArray) -> int:
    inverse, theta, products = state.ridge.inverse, state.ridge.theta, state.products
    active, n_active, alpha = state.active, state.n_active, state.alpha
    if state.ridge.condition[-1, HARD]:
        return _best_exactly(state.ridge, products, alpha, user, available)
    index, value, n_user = _non_zero_user(user, theta.shape[1])
    best, top = -1, -np.inf
    for k in range(available.shape[0]):
        if not available[k]:
            continue
        for n in range(n_active[k]):
            index[n_user + n] = user.shape[0] + active[k, n]
            value[n_user + n] = products[k, active[k, n]]
        mean = square = 0.0
        for n in range(n_user + n_active[k]):
            cross = 0.0
            for m in range(n):
                cross += value[m] * inverse[k, index[n], index[m]]
            mean += value[n] * theta[k, index[n]]
            square += value[n] * (value[n] * inverse[k, index[n], index[n]] + 2.0 * cross)
        score = mean + alpha * np.sqrt(max(square, 0.0))
        if best < 0 or score > top:
            best, top = k, score
    return best


@jit
def _best_exactly(ridge: Ridge, products: FloatArray, alpha: float, user: FloatArray, available: BoolArray) -> int:
    """Return the best product where double precision may not do for some."""
    best, top = -1, -np.inf
    for k in range(available.shape[0]):
        if available[k]:
            x = np.concatenate((user, products[k]))
            score = dot(ridge.theta[k], x) + alpha * np.sqrt(variance(ridge, k, x, nonzeros(x)))
            if best < 0 or score > top:
                best, top = k, score
    return best


@jit
def _non_zero_user(user: FloatArray, dim: int) -> tuple[IntArray, FloatArray, int]:
    """Return room for the non-zero entries of x, indices and values, the user's in place, and how many those are."""
    index, value, count = np.empty(dim, np.int64), np.empty(dim), 0
    for i in range(user.shape[0]):
        if user[i] != 0.0:
            index[count], value[count] = i, user[i]
            count += 1
    return index, value, count


@inlined
def _choose(state: State, user_id: int, user: FloatArray, available: BoolArray) -> int:
    return _best(state, user, available)


@inlined
def _learn(state: State, user_id: int, user: FloatArray, action: int, reward: float) -> None:
    x = np.concatenate((user, state.products[action]))
    observe(state.ridge, action, x, nonzeros(x), reward)


@jit
def _probability(state: State, user_id: int, user: FloatArray, available: BoolArray, action: int) -> float:
    return 1.0 if _best(state, user, available) == action else 0.0


class LinUCB(KernelPolicy):
    """Choose the product with the highest upper confidence bound, each product with a linear model of its own.

    Score: theta_k' x + alpha sqrt(x' A_k^-1 x) with x = [user, product].
    """

    name = "linucb"
    kernel = Kernel("linucb", _choose, _learn, _probability)
    learned = ("ridge",)
    alpha: float = parameter(1.0, low=0, high=100, help="width of the confidence bound, in standard deviations")
    regularization: float = parameter(1.0, low=1e-6, high=1e6, help="lambda of the ridge regression")

    def _new_state(self) -> State:
        k, dim = self.spec.n_products, self.spec.product_dim
        ridge = new_ridge(k, self.spec.user_dim + dim, self.regularization)
        return State(ridge, np.zeros((k, dim)), np.zeros((k, dim), np.int64), np.zeros(k, np.int64), self.alpha)

    def _with_products(self, products: FloatArray) -> Any:
        active = np.argsort(products == 0, axis=1, kind="stable").astype(np.int64)
        n_active = (products != 0).sum(axis=1).astype(np.int64)
        return self.state._replace(products=products.copy(), active=active, n_active=n_active)
