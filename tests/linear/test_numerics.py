"""Ridge models in bad conditions, against exact arithmetic with fractions."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from zoosim.core.jit import jit
from zoosim.core.limits import CONDITION
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import dot, nonzeros
from zoosim.linear.ridge import Ridge, new_ridge, observe, variance

Matrix = list[list[Fraction]]
TOLERANCE = 1e-8


def sums(xs: FloatArray, rewards: FloatArray, regularization: float) -> tuple[Matrix, list[Fraction]]:
    """Return A and b as exact fractions."""
    rows, dim = [[Fraction(v) for v in x] for x in xs.tolist()], xs.shape[1]
    a = [[sum((x[i] * x[j] for x in rows), Fraction(0)) for j in range(dim)] for i in range(dim)]
    for i in range(dim):
        a[i][i] += Fraction(regularization)
    return a, [
        sum((x[i] * Fraction(r) for x, r in zip(rows, rewards.tolist(), strict=True)), Fraction(0)) for i in range(dim)
    ]


def solved(a: Matrix, right: Matrix) -> Matrix:
    """Return A^-1 right by Gauss and Jordan."""
    rows = [[*left, *more] for left, more in zip(a, right, strict=True)]
    for i, pivot in enumerate(rows):
        rows[i] = pivot = [value / pivot[i] for value in pivot]
        for k, row in enumerate(rows):
            if k != i and row[i]:
                rows[k] = [value - row[i] * p for value, p in zip(row, pivot, strict=True)]
    return [row[len(a) :] for row in rows]


def check(ridge: Ridge, xs: FloatArray, rewards: FloatArray, asked: FloatArray, *, cancelled: bool = True) -> None:
    """Compare theta, scores and bonuses with exact ones, each relative: theta to its largest entry.

    A score is compared with itself, also where its terms cancelled up to 4 digits, or else with |theta| |x|.
    """
    dim = xs.shape[1]
    a, b = sums(xs, rewards, ridge.regularization)
    identity = [[Fraction(i == j) for j in range(dim)] for i in range(dim)]
    answer = solved(a, [[*row, value] for row, value in zip(identity, b, strict=True)])
    inverse, theta = [row[:dim] for row in answer], [row[dim] for row in answer]
    expected = np.array([float(value) for value in theta])
    assert np.abs(ridge.theta[0] - expected).max() <= TOLERANCE * np.abs(expected).max()
    for x in asked:
        parts = [Fraction(v) for v in x.tolist()]
        score = float(sum(p * t for p, t in zip(parts, theta, strict=True)))
        terms = float(sum(abs(p * t) for p, t in zip(parts, theta, strict=True)))
        scale = max(abs(score), 1e-4 * terms) if cancelled else float(np.linalg.norm(expected) * np.linalg.norm(x))
        assert abs(dot(ridge.theta[0], x) - score) <= TOLERANCE * scale
        bonus = float(sum(parts[i] * inverse[i][j] * parts[j] for i in range(dim) for j in range(dim))) ** 0.5
        assert abs(variance(ridge, 0, x, nonzeros(x)) ** 0.5 - bonus) <= TOLERANCE * bonus


def seen(xs: FloatArray, rewards: FloatArray, regularization: float = 1.0) -> Ridge:
    ridge = new_ridge(1, xs.shape[1], regularization)
    for x, reward in zip(xs, rewards, strict=True):
        observe(ridge, 0, x, nonzeros(x), float(reward))
    return ridge


def scaled(rng: np.random.Generator, n: int, dim: int, spread: float) -> FloatArray:
    """Return columns of very different scales."""
    return np.asarray(rng.normal(size=(n, dim)) * np.logspace(0, np.log10(spread) / 2, dim) / np.sqrt(n))


def turned(rng: np.random.Generator, n: int, dim: int, spread: float) -> FloatArray:
    """Return the same, turned: no scale of a feature can mend it."""
    return np.asarray(scaled(rng, n, dim, spread) @ np.linalg.qr(rng.normal(size=(dim, dim)))[0])


def jumping(rng: np.random.Generator, n: int, dim: int, spread: float) -> FloatArray:
    """Return rows of a common scale, after which one comes that is far larger."""
    xs = rng.normal(size=(n, dim)) / np.sqrt(n)
    xs[n // 2] *= np.sqrt(spread * n / dim)
    return np.asarray(xs)


@pytest.mark.parametrize("n", [20, 70, 150])
@pytest.mark.parametrize("spread", [1e4, 1e5, 1e6, 1e7])
@pytest.mark.parametrize("rows", [scaled, turned, jumping])
def test_to_a_condition_of_1e7_eight_digits_are_right(
    rows: Callable[[np.random.Generator, int, int, float], FloatArray], spread: float, n: int
) -> None:
    """At 1e7 scores are right to 8 digits of |theta| |x|: rounding of A alone costs those that cancel more digits."""
    rng = np.random.default_rng([n, int(np.log10(spread))])
    xs, rewards = rows(rng, n, 5, spread), rng.integers(0, 2, n).astype(np.float64)
    ridge = seen(xs, rewards)
    check(ridge, xs, rewards, np.vstack([xs[-8:], rng.normal(size=(4, 5)), np.eye(5)]), cancelled=spread < 1e7)
    assert spread / 1e3 < np.linalg.cond(xs.T @ xs + np.eye(5)) < 20 * spread


def test_the_check_finds_lost_digits() -> None:
    """A model of condition 1e10 that numpy solved in double precision does not pass."""
    rng = np.random.default_rng([70, 10])
    xs, rewards = turned(rng, 70, 5, 1e10), rng.integers(0, 2, 70).astype(np.float64)
    plain = new_ridge(1, 5)
    plain.inverse[0] = np.linalg.inv(xs.T @ xs + np.eye(5))
    plain.theta[0] = plain.inverse[0] @ xs.T @ rewards
    with pytest.raises(AssertionError):
        check(plain, xs, rewards, xs[-8:])


@pytest.mark.parametrize("spread", [1.0, 1e7])
def test_what_fades_fades_exactly(spread: float) -> None:
    """150 visits at discount 0.98: a stair of 64, as ever."""
    rng, discount = np.random.default_rng(3), 0.98
    xs, rewards = turned(rng, 150, 4, spread), rng.integers(0, 2, 150).astype(np.float64)
    ridge = new_ridge(1, 4, 1.0, discount)
    for x, reward in zip(xs, rewards, strict=True):
        observe(ridge, 0, x, nonzeros(x), float(reward))
    keep = np.sqrt(discount ** (64.0 * (150 // 64 - np.arange(150) // 64)))
    check(ridge, xs * keep[:, None], rewards * keep, rng.normal(size=(4, 4)))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_million_updates_with_discount(scale: float) -> None:
    """Rows that come again and again, some of nothing but zeros: sums and posterior as if computed at once."""
    rng, discount, n, period = np.random.default_rng(1), 1 - 1e-4, 1_000_000, 64
    distinct = rng.normal(size=(7, 4)) * scale
    distinct[0] = 0.0
    order, ridge = rng.integers(0, 7, n), new_ridge(1, 4, 1.0, discount)
    _observe_all(ridge, distinct, order)
    weights = discount ** (period * (n // period - np.arange(n) // period).astype(float))
    counts = np.bincount(order, weights, minlength=7)
    root = np.sqrt(counts)[:, None]
    check(ridge, distinct * root, root[:, 0] * (np.arange(7) % 2), distinct[1:])


@jit
def _observe_all(ridge: Ridge, rows: FloatArray, order: IntArray) -> None:
    for n in range(order.shape[0]):
        x = rows[order[n]]
        observe(ridge, 0, x, nonzeros(x), float(order[n] % 2))


@pytest.mark.parametrize(("scale", "rtol"), [(1e-6, 1e-12), (1.0, 1e-12), (30.0, TOLERANCE)])
def test_one_row_again_and_again(scale: float, rtol: float) -> None:
    """At a scale of 30 the condition number is 1e7 in the end."""
    x, n = np.array([3.0, 0.0, -1.0, 0.5]) * scale, 1_000
    ridge = seen(np.tile(x, (n, 1)), np.full(n, 0.5))
    length = x @ x
    assert variance(ridge, 0, x, nonzeros(x)) == pytest.approx(length / (1 + n * length), rel=1e-10)
    np.testing.assert_allclose(ridge.theta[0], 0.5 * n * x / (1 + n * length), rtol=rtol)
    beside = np.array([1.0, 7.0, 3.0, 0.0])
    assert variance(ridge, 0, beside, nonzeros(beside)) == pytest.approx(59.0, rel=1e-9)  # it is orthogonal to x


@pytest.mark.parametrize("discount", [1.0, 0.99])
@pytest.mark.parametrize("spread", [1e14, 1e20, 1e30])
@pytest.mark.parametrize("rows", [scaled, turned, jumping])
def test_beyond_it_scores_are_finite_and_bonuses_not_negative(
    rows: Callable[[np.random.Generator, int, int, float], FloatArray], spread: float, discount: float
) -> None:
    rng = np.random.default_rng(9)
    xs, ridge = rows(rng, 300, 5, spread), new_ridge(1, 5, 1.0, discount)
    for x in xs:
        observe(ridge, 0, x, nonzeros(x), 1.0)
        for asked in (x, np.ones(5)):
            assert np.isfinite(dot(ridge.theta[0], asked))
            assert 0.0 <= variance(ridge, 0, asked, nonzeros(asked)) < np.inf
    assert CONDITION < ridge.condition[0] == ridge.condition[-1] < np.inf
