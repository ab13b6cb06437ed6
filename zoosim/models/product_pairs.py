"""Sums over pairs of products' features, which a posterior of coefficients by features is made of.

Of products z `(K, r)` and symmetric matrices G `(K, q, q)` one needs the sum of G_k (x) z_k z_k' over products, and of
symmetric matrices C of all pairs the quadratic forms z_k' C z_k. In both, q (q + 1) / 2 numbers stand for a matrix.
"""

import functools
from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray

MANY_PRODUCTS = 1_000
"""Products from which on it pays to look for a sparse form."""

GAIN = 8
"""How many times as many pairs the dense form must have as the sparse one."""

MOST_BYTES = 100_000_000
"""Of one sum over all pairs of the columns of a sparse form."""

MOSTLY = 0.5
"""Share of products in which a column must be 0 to count as sparse."""


class SparseProducts(NamedTuple):
    """Products' features as few numbers each: `z = x @ basis`, x having m columns, the first of which is 1.

    Of product k, x has `values[starts[k] : starts[k + 1]]` in the columns of the same places, in their order.
    """

    starts: IntArray
    columns: IntArray
    values: FloatArray
    basis: FloatArray


def sparse_products(
    products: FloatArray, centre: FloatArray, weights: FloatArray, n_visitor_columns: int
) -> SparseProducts | None:
    """Return the sparse form of [1, (x - centre) weights], None where it would save little or take much memory.

    Such as of one-hot features: of a category, a brand and a price, 10 pairs are not 0, of however many.

    Args:
        products: Features x `(K, d)`.
        centre: What is taken off them `(d,)`.
        weights: By which they are mixed `(d, p)`.
        n_visitor_columns: q, the visitors' features of a coefficient each.
    """
    n_products, d = products.shape
    r = 1 + weights.shape[1]
    n_matrix = n_visitor_columns * (n_visitor_columns + 1) // 2
    if n_products <= MANY_PRODUCTS or 8 * n_matrix * (1 + d) ** 2 > MOST_BYTES:
        return None
    # Numbers are centred, as sums of squares of what lies far from 0 round away what products differ in.
    is_sparse = (products == 0.0).mean(axis=0) > MOSTLY
    moved = np.where(is_sparse, 0.0, centre)
    unit = np.where(is_sparse, 1.0, products.std(axis=0))
    unit[unit == 0.0] = 1.0
    raw = np.hstack([np.ones((n_products, 1)), (products - moved) / unit])
    basis = np.zeros((1 + d, r))
    basis[0, 0] = 1.0
    basis[0, 1:] = (moved - centre) @ weights
    basis[1:, 1:] = unit[:, None] * weights
    rows, columns = np.nonzero(raw)
    counts = np.bincount(rows, minlength=n_products)
    if GAIN * int((counts * (counts + 1)).sum()) > n_products * r * (r + 1):
        return None
    return SparseProducts(np.append(0, np.cumsum(counts)), columns, raw[rows, columns], basis)


def sum_pairs(products: SparseProducts, chosen: IntArray, matrices: FloatArray, total: FloatArray) -> None:
    """Add G_k (x) x_k x_k' of the `chosen` products `(B,)`, G being `matrices (B, q (q + 1) / 2)`.

    Args:
        products: All products.
        chosen: Their numbers.
        matrices: The upper halves of G.
        total: Where it is added `(m, m, q (q + 1) / 2)`: to the columns a <= b alone.
    """
    _sum_pairs(*products[:3], chosen, matrices, total)


def all_pairs(products: SparseProducts, total: FloatArray) -> FloatArray:
    """Return what `sum_pairs` added up as the sum of G_k (x) z_k z_k', `(q (q + 1) / 2, r, r)`."""
    m = len(total)
    r = products.basis.shape[1]
    upper = np.triu(np.ones((m, m), bool))
    whole = np.where(upper[:, :, None], total, total.transpose(1, 0, 2))
    half = (products.basis.T @ whole.reshape(m, -1)).reshape(r, m, -1)
    return np.asarray(products.basis.T @ half.transpose(2, 1, 0))


def pair_weights(products: SparseProducts, covariance: FloatArray) -> FloatArray:
    """Return the weights of pairs of columns by which z' C z is x' (basis C basis') x.

    Args:
        products: All products.
        covariance: C for each pair of visitors' features `(q (q + 1) / 2, r, r)`, symmetric or not.

    Returns:
        Weights of the columns a <= b, `(m, m, q (q + 1) / 2)`.
    """
    of_columns = products.basis @ covariance @ products.basis.T
    of_columns = of_columns + of_columns.transpose(0, 2, 1)
    diagonal = np.arange(of_columns.shape[1])
    of_columns[:, diagonal, diagonal] /= 2.0  # a column with itself was added twice
    return np.ascontiguousarray(of_columns.transpose(1, 2, 0))


def weigh_pairs(products: SparseProducts, chosen: IntArray, weights: FloatArray) -> FloatArray:
    """Return z_k' C z_k of the `chosen` products, as upper halves `(B, q (q + 1) / 2)`, by `pair_weights`."""
    out = np.zeros((len(chosen), weights.shape[2]))
    _weigh_pairs(*products[:3], chosen, weights, out)
    return out


def dense_pairs(products: FloatArray) -> FloatArray:
    """Return the products of each two features of `products (m, r)`: `(m, r (r + 1) / 2)`."""
    columns = np.ascontiguousarray(products.T)  # so that all loops run along products
    r, m = columns.shape
    pairs = np.empty((r * (r + 1) // 2, m))
    end = 0
    for i in range(r):
        start = end
        end = end + r - i
        np.multiply(columns[i], columns[i:], out=pairs[start:end])
    return pairs.T


@functools.cache
def upper_places(size: int) -> IntArray:
    """Return where the upper half of a matrix `(size, size)` stands among all of its elements."""
    return np.ravel_multi_index(np.triu_indices(size), (size, size))


@functools.cache
def places_in_upper(size: int) -> IntArray:
    """Return where the elements of a symmetric matrix stand among those of its upper half `(size, size)`."""
    places = np.zeros((size, size), np.int64)
    places[np.triu_indices(size)] = np.arange(size * (size + 1) // 2)
    return np.maximum(places, places.T)


@jit
def _sum_pairs(
    starts: IntArray, columns: IntArray, values: FloatArray, chosen: IntArray, matrices: FloatArray, total: FloatArray
) -> None:
    for i in range(chosen.shape[0]):
        start, stop = starts[chosen[i]], starts[chosen[i] + 1]
        for a in range(start, stop):
            for b in range(a, stop):
                weight = values[a] * values[b]
                out = total[columns[a], columns[b]]
                for p in range(out.shape[0]):
                    out[p] += weight * matrices[i, p]


@jit
def _weigh_pairs(
    starts: IntArray, columns: IntArray, values: FloatArray, chosen: IntArray, weights: FloatArray, out: FloatArray
) -> None:
    for i in range(chosen.shape[0]):
        start, stop = starts[chosen[i]], starts[chosen[i] + 1]
        for a in range(start, stop):
            for b in range(a, stop):
                weight = values[a] * values[b]
                row = weights[columns[a], columns[b]]
                for p in range(row.shape[0]):
                    out[i, p] += weight * row[p]
