"""Linear models as one visitor sees them: over [1, numbers] of a product, its numbers being m of its features.

The features of a decision are linear in the product's, x = E [1, numbers] with a matrix E that depends on the visitor
alone. So theta' x and x' A^-1 x for all products come from the small E' theta and E' A^-1 E.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.joint import with_lead


class Lens(NamedTuple):
    """The entries of E `(d, 1 + m)` that are not 0.

    Of column i the first `counts[i]`: `rows (1 + m, n)` and `values (1 + m, n)`, `counts (1 + m,)`.
    """

    rows: IntArray
    values: FloatArray
    counts: IntArray


@jit
def new_lens(user: FloatArray, columns: IntArray, dim: int, interacts: bool) -> Lens:
    """Return E of a visitor, `user (d_u,)`, for models of `dim` features.

    They are x = [1, user] (x) [1, product] where it `interacts`, else x = [1, user, product]. `columns (1 + m,)` are
    the places in [1, product] that count, the first of them 0.
    """
    left = with_lead(1.0, user)
    shape = columns.shape[0], left.shape[0]
    rows = np.zeros(shape, np.int64)
    values = np.zeros(shape)
    counts = np.zeros(columns.shape[0], np.int64)
    width = dim // left.shape[0]
    for i in range(columns.shape[0]):
        if i > 0 and not interacts:
            rows[i, 0] = user.shape[0] + columns[i]
            values[i, 0] = 1.0
            counts[i] = 1
            continue
        for a in range(left.shape[0]):
            if left[a] != 0.0:
                rows[i, counts[i]] = a * width + columns[i] if interacts else a
                values[i, counts[i]] = left[a]
                counts[i] += 1
    return Lens(rows, values, counts)


@jit
def see_mean(lens: Lens, theta: FloatArray) -> FloatArray:
    """Return E' theta `(1 + m,)`."""
    mean = np.zeros(lens.counts.shape[0])
    for i in range(mean.shape[0]):
        for n in range(lens.counts[i]):
            mean[i] += lens.values[i, n] * theta[lens.rows[i, n]]
    return mean


@jit
def see_spread(lens: Lens, inverse: FloatArray) -> FloatArray:
    """Return E' A^-1 E `(1 + m, 1 + m)` of the symmetric `inverse (d, d)`."""
    size = lens.counts.shape[0]
    spread = np.zeros((size, size))
    for i in range(size):
        for n in range(lens.counts[i]):
            row = inverse[lens.rows[i, n]]
            for j in range(i + 1):
                total = 0.0
                for m in range(lens.counts[j]):
                    total += lens.values[j, m] * row[lens.rows[j, m]]
                spread[i, j] += lens.values[i, n] * total
    for i in range(size):
        for j in range(i):
            spread[j, i] = spread[i, j]
    return spread
