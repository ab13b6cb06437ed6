"""Joint features, what one visitor sees of their models, and the bounds and draws made of it, against plain numpy."""

import numpy as np
import pytest

from zoosim.core.types import FloatArray
from zoosim.linear.dense import nonzeros
from zoosim.linear.joint import contract, joint
from zoosim.linear.posterior import bounds, draws, root
from zoosim.linear.rank_one import MOST_TERMS, count_terms
from zoosim.linear.ridge import Ridge, new_ridge, observe, variance

ROWS = MOST_TERMS + 1
"""Rows of a matrix with terms that wait."""


def seen(rng: np.random.Generator, width: int, more_rows: int = 0) -> tuple[Ridge, FloatArray]:
    """Return a ridge of two models that has seen 40 joint features, and one left-hand side."""
    ridge = new_ridge(2, 4 * width, more_rows=more_rows)
    for _ in range(40):
        x = joint(np.append(1.0, rng.normal(size=3)), np.append(1.0, rng.normal(size=width - 1)))
        observe(ridge, 1, x, nonzeros(x), rng.random())
    return ridge, np.array([1.0, 0.5, 0.0, -2.0])


def view(ridge: Ridge, left: FloatArray, width: int) -> tuple[FloatArray, FloatArray]:
    mean, spread = np.zeros(width), np.zeros((width, width))
    contract(ridge, ridge, 1, left, nonzeros(left), mean, spread)
    return mean, spread


def test_joint_features_of_hand_sized_numbers() -> None:
    # (1, 2) (x) (1, 3) = (1, 3, 2, 6), and the constant is left out.
    assert joint(np.array([1.0, 2.0]), np.array([1.0, 3.0])).tolist() == [0, 3, 2, 6]
    assert joint(np.array([5.0, 0.0, 2.0]), np.array([1.0])).tolist() == [5, 0, 2]


@pytest.mark.parametrize("user", [[0.5, 0.0, -2.0], [0.0, 0.0, -2.0]], ids=["dense", "sparse"])
@pytest.mark.parametrize(("width", "more_rows"), [(2, 0), (3, 0), (6, 0), (8, ROWS), (11, ROWS)])
def test_what_one_left_sees_is_the_whole_model(width: int, user: list[float], more_rows: int) -> None:
    rng = np.random.default_rng(width)
    ridge, _ = seen(rng, width, more_rows)
    assert count_terms(ridge.inverse[1]) == (40 % MOST_TERMS if more_rows else 0)
    left = np.append(1.0, user)
    mean, spread = view(ridge, left, width)
    for _ in range(5):
        right = np.append(1.0, rng.normal(size=width - 1))
        x = joint(left, right)
        assert mean @ right == pytest.approx(ridge.theta[1] @ x, rel=1e-12)
        assert right @ spread @ right == pytest.approx(variance(ridge, 1, x, nonzeros(x)), rel=1e-12)


@pytest.mark.parametrize("rank", [0, 1, 3, 5])
def test_the_root_of_a_singular_matrix(rank: int) -> None:
    half = np.random.default_rng(rank).normal(size=(5, rank))
    matrix = half @ half.T
    factor = matrix.copy()
    root(factor)
    np.testing.assert_allclose(factor @ factor.T, matrix, atol=1e-6 * max(1.0, np.abs(matrix).max()))
    assert not np.triu(factor, 1).any()


@pytest.mark.parametrize("dense", [True, False])
def test_bounds_are_those_of_linucb(dense: bool) -> None:
    rng = np.random.default_rng(1)
    ridge, left = seen(rng, 3)
    mean, spread = view(ridge, left, 3)
    rows, out = np.hstack([np.ones((4, 1)), rng.normal(size=(4, 2))]), np.empty(4)
    bounds(mean, spread, rows, dense, 0.7, out)
    xs = np.array([joint(left, row) for row in rows])
    expected = xs @ ridge.theta[1] + 0.7 * np.sqrt(np.einsum("ri,ij,rj->r", xs, ridge.inverse[1], xs))
    np.testing.assert_allclose(out, expected, rtol=1e-12)


def test_draws_have_the_mean_and_the_covariance_of_the_posterior() -> None:
    """20,000 draws, key 7: within 5 standard errors; twice the width must not pass for it."""
    rng, n, alpha = np.random.default_rng(3), 20_000, 0.5
    ridge, left = seen(rng, 3)
    mean, spread = view(ridge, left, 3)
    factor = spread.copy()
    root(factor)
    rows, out, taken = np.hstack([np.ones((2, 1)), rng.normal(size=(2, 2))]), np.empty(2), np.empty((n, 2))
    for i in range(n):
        draws(mean, factor, rows, alpha, np.uint64(7), i, 0, out)
        taken[i] = out
    wanted = rows @ (alpha**2 * spread) @ rows.T
    error = np.abs(np.cov(taken.T) - wanted) / np.sqrt((np.outer(np.diag(wanted), np.diag(wanted)) + wanted**2) / n)
    assert np.abs(taken.mean(axis=0) - rows @ mean).max() < 5 * np.sqrt(np.diag(wanted).max() / n)
    assert error.max() < 5
    assert (3 * np.diag(wanted) / np.sqrt(2 * np.diag(wanted) ** 2 / n)).min() > 5, "the broken variant would be seen"


def test_draws_of_several_models_use_no_number_twice() -> None:
    """Two models in one decision: their draws are independent (correlation within 5 / sqrt(n))."""
    n, out = 4_000, np.empty(1)
    both = np.empty((n, 2))
    for i in range(n):
        j = 0
        for v in range(2):
            j = draws(np.zeros(1), np.ones((1, 1)), np.ones((1, 1)), 1.0, np.uint64(1), i, j, out)
            both[i, v] = out[0]
    assert abs(np.corrcoef(both, rowvar=False).min()) < 5 / np.sqrt(n)
