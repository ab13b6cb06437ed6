"""Models over joint features: x = left (x) right, every entry of one vector times every entry of the other.

Both begin with a 1, and the product of those, a constant, is left out: 0. A right of one entry is a factor and no more.
x' M x for all right-hand sides of one left is right' Q right with one small matrix Q, so many products cost little more
than their own features squared.
"""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import add_product, copy_vector
from zoosim.linear.rank_one import count_terms, holds_terms, rows_for_terms
from zoosim.linear.ridge import Ridge, new_ridge


def new_joint_ridge(n: int, dim: int, regularization: float, discount: float) -> Ridge:
    """Return `n` models of `dim` joint features that have seen nothing; large ones let terms wait."""
    return new_ridge(n, dim, regularization, discount, rows_for_terms(dim))


@jit
def with_lead(lead: float, user: FloatArray) -> FloatArray:
    """Return [lead, user] `(d + 1,)`."""
    left = np.empty(user.shape[0] + 1)
    left[0] = lead
    copy_vector(user, left[1:])
    return left


@jit
def joint(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return left (x) right: `(m,)`, `(w,)` -> `(m w,)`."""
    width = right.shape[0]
    x = np.zeros(left.shape[0] * width)
    for a in range(left.shape[0]):
        if left[a] != 0.0:
            for j in range(width):
                x[a * width + j] = left[a] * right[j]
    if width > 1:
        x[0] = 0.0
    return x


@jit
def contract(
    ridge: Ridge,
    widths: Ridge,
    model: int,
    left: FloatArray,
    nonzero: IntArray,
    mean: FloatArray,
    spread: FloatArray,
) -> None:
    """Write theta and A^-1 of a model, as one `left` sees them, to `mean (w,)` and `spread (w, w)` over the right.

    theta is that of `ridge`, A that of `widths`, most often the same. `left (m,)`, `nonzero` the
    indices where it is not 0. What is written into must be 0.
    """
    theta = ridge.theta[model]
    inverse = widths.inverse[model]
    width = mean.shape[0]
    for a in nonzero:
        for j in range(width):
            mean[j] += left[a] * theta[a * width + j]
    # With fewer entries, single blocks of A^-1 are picked out; with more,
    # it is cheaper to read it once from end to end.
    if 2 * nonzero.shape[0] > left.shape[0]:
        _contract_dense(inverse, left, spread)
    else:
        _contract_sparse(inverse, left, nonzero, spread)
    if holds_terms(inverse):
        _contract_terms(inverse, left, spread)
    # The first entry of x is left out (see `joint`), so what the prior holds of it is taken off again.
    if width > 1:
        spread[0, 0] -= left[0] * left[0] * inverse[0, 0]


@jit
def _contract_sparse(inverse: FloatArray, left: FloatArray, nonzero: IntArray, spread: FloatArray) -> None:
    """Add sum left_a left_b A^-1_ab to `spread (w, w)`, over the blocks (a, b) of A^-1 where neither is 0."""
    width = spread.shape[0]
    for a in nonzero:
        for b in nonzero:
            scale = left[a] * left[b]
            for i in range(width):
                row = inverse[a * width + i]
                for j in range(width):
                    spread[i, j] += scale * row[b * width + j]


@jit
def _contract_dense(inverse: FloatArray, left: FloatArray, spread: FloatArray) -> None:
    """Add the sum over all blocks, from the lower triangle alone: each number of A^-1 is read once, in its order.

    Takes an eighth of the time of all blocks in turn at 33 x 33 features, where A^-1 fills 9 MB.
    """
    width = spread.shape[0]
    below = np.zeros((width, width))
    if holds_terms(inverse):
        _add_large_blocks(inverse, left, below, spread)
    else:
        _add_blocks(inverse, left, below, spread)
    for i in range(width):
        for j in range(width):
            spread[i, j] += below[i, j] + below[j, i]


@jit
def _add_blocks(inverse: FloatArray, left: FloatArray, below: FloatArray, diagonal: FloatArray) -> None:
    """Add sum left_a left_b A^-1_ab over the blocks below the diagonal, and that over the diagonal's."""
    width = below.shape[0]
    inner = np.empty(width)
    for a in range(left.shape[0]):
        for i in range(width):
            row = inverse[a * width + i]
            for j in range(width):
                inner[j] = 0.0
            # Blocks (a, b) and (b, a) are each other's transpose, so the caller adds `below` and its transpose.
            add_product(left[:a], row[: a * width].reshape((a, width)), inner)
            for j in range(width):
                below[i, j] += left[a] * inner[j]
                diagonal[i, j] += left[a] * left[a] * row[a * width + j]


@jit
def _add_large_blocks(inverse: FloatArray, left: FloatArray, below: FloatArray, diagonal: FloatArray) -> None:
    """Do what `_add_blocks` does in two thirds of its time at 33 x 33 features, in loops over whole rows."""
    width = below.shape[0]
    sums = np.empty(inverse.shape[1])
    for i in range(width):
        sums[:] = 0.0
        for a in range(left.shape[0]):
            row = inverse[a * width + i]
            for j in range(a * width):
                sums[j] += left[a] * row[j]
            for j in range(width):
                diagonal[i, j] += left[a] * left[a] * row[a * width + j]
        # sum over a > b of left_a left_b A_ab, the inner sum over a already made; entries that it never reached are 0.
        add_product(left, sums.reshape((left.shape[0], width)), below[i])


@jit
def _contract_terms(inverse: FloatArray, left: FloatArray, spread: FloatArray) -> None:
    """Add the terms that wait beside A^-1, as one `left` sees them."""
    dim = inverse.shape[1]
    width = spread.shape[0]
    for n in range(count_terms(inverse)):
        vector = np.zeros(width)
        add_product(left, inverse[dim + n].reshape((left.shape[0], width)), vector)
        for i in range(width):
            for j in range(width):
                spread[i, j] += inverse[-1, n] * vector[i] * vector[j]
