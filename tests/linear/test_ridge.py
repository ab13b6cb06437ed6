"""Ridge posteriors against numpy at every prefix."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.ridge import MIN_PERIOD, Ridge, invert, new_ridge, observe, quadratic, rebuild

TOLERANCE = 1e-9
"""The largest error of an inverse, as a part of its largest entry."""


class Sums:
    """What a ridge model should hold, kept in the plainest way: data sums that fade in steps, and lambda."""

    def __init__(self, dim: int, regularization: float, discount: float) -> None:
        self.gram, self.b = np.zeros((dim, dim)), np.zeros(dim)
        self.regularization, self.discount, self.period, self.seen = regularization, discount, max(64, dim), 0

    def add(self, x: FloatArray, reward: float) -> None:
        self.gram += np.outer(x, x)
        self.b += reward * x
        self.seen += 1
        if self.seen % self.period == 0:
            self.gram *= self.discount**self.period
            self.b *= self.discount**self.period

    @property
    def a(self) -> FloatArray:
        return self.gram + self.regularization * np.eye(len(self.b))


def nonzero_of(x: FloatArray) -> IntArray:
    return np.flatnonzero(x).astype(np.int64)


def relative_error(got: FloatArray, expected: np.ndarray) -> float:
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def check(ridge: Ridge, model: int, sums: Sums) -> None:
    """Compare everything that a model holds; theta's tolerance grows with the conditioning of A."""
    np.testing.assert_allclose(ridge.gram[model], sums.gram, rtol=1e-12, atol=1e-12 * (1 + np.abs(sums.gram).max()))
    np.testing.assert_allclose(ridge.b[model], sums.b, rtol=1e-12, atol=1e-12 * (1 + np.abs(sums.b).max()))
    assert relative_error(ridge.inverse[model], np.linalg.inv(sums.a)) < TOLERANCE
    theta = np.linalg.solve(sums.a, sums.b)
    allowed = 1e-13 * np.linalg.cond(sums.a) * np.abs(theta).max()
    assert np.abs(ridge.theta[model] - theta).max() <= allowed + 1e-15
    assert ridge.age[model] == sums.seen % sums.period


def dense(rng: np.random.Generator, n: int, dim: int) -> FloatArray:
    return rng.normal(0, 1, (n, dim))


def sparse(rng: np.random.Generator, n: int, dim: int) -> FloatArray:
    """Return rows with a few non-zero entries, some rows with none."""
    return np.asarray(rng.normal(0, 1, (n, dim)) * (rng.random((n, dim)) < min(0.9, 2 / dim)))


def one_hot(rng: np.random.Generator, n: int, dim: int) -> FloatArray:
    """Return rows as the default shop's: a label of the user, a label of the product."""
    half = max(1, dim // 2)
    x = np.eye(dim)[rng.integers(0, half, n)]
    x[np.arange(n), rng.integers(half, dim, n) if dim > half else 0] = 1.0
    return x


@pytest.mark.parametrize("discount", [1.0, 1 - 1 / 8000, 0.97])
@pytest.mark.parametrize("dim", [1, 2, 9, 30, 80])
@pytest.mark.parametrize("rows", [dense, sparse, one_hot])
def test_a_model_is_as_numpy_has_it_after_every_observation(
    rows: Callable[[np.random.Generator, int, int], FloatArray], dim: int, discount: float
) -> None:
    """270 observations are 4 rebuilds of up to 64 features, 3 of 80."""
    rng = np.random.default_rng([dim, int(1000 * discount)])
    ridge, sums = new_ridge(1, dim, 0.7, discount), Sums(dim, 0.7, discount)
    for x, reward in zip(rows(rng, 270, dim), rng.normal(0, 1, 270), strict=True):
        observe(ridge, 0, x, nonzero_of(x), reward)
        sums.add(x, reward)
        check(ridge, 0, sums)


@pytest.mark.parametrize("spread", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("dim", [2, 9, 30])
@pytest.mark.parametrize("small", [False, True], ids=["large features", "small lambda"])
def test_badly_scaled_features_cost_no_accuracy(small: bool, dim: int, spread: float) -> None:
    """Columns scaled so that A's condition number ends at `spread`, with large features or with a small lambda."""
    rng, n = np.random.default_rng([dim, int(spread)]), 300
    top = np.sqrt(spread / n)
    scales = np.logspace(np.log10(top) - 4, np.log10(top), dim) / (top if small else 1.0)
    regularization = 1.0 / top**2 if small else 1.0
    ridge, sums = new_ridge(1, dim, regularization), Sums(dim, regularization, 1.0)
    for x, reward in zip(dense(rng, n, dim) * scales, rng.integers(0, 2, n), strict=True):
        observe(ridge, 0, x, nonzero_of(x), float(reward))
        sums.add(x, float(reward))
        check(ridge, 0, sums)
    assert spread / 4 < np.linalg.cond(sums.a) < 4 * spread


def test_lambda_is_not_discounted() -> None:
    """One product is seen once, then another for ever: what was known of the first fades to the prior, 1 / lambda."""
    ridge, first, second = new_ridge(1, 2, 2.0, 0.9), np.array([1.0, 0.0]), np.array([0.0, 1.0])
    observe(ridge, 0, first, nonzero_of(first), 1.0)
    assert ridge.inverse[0, 0, 0] == pytest.approx(1 / 3)
    for _ in range(20 * MIN_PERIOD):
        observe(ridge, 0, second, nonzero_of(second), 1.0)
    assert ridge.inverse[0, 0, 0] == pytest.approx(1 / 2, abs=1e-15)
    # A geometric series of blocks of 64: at the stair's foot (after 20 rebuilds) D = 64 q / (1 - q), q = .9^64.
    q = 0.9**64
    foot = 64 * q / (1 - q)
    assert ridge.age[0] == 1
    assert ridge.gram[0, 1, 1] == pytest.approx(foot + 1, rel=1e-9)


def test_models_are_independent() -> None:
    rng = np.random.default_rng(5)
    ridge, sums = new_ridge(3, 4, 0.5, 0.99), [Sums(4, 0.5, 0.99) for _ in range(3)]
    for _ in range(400):
        model, x, reward = int(rng.integers(2)), rng.normal(0, 1, 4), float(rng.random())
        before = [array.copy() for array in ridge[:5]]
        observe(ridge, model, x, nonzero_of(x), reward)
        sums[model].add(x, reward)
        for array, old in zip(ridge[:5], before, strict=True):
            others = [other for other in range(3) if other != model]
            assert np.array_equal(array[others], old[others])
    for model in range(3):
        check(ridge, model, sums[model])
    assert np.array_equal(ridge.inverse[2], 2 * np.eye(4))


def test_rebuild_changes_what_rounding_changed_and_no_more() -> None:
    rng = np.random.default_rng(8)
    ridge = new_ridge(1, 6)
    for x in dense(rng, 50, 6):
        observe(ridge, 0, x, nonzero_of(x), 1.0)
    inverse, theta = ridge.inverse.copy(), ridge.theta.copy()
    rebuild(ridge, 0)
    np.testing.assert_allclose(ridge.inverse, inverse, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(ridge.theta, theta, rtol=1e-10, atol=1e-14)
    assert ridge.age[0] == 0


def test_the_same_row_thousands_of_times() -> None:
    """After n rows of x, the inverse is I - n x x' / (1 + n x'x) (Sherman & Morrison), theta is n r x / (1 + n x'x)."""
    x, n = np.array([3.0, -1.0, 0.0, 0.5]), 5_000
    ridge = new_ridge(1, 4)
    for k in range(1, n + 1):
        observe(ridge, 0, x, nonzero_of(x), 0.5)
        if k % 97 == 0 or k == n:
            exact = np.eye(4) - k * np.outer(x, x) / (1 + k * (x @ x))
            assert relative_error(ridge.inverse[0], exact) < 1e-12
            np.testing.assert_allclose(ridge.theta[0], 0.5 * k * x / (1 + k * (x @ x)), rtol=1e-9)
            assert quadratic(ridge.inverse[0], x, nonzero_of(x)) == pytest.approx(x @ x / (1 + k * (x @ x)), rel=1e-7)


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_features_of_zero_teach_nothing(discount: float) -> None:
    ridge, zero = new_ridge(1, 3, 4.0, discount), np.zeros(3)
    for _ in range(2 * MIN_PERIOD + 1):
        observe(ridge, 0, zero, nonzero_of(zero), 1.0)
        np.testing.assert_allclose(ridge.inverse[0], np.eye(3) / 4, rtol=1e-15)
        assert not ridge.theta.any()
        assert not ridge.gram.any()
    assert ridge.age[0] == 1


@pytest.mark.parametrize("dim", [1, 2, 7, 64, 130])
def test_invert_is_numpys_inverse(dim: int) -> None:
    rng = np.random.default_rng(dim)
    x = rng.normal(0, 1, (2 * dim, dim)) * np.logspace(-1, 1, dim)
    a, out = x.T @ x + 0.1 * np.eye(dim), np.empty((dim, dim))
    invert(a.copy(), out)
    assert relative_error(out, np.linalg.inv(a)) < 1e-11
    np.testing.assert_allclose(out @ a, np.eye(dim), atol=1e-9)


def test_invert_of_a_hand_sized_matrix() -> None:
    # [[4, 2], [2, 2]] has determinant 4, so its inverse is [[2, -2], [-2, 4]] / 4.
    out = np.empty((2, 2))
    invert(np.array([[4.0, 2.0], [2.0, 2.0]]), out)
    np.testing.assert_allclose(out, [[0.5, -0.5], [-0.5, 1.0]], rtol=1e-15)


def test_quadratic_of_hand_sized_numbers() -> None:
    # x' M x for x = (1, 0, 2): 1*2 + 2*2*(1*5) + 4*3, whatever stands in the middle.
    matrix = np.array([[2.0, 9.0, 5.0], [9.0, 9.0, 9.0], [5.0, 9.0, 3.0]])
    x = np.array([1.0, 0.0, 2.0])
    assert quadratic(matrix, x, nonzero_of(x)) == 2 + 20 + 12
    assert quadratic(matrix, np.zeros(3), np.zeros(0, np.int64)) == 0.0
    assert quadratic(-matrix, x, nonzero_of(x)) == 0.0, "rounding below zero is no reason for a NaN bonus"


def test_quadratic_is_the_matrix_product() -> None:
    rng = np.random.default_rng(2)
    for x in sparse(rng, 50, 12):
        half = rng.normal(0, 1, (12, 12))
        np.testing.assert_allclose(quadratic(half @ half.T, x, nonzero_of(x)), x @ half @ half.T @ x, rtol=1e-12)


OBSERVATIONS = st.integers(1, 6).flatmap(
    lambda dim: st.tuples(
        st.integers(1, 90).flatmap(
            lambda n: arrays(np.float64, (n, dim), elements=st.floats(-30, 30, allow_subnormal=False))
        ),
        st.floats(0.01, 100),
        st.sampled_from([1.0, 0.999, 0.8]),
    )
)


@settings(max_examples=200, deadline=None)
@given(OBSERVATIONS)
def test_whatever_comes_the_inverse_is_symmetric_positive_definite(
    task: tuple[FloatArray, float, float],
) -> None:
    """Rounding is measured by the prior's 1 / lambda: that is what the inverse has come down from."""
    xs, regularization, discount = task
    ridge = new_ridge(1, xs.shape[1], regularization, discount)
    for x in xs:
        observe(ridge, 0, x, nonzero_of(x), 1.0)
        inverse = ridge.inverse[0]
        np.testing.assert_allclose(inverse, inverse.T, rtol=0, atol=1e-12 / regularization)
        assert np.linalg.eigvalsh((inverse + inverse.T) / 2)[0] > 0
        assert np.isfinite(ridge.theta).all()
        assert quadratic(inverse, x, nonzero_of(x)) >= 0
