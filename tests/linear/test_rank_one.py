"""Rank-one terms that wait beside a matrix, and ridge models with them, against numpy."""

import numpy as np
import pytest

from tests.linear.test_ridge import Sums, nonzero_of, relative_error
from zoosim.core.types import FloatArray
from zoosim.linear.rank_one import (
    LARGE,
    MOST_TERMS,
    add_term,
    add_terms_product,
    count_terms,
    drop_terms,
    mirror,
    rows_for_terms,
    settle_terms,
    terms_quadratic,
)
from zoosim.linear.ridge import clear, new_ridge, observe, variance

ROWS = MOST_TERMS + 1


def whole(matrix: FloatArray) -> FloatArray:
    """Return M0 and its terms, added up by numpy from what stands on and left of the diagonal."""
    dim = matrix.shape[1]
    lower = np.tril(matrix[:dim])
    vectors, factors = matrix[dim:-1], matrix[-1, :MOST_TERMS]
    return np.asarray(lower + np.tril(lower, -1).T + (vectors.T * factors) @ vectors)


def test_only_large_matrices_let_terms_wait() -> None:
    assert rows_for_terms(LARGE - 1) == 0
    assert rows_for_terms(LARGE) == ROWS


@pytest.mark.parametrize("dim", [MOST_TERMS, 70])
def test_a_matrix_with_terms_is_their_sum(dim: int) -> None:
    rng = np.random.default_rng(dim)
    start = rng.normal(size=(dim, dim))
    plain = start + start.T
    matrix = np.vstack([plain, np.zeros((ROWS, dim))])
    x = rng.normal(size=dim)
    for n in range(2 * MOST_TERMS + 5):
        factor, vector = (-1.0) ** n * rng.uniform(0.1, 2.0), rng.normal(size=dim)
        add_term(matrix, factor, vector)
        if count_terms(matrix) == 0:
            mirror(matrix)
            assert np.array_equal(matrix[:dim], matrix[:dim].T)
        plain += factor * np.outer(vector, vector)
        assert count_terms(matrix) == (n + 1) % MOST_TERMS
        np.testing.assert_allclose(whole(matrix), plain, rtol=1e-11, atol=1e-11)
        product = matrix[:dim] @ x
        square = x @ product + terms_quadratic(matrix, x)
        add_terms_product(matrix, x, product)
        np.testing.assert_allclose(product, plain @ x, rtol=1e-10, atol=1e-10)
        assert square == pytest.approx(x @ plain @ x, rel=1e-9, abs=1e-9)


def test_settling_and_dropping_terms() -> None:
    # 5 + 2 * 3^2 = 23: once written into the matrix, and once forgotten.
    settled = np.zeros((MOST_TERMS + ROWS, MOST_TERMS))
    settled[0, 0] = 5.0
    add_term(settled, 2.0, 3.0 * np.eye(MOST_TERMS)[0])
    dropped = settled.copy()
    settle_terms(settled)
    drop_terms(dropped)
    assert settled[0, 0] == 23.0
    assert dropped[0, 0] == 5.0
    assert count_terms(settled) == count_terms(dropped) == 0


@pytest.mark.parametrize("discount", [1.0, 0.999])
@pytest.mark.parametrize("dim", [150, 260, 300])
def test_models_with_terms_are_as_numpy_has_them(dim: int, discount: float) -> None:
    """900 observations are 3 to 6 rebuilds; features of very different scales, a condition number of 1e5 or so."""
    rng = np.random.default_rng(dim)
    ridge, sums = new_ridge(1, dim, 0.7, discount, ROWS), Sums(dim, 0.7, discount)
    scales = np.logspace(-1.5, 1, dim)
    for n in range(900):
        x, reward = rng.normal(size=dim) * scales, float(rng.integers(2))
        observe(ridge, 0, x, nonzero_of(x), reward)
        sums.add(x, reward)
        if n % 61 == 60:
            inverse = np.linalg.inv(sums.a)
            assert relative_error(whole(ridge.gram[0]), sums.gram) < 1e-12
            assert relative_error(whole(ridge.inverse[0]), inverse) < 1e-10
            assert relative_error(ridge.theta[0], np.linalg.solve(sums.a, sums.b)) < 1e-9
            assert variance(ridge, 0, x, nonzero_of(x)) == pytest.approx(x @ inverse @ x, rel=1e-9)
            assert ridge.age[0] == sums.seen % dim


def exact_solution(a: np.ndarray, right: np.ndarray) -> FloatArray:
    """Return a^-1 right by refinement in extended precision, right to the last digits of a double."""
    solution = np.zeros(right.shape, np.longdouble)
    for _ in range(5):
        residual = right - a @ solution
        solution += np.linalg.solve(a.astype(np.float64), residual.astype(np.float64))
    return solution.astype(np.float64)


@pytest.mark.parametrize("spread", [1e4, 1e7])
def test_eight_digits_are_right_to_a_condition_of_1e7(spread: float) -> None:
    """Features that are turned, so that no scale of one can mend it; theta relative to its largest entry."""
    rng, dim, n = np.random.default_rng(3), 150, 1_200
    turn = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    xs = rng.normal(size=(n, dim)) * np.logspace(0, np.log10(spread) / 2, dim) / np.sqrt(n) @ turn
    rewards = rng.integers(0, 2, n).astype(np.float64)
    ridge = new_ridge(1, dim, 1.0, 1.0, ROWS)
    for i in range(n):
        observe(ridge, 0, xs[i], nonzero_of(xs[i]), rewards[i])
        if i % 300 == 280 or i == n - 1:
            seen = xs[: i + 1].astype(np.longdouble)
            a = seen.T @ seen + np.eye(dim)
            theta = exact_solution(a, seen.T @ rewards[: i + 1])
            assert np.abs(ridge.theta[0] - theta).max() < 1e-8 * np.abs(theta).max()
            for x in (xs[i], rng.normal(size=dim)):
                square = x @ exact_solution(a, x.astype(np.longdouble))
                assert np.sqrt(variance(ridge, 0, x, nonzero_of(x))) == pytest.approx(np.sqrt(square), rel=1e-8)
    assert spread / 20 < np.linalg.cond(a.astype(np.float64)) < 20 * spread


def test_what_is_cleared_is_forgotten() -> None:
    rng, dim = np.random.default_rng(4), 40
    ridge, sums = new_ridge(1, dim, 1.0, 1.0, ROWS), Sums(dim, 1.0, 1.0)
    for x in rng.normal(size=(200, dim)):
        observe(ridge, 0, x, nonzero_of(x), 1.0)
        sums.add(x, 1.0)
    assert relative_error(whole(ridge.inverse[0]), np.linalg.inv(sums.a)) < 1e-10
    assert relative_error(whole(ridge.gram[0]), sums.gram) < 1e-12
    assert relative_error(ridge.theta[0], np.linalg.solve(sums.a, sums.b)) < 1e-9
    assert count_terms(ridge.inverse[0]) > 0
    clear(ridge, 0)
    assert np.array_equal(ridge.inverse[0], np.eye(dim + ROWS, dim))
    assert not ridge.gram.any()
