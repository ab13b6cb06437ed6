"""Rank-one terms that wait beside a large symmetric matrix: it is rewritten once for 32 of them.

A matrix M `(d, d)` with room for terms, d >= 32, has 33 rows more: `(d + 33, d)` are M0 `(d, d)`, the vectors u of 32
terms, and a row with their factors f, 0 where there is no term. M = M0 + sum f u u'. Products with M cost O(32 d) more
than those with M0, but M0 of 1,089 features fills 9 MB, and writing it for each observation costs more than all else.

Only such matrices may be passed to what follows, but for `holds_terms`.
"""

import numpy as np

from zoosim.core.jit import inlined, jit
from zoosim.core.types import FloatArray
from zoosim.linear.dense import add_matrix, add_product, copy_vector, dot

MOST_TERMS = 32
"""Terms that wait, at most. With 16 or 64 an observation of 1,089 features takes longer."""

BLOCK = 32
"""Rows that are rewritten together, left of the diagonal alone: the rest follows by symmetry."""

LARGE = 256
"""Features from which on it pays to let terms wait: two matrices fill the second cache."""


def rows_for_terms(dim: int) -> int:
    """Return how many rows more a matrix of so many features gets for terms that wait."""
    return MOST_TERMS + 1 if dim >= LARGE else 0


@inlined
def holds_terms(matrix: FloatArray) -> bool:
    """Return whether a matrix, or each of a stack of them, has room for terms."""
    return bool(matrix.shape[-2] > matrix.shape[-1])


@jit
def count_terms(matrix: FloatArray) -> int:
    """Return how many terms wait beside a matrix with room for them."""
    # No factor is 0, so the first 0 ends the terms.
    count = 0
    while count < MOST_TERMS and matrix[-1, count] != 0.0:
        count += 1
    return count


@jit
def add_term(matrix: FloatArray, factor: float, vector: FloatArray) -> None:
    """Add f u u' to a matrix with room for terms: a `factor` other than 0, `vector (d,)`."""
    count = count_terms(matrix)
    copy_vector(vector, matrix[matrix.shape[1] + count])
    matrix[-1, count] = factor
    if count + 1 == MOST_TERMS:
        # At once, so that there is always room for one more, and nobody has to ask.
        settle_terms(matrix)


@jit
def settle_terms(matrix: FloatArray) -> None:
    """Write M0 = M on and left of the diagonal, so that no term waits; see `mirror` for the rest.

    Takes 60% of the time of the whole matrix at 1,089 features.
    """
    count = count_terms(matrix)
    dim = matrix.shape[1]
    if count == 0:
        return
    vectors = matrix[dim : dim + count]
    # sum f u u' as one matrix product, (f u) U with the u as rows of U: M0 is read and written once for all terms.
    scaled = np.empty((dim, count))
    for i in range(dim):
        for n in range(count):
            scaled[i, n] = matrix[-1, n] * vectors[n, i]
    room = np.empty(BLOCK * dim)
    for start in range(0, dim, BLOCK):
        end = min(start + BLOCK, dim)
        sums = room[: (end - start) * end].reshape((end - start, end))
        sums[:] = 0.0
        add_matrix(scaled[start:end], vectors, sums)
        for i in range(start, end):
            for j in range(end):
                matrix[i, j] += sums[i - start, j]
    drop_terms(matrix)


@jit
def mirror(matrix: FloatArray) -> None:
    """Write what stands left of the diagonal of M0 to its right, too."""
    dim = matrix.shape[1]
    for start in range(0, dim, BLOCK):  # in blocks, since a column of its own touches a cache line for each number
        end = min(start + BLOCK, dim)
        for j in range(end):
            for i in range(max(start, j + 1), end):
                matrix[j, i] = matrix[i, j]


@jit
def drop_terms(matrix: FloatArray) -> None:
    """Write M = M0: forget the terms that wait."""
    # Their vectors stay: a factor of 0 ends the terms.
    for n in range(MOST_TERMS):
        matrix[-1, n] = 0.0


@jit
def term_products(matrix: FloatArray, x: FloatArray) -> FloatArray:
    """Return u'x of each term that waits: x `(d,)`."""
    products = np.empty(count_terms(matrix))
    for n in range(products.shape[0]):
        products[n] = dot(matrix[matrix.shape[1] + n], x)
    return products


@jit
def add_terms_product(matrix: FloatArray, x: FloatArray, out: FloatArray) -> None:
    """Add (M - M0) x to `out (d,)`."""
    products = term_products(matrix, x)
    dim = matrix.shape[1]
    for n in range(products.shape[0]):
        products[n] *= matrix[-1, n]
    add_product(products, matrix[dim : dim + products.shape[0]], out)


@jit
def terms_quadratic(matrix: FloatArray, x: FloatArray) -> float:
    """Return x' (M - M0) x."""
    products = term_products(matrix, x)
    total = 0.0
    for n in range(products.shape[0]):
        total += matrix[-1, n] * products[n] * products[n]
    return total
