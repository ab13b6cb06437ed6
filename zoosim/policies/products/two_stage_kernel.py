"""The compiled functions of a policy that retrieves by its posterior: what a visitor sees, and draws of it."""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import inlined, jit
from zoosim.core.normals import BLOCK, fill_normals
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import add_matrix, nonzeros
from zoosim.linear.joint import contract, joint
from zoosim.linear.posterior import root
from zoosim.linear.ridge import Ridge, observe
from zoosim.policies.choice import with_one
from zoosim.retrieval.scan import inner_product

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
def draw_deviations(view: View, alpha: float, key: np.uint64, first: int, count: int) -> FloatArray:
    """Return what pairs of posterior draws are off the mean by, pairs `first` to `first + count - 1` `(d_p, count)`.

    The weights of products are mean + deviation by draw n, and mean - deviation by draw n + 128: antithetic draws
    (Hammersley & Morton 1956), each from the posterior, together better spread than two of their own, and half the
    work. A pair alone and among others is the same, to the bit.
    """
    dim = view.mean.shape[0]
    noise = np.empty((dim, count))
    # Several pairs from one call, whose numbers come in two blocks: a call for each would throw away half of them.
    per_call = max(2 * BLOCK // dim, 1)
    numbers = np.empty(per_call * dim)
    filled = -1
    for n in range(count):
        call = (first + n) // per_call
        if call != filled:
            fill_normals(key, call, numbers)
            filled = call
        start = (first + n) % per_call * dim
        for i in range(dim):
            noise[i, n] = numbers[start + i]
    scaled = alpha * view.root
    deviations = np.zeros((dim, count))
    for i in range(0, dim, 4):
        # Right of its diagonal the root is 0.
        end = min(i + 4, dim)
        add_matrix(scaled[i:end, :end], noise, deviations[i:end])
    return deviations


@jit
def best_by_draw(mean: FloatArray, deviations: FloatArray, vectors: np.ndarray) -> IntArray:
    """Return the place of the best vector by each draw `(2 count,)`, of mean + deviation first, the first on ties.

    Scores are summed in 32 bits, which is exact to some 1e-6 of |weights| |vector|, far less than draws differ by. A
    pair alone and among others finds the same, to the bit.

    Args:
        mean: The mean weights `(d,)`.
        deviations: What the draws of each pair are off by `(d, count)`.
        vectors: The vectors of candidates in 32 bits `(c, d)`.
    """
    count = deviations.shape[1]
    columns = deviations.astype(np.float32)
    best = np.zeros((2, count), np.int32)
    top = np.full((2, count), np.float32(-np.inf))
    scores = np.empty((AT_ONCE, count), np.float32)
    for start in range(0, vectors.shape[0], AT_ONCE):
        block = vectors[start : start + AT_ONCE]
        scores[:] = np.float32(0.0)
        add_matrix(block, columns, scores[: block.shape[0]])
        for k in range(block.shape[0]):
            middle = np.float32(inner_product(block[k], mean))
            _keep_better(middle, scores[k], np.float32(1.0), np.int32(start + k), top[0], best[0])
            _keep_better(middle, scores[k], np.float32(-1.0), np.int32(start + k), top[1], best[1])
    return best.reshape(-1).astype(np.int64)


@inlined
def _keep_better(
    middle: np.float32, deviations: np.ndarray, sign: np.float32, place: np.int32, top: np.ndarray, best: np.ndarray
) -> None:
    """Let a vector be the best of each draw by which its score is above the best so far."""
    for n in range(len(top)):
        # Written as choices, not as a branch, so that a compiler compares several draws at once.
        score = middle + sign * deviations[n]
        is_better = score > top[n]
        top[n] = score if is_better else top[n]
        best[n] = place if is_better else best[n]


@jit
def learn_rows(
    ridge: Ridge, updates: IntArray, users: FloatArray, products: FloatArray, actions: IntArray, rewards: FloatArray
) -> None:
    """Learn n rewards: of visitors with features `users (n, d_u)`, who were shown rows `actions (n,)` of products."""
    for i in range(actions.shape[0]):
        x = joint(with_one(users[i]), with_one(products[actions[i]]))
        observe(ridge, 0, x, nonzeros(x), rewards[i])
        updates[0] += 1
