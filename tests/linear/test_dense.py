"""Products of vectors and matrices against numpy, at every length that the unrolled loops treat differently."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from zoosim.linear.dense import BLOCK, add_product, bound_of_forms, dot, quadratic_forms

SIZES = [*range(10), 33]
PRECISIONS = [np.float32, np.float64]


def normal(seed: int, precision: type[np.floating], *shape: int) -> NDArray[np.floating]:
    return np.random.default_rng(seed).normal(0, 1, shape).astype(precision)


def close(got: object, expected: object, size: int, precision: type[np.floating]) -> None:
    """Allow a rounding of each term and sum; the terms are of order 1."""
    allowed = 4 * (size + 1) * float(np.finfo(precision).eps)
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=allowed, atol=4 * allowed)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("rows", SIZES)
def test_add_product_adds_to_what_is_there(rows: int, precision: type[np.floating]) -> None:
    for columns in SIZES:
        x, matrix = normal(1, precision, rows), normal(2, precision, rows, columns)
        start = normal(3, precision, columns)
        out, before = start.copy(), (x.copy(), matrix.copy())
        add_product(x, matrix, out)
        close(out, start.astype(float) + x.astype(float) @ matrix.astype(float), rows, precision)
        assert out.dtype == precision
        assert np.array_equal(x, before[0])
        assert np.array_equal(matrix, before[1])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("rows", SIZES)
def test_each_row_counts_by_itself(rows: int, precision: type[np.floating]) -> None:
    """With one non-zero entry in x the result is that row to the bit: no row is skipped or taken for another."""
    matrix = normal(4, precision, rows, 5)
    for row in range(rows):
        x, out = np.zeros(rows, precision), np.zeros(5, precision)
        x[row] = 2.0
        add_product(x, matrix, out)
        assert np.array_equal(out, 2 * matrix[row])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("rows", SIZES)
def test_rows_with_a_zero_are_not_looked_at(rows: int, precision: type[np.floating]) -> None:
    """Blocks of four and the rest are skipped where x is 0, so even NaN there does no harm."""
    x, matrix = np.zeros(rows, precision), np.full((rows, 3), np.nan, precision)
    out = np.arange(3, dtype=precision)
    add_product(x, matrix, out)
    assert out.tolist() == [0, 1, 2]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("size", SIZES)
def test_dot_is_the_scalar_product(size: int, precision: type[np.floating]) -> None:
    x, y = normal(5, precision, size), normal(6, precision, size)
    close(dot(x, y), math.fsum((x.astype(float) * y.astype(float)).tolist()), size, precision)
    for index in range(size):
        one = np.zeros(size, precision)
        one[index] = 1
        assert dot(x, one) == x[index]
    assert dot(x, np.zeros(size, precision)) == 0


def test_dot_sums_in_the_precision_of_its_vectors() -> None:
    """2^24 + 1 has no float32: every lane of the four starts anew, so only the first loses its 1."""
    x = np.array([2.0**24, 0, 0, 0, 1.0], np.float32)
    ones = np.ones(5, np.float32)
    assert dot(x, ones) == 2.0**24
    assert dot(x.astype(np.float64), ones.astype(np.float64)) == 2.0**24 + 1


def test_views_of_other_strides_give_the_same() -> None:
    matrix, x = normal(7, np.float64, 12, 6), normal(8, np.float64, 12)
    plain, strided = np.zeros(3), np.zeros(3)
    add_product(x[::2].copy(), matrix[::2, ::2].copy(), plain)
    add_product(x[::2], matrix[::2, ::2], strided)
    assert np.array_equal(plain, strided)
    assert dot(x[::2], x[1::2]) == dot(x[::2].copy(), x[1::2].copy())


@pytest.mark.parametrize("count", [1, BLOCK, BLOCK + 3])
@pytest.mark.parametrize("dim", SIZES)
def test_a_quadratic_form_adds_columns_in_order(count: int, dim: int) -> None:
    """To the bit, whatever the number of rows and columns: decisions that were logged rest on it."""
    rng = np.random.default_rng(9)
    rows = rng.normal(size=(count, dim))
    matrix = rng.normal(size=(dim, dim))
    matrix += matrix.T
    expected = np.zeros(count)
    for i in range(dim):
        inner = matrix[i, i] * rows[:, i]
        for j in range(i):
            inner += 2.0 * matrix[i, j] * rows[:, j]
        expected += inner * rows[:, i]
    out = np.empty(count)
    quadratic_forms(rows, matrix, out)
    assert np.array_equal(out, expected)
    close(out, np.einsum("ni,ij,nj->n", rows, matrix, rows), dim * dim, np.float64)


@pytest.mark.parametrize("dim", SIZES[1:])
@pytest.mark.parametrize("lowest", [-1.0, 0.0, 1e-9, 1.0])
def test_forms_of_vectors_of_length_1_stay_below_their_bound(dim: int, lowest: float) -> None:
    """By the largest eigenvalue, whatever the others are; and not far below. The upper half is not read."""
    rng = np.random.default_rng(dim)
    axes, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
    eigenvalues = np.linspace(1.0, lowest, dim)
    matrix = (axes * eigenvalues) @ axes.T * 1e6
    out = np.empty(1)
    quadratic_forms(axes[:, :1].T.copy(), matrix, out)
    bound = bound_of_forms(np.tril(matrix))
    assert out[0] <= bound
    assert 1e6 <= bound <= 1e6 * dim ** (1 / 16) * (1.0 + 1e-5)


def test_the_bound_of_zeros_is_zero() -> None:
    assert bound_of_forms(np.zeros((3, 3))) == 0.0
