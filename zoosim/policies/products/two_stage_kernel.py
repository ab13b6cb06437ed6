"""The compiled functions of a policy that retrieves by its posterior: what a visitor sees, and draws of it."""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.rng import normal
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import add_matrix, nonzeros
from zoosim.linear.joint import contract, joint
from zoosim.linear.posterior import root
from zoosim.linear.ridge import Ridge, observe
from zoosim.policies.choice import with_one

AT_ONCE = 32
"""Candidates whose scores under all draws stay in the processor's cache."""


class View(NamedTuple):
    """What a visitor sees of a linear model over [1, user] (x) [1, product]: weights of products, but for a constant.

    `mean (d_p,)`, and `root (d_p, d_p)`, the lower triangular L with L L' the covariance.
    """

    mean: FloatArray
    root: FloatArray


@jit
def look(ridge: Ridge, user: FloatArray) -> View:
    """Return how a visitor with features `user (d_u,)` sees the products by the posterior of model 0."""
    left = with_one(user)
    width = ridge.b.shape[1] // left.shape[0]
    mean = np.zeros(width)
    spread = np.zeros((width, width))
    contract(ridge, ridge, 0, left, nonzeros(left), mean, spread)
    # What a visitor sees in all products alike changes no choice.
    inner = spread[1:, 1:].copy()
    root(inner)
    return View(mean[1:].copy(), inner)


@jit
def draw_weights(view: View, alpha: float, key: np.uint64, first: int, count: int) -> FloatArray:
    """Return posterior draws number `first` to `first + count - 1` of the weights of products `(count, d_p)`."""
    dim = view.mean.shape[0]
    noise = np.empty((count, dim))
    draws = np.empty((count, dim))
    for i in range(count):
        for j in range(dim):
            noise[i, j] = alpha * normal(key, first + i, j)
            draws[i, j] = view.mean[j]
    add_matrix(noise, np.ascontiguousarray(view.root.T), draws)
    return draws


@jit
def best_by_draw(weights: FloatArray, vectors: np.ndarray) -> IntArray:
    """Return the place of the best vector under each draw `(count,)`, the first on ties.

    Scores are summed in 32 bits, which is exact to some 1e-6 of |weights| |vector|, far less than draws differ by. A
    draw alone and among others finds the same, to the bit.

    Args:
        weights: The draws `(count, d)`.
        vectors: The vectors of candidates in 32 bits `(c, d)`.
    """
    count = weights.shape[0]
    columns = np.ascontiguousarray(weights.T).astype(np.float32)
    best = np.zeros(count, np.int32)
    top = np.full(count, np.float32(-np.inf))
    scores = np.empty((AT_ONCE, count), np.float32)
    for start in range(0, vectors.shape[0], AT_ONCE):
        block = vectors[start : start + AT_ONCE]
        scores[:] = np.float32(0.0)
        add_matrix(block, columns, scores[: block.shape[0]])
        for k in range(block.shape[0]):
            row = scores[k]
            place = np.int32(start + k)
            # Written as choices, not as a branch, so that a compiler compares several draws at once.
            for i in range(count):
                is_better = row[i] > top[i]
                top[i] = row[i] if is_better else top[i]
                best[i] = place if is_better else best[i]
    return best.astype(np.int64)


@jit
def learn_rows(
    ridge: Ridge, updates: IntArray, users: FloatArray, products: FloatArray, actions: IntArray, rewards: FloatArray
) -> None:
    """Learn n rewards: of visitors with features `users (n, d_u)`, who were shown rows `actions (n,)` of products."""
    for i in range(actions.shape[0]):
        x = joint(with_one(users[i]), with_one(products[actions[i]]))
        observe(ridge, 0, x, nonzeros(x), rewards[i])
        updates[0] += 1
