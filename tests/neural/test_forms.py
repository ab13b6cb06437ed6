"""All forms against A itself in numpy: means and variances at every prefix of a history."""

from typing import Any

import numpy as np
import pytest

from benchmarks.plain.neural_forms import Diagonal, Jacobian, jacobian
from zoosim.core.types import FloatArray, IntArray
from zoosim.nets.network import fresh_weights
from zoosim.neural import mlp
from zoosim.neural.dual import Dual
from zoosim.neural.forms import DUAL_UP_TO, FORMS, MAX_ROWS, cheapest, new_form
from zoosim.neural.kernel import column, cross, norm
from zoosim.neural.primal import Primal
from zoosim.neural.rows import RowPosterior

COMPARED: dict[str, Any] = {"jacobian": Jacobian, "diagonal": Diagonal}
NETWORKS = [([4, 7, 5, 1], 0), ([4, 7, 5, 1], 2), ([9, 64, 1], 0), ([9, 64, 1], 1), ([3, 1], 0)]


def factors_of(sizes: IntArray, xs: FloatArray, scale: float = 0.7, seed: int = 0) -> FloatArray:
    params = fresh_weights(mlp.perceptron(sizes), rng=np.random.default_rng(seed))
    out = np.zeros((len(xs), mlp.count_factors(sizes)))
    mlp.factorise_rows(params, mlp.perceptron(sizes), xs, scale, out, np.zeros(len(xs)))
    return out


def gradients(factors: FloatArray, sizes: IntArray, first: int) -> FloatArray:
    return jacobian(factors, sizes)[:, int((sizes[1 : first + 1] * (sizes[:first] + 1)).sum()) :]


class Truth:
    """A and b in full."""

    def __init__(self, g: FloatArray, noise: float) -> None:
        self.g, self.noise = g, noise
        self.a, self.b = noise * np.eye(g.shape[1]), np.zeros(g.shape[1])

    def add(self, row: int, weight: float, total: float) -> None:
        self.a += weight * np.outer(self.g[row], self.g[row])
        self.b += total * self.g[row]

    def posterior(self) -> tuple[FloatArray, FloatArray]:
        solved = np.linalg.solve(self.a, self.g.T).T
        return solved @ self.b, self.noise * (solved * self.g).sum(axis=1)


def must_be_close(got: tuple[FloatArray, FloatArray], expected: tuple[FloatArray, FloatArray], rtol: float) -> None:
    np.testing.assert_allclose(got[1], expected[1], rtol=rtol, atol=0)
    np.testing.assert_allclose(got[0], expected[0], rtol=0, atol=100 * rtol * max(1.0, np.abs(expected[0]).max()))


@pytest.mark.parametrize(("sizes", "first"), NETWORKS, ids=str)
def test_inner_products_are_those_of_the_gradients(sizes: list[int], first: int) -> None:
    shape = np.array(sizes)
    factors = factors_of(shape, np.random.default_rng(1).normal(size=(7, sizes[0])))
    g = gradients(factors, shape, first)
    out = np.zeros((7, 7))
    cross(factors, np.ascontiguousarray(factors.T), shape, first, out)
    np.testing.assert_allclose(out, g @ g.T, rtol=1e-13, atol=1e-14)
    column(factors, factors[2], shape, first, out[0])
    np.testing.assert_allclose(out[0], g @ g[2], rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose([norm(row, shape, first) for row in factors], (g**2).sum(axis=1), rtol=1e-13)


@pytest.mark.parametrize(("sizes", "first"), NETWORKS, ids=str)
def test_exact_forms_follow_the_sums(sizes: list[int], first: int) -> None:
    """20 weighted rows, then 100 single observations of 45 rows; 60 candidates."""
    rng, shape, noise = np.random.default_rng(2), np.array(sizes), 0.3
    factors = factors_of(shape, rng.normal(size=(60, sizes[0])))
    truth = Truth(gradients(factors, shape, first), noise)
    counts, sums = np.zeros((2, 60))
    counts[:20], sums[:20] = 5 * rng.random(20), rng.random(20)
    for row in range(20):
        truth.add(row, counts[row], sums[row])
    rows = RowPosterior(shape, first, noise)
    others: list[Any] = [Dual(shape, first, noise), Primal(shape, first, noise)]
    rows.fit(factors, counts, sums)
    for form in others:
        form.fit(factors[:20], counts[:20], sums[:20])
    for step in range(100):
        row, reward = int(rng.integers(45)), float(rng.random())
        truth.add(row, 1.0, reward)
        counts[row] += 1
        sums[row] += reward
        rows.observe(row, reward, counts, sums)
        for form in others:
            form.observe(factors[row], reward)
        if step % 9 == 0:
            expected = truth.posterior()
            must_be_close(rows.posterior(np.arange(60)), expected, 1e-11)
            for form in others:
                must_be_close(form.posterior(factors), expected, 1e-11)


def test_the_jacobian_form_and_the_diagonal() -> None:
    rng, shape, noise = np.random.default_rng(3), np.array([4, 6, 1]), 0.5
    factors = factors_of(shape, rng.normal(size=(30, 4)))
    truth = Truth(gradients(factors, shape, 0), noise)
    full, diagonal = Jacobian(shape, noise), Diagonal(shape, noise)
    weights, sums = rng.random(10) + 0.1, rng.random(10)
    full.fit(factors[:10], weights, sums)
    diagonal.fit(factors[:10], weights, sums)
    for row in range(10):
        truth.add(row, weights[row], sums[row])
    for row in rng.integers(0, 30, 40):
        truth.add(int(row), 1.0, 0.25)
        full.observe(factors[row], 0.25)
        diagonal.observe(factors[row], 0.25)
    must_be_close(full.posterior(factors), truth.posterior(), 1e-11)
    by_hand = noise * (truth.g**2 / np.diag(truth.a)).sum(axis=1)
    np.testing.assert_allclose(diagonal.posterior(factors)[1], by_hand, rtol=1e-12)


@pytest.mark.parametrize("name", ["rows", "dual", "primal"])
def test_what_was_never_observed_has_its_whole_length_and_no_mean(name: str) -> None:
    shape = np.array([3, 5, 1])
    factors = factors_of(shape, np.random.default_rng(4).normal(size=(6, 3)))
    form: Any = new_form(name, shape, 0, 2.0)
    form.fit(*((factors, *np.zeros((2, 6))) if name == "rows" else (factors[:0], *np.zeros((2, 0)))))
    means, variances = form.posterior(np.arange(6) if name == "rows" else factors)
    assert not means.any()
    np.testing.assert_allclose(variances, [norm(row, shape, 0) for row in factors], rtol=1e-12)


def test_thousands_of_equal_rows() -> None:
    """5,000 observations of one row and 3 of another: the variance of the first is noise / 5,000 to 1e-9 relative.

    lambda g' A^-1 g of a single row observed n times is noise k / (noise + n k), with k = g'g.
    """
    shape, noise, n = np.array([4, 8, 1]), 0.3, 5_000
    factors = factors_of(shape, np.array([[1.0, 0, 0, 1], [0, 1, 1, 0]]))
    kernel = float(norm(factors[0], shape, 0))
    counts, sums = np.zeros((2, 2))
    rows, primal = RowPosterior(shape, 0, noise), Primal(shape, 0, noise)
    rows.fit(factors, counts, sums)
    for step in range(n):
        counts[0] += 1
        sums[0] += step % 2
        rows.observe(0, step % 2, counts, sums)
        primal.observe(factors[0], step % 2)
    for means, variances in (rows.posterior(np.array([0])), primal.posterior(factors[:1])):
        assert variances[0] == pytest.approx(noise * kernel / (noise + n * kernel), rel=1e-9)
        assert means[0] == pytest.approx(0.5 * n * kernel / (noise + n * kernel), rel=1e-9)


@pytest.mark.parametrize("scale", [0.0, 1e-6, 1.0, 1e6])
@pytest.mark.parametrize("name", ["rows", "dual", "primal", *COMPARED])
def test_everything_is_finite_at_any_scale(name: str, scale: float) -> None:
    """Features of 0, tiny and huge ones, each row observed 40 times; no variance is negative."""
    shape = np.array([4, 8, 1])
    factors = factors_of(shape, scale * np.random.default_rng(5).normal(size=(6, 4)), scale=1.0)
    form: Any = COMPARED[name](shape, 0.3) if name in COMPARED else new_form(name, shape, 0, 0.3)
    counts, sums = np.zeros((2, 6))
    form.fit(*((factors, counts, sums) if name == "rows" else (factors[:0], *np.zeros((2, 0)))))
    for step in range(240):
        row = step % 6
        counts[row] += 1
        sums[row] += 1
        form.observe(*((row, 1.0, counts, sums) if name == "rows" else (factors[row], 1.0)))
    means, variances = form.posterior(np.arange(6) if name == "rows" else factors)
    assert np.isfinite(means).all()
    assert np.isfinite(variances).all()
    assert (variances >= 0).all()


def test_the_cheapest_form() -> None:
    """Rows while there are few, dual while the history is short, primal then; the last layer by its own size."""
    assert cheapest("auto", 705, 20, 10_000, True) == "rows"
    assert cheapest("auto", 705, MAX_ROWS + 1, 100, True) == "dual"
    assert cheapest("auto", 65, 66, 50, True) == "dual"
    assert cheapest("last-layer", 65, 66, 60, True) == "primal"
    assert cheapest("auto", 705, 20, 100, False) == "dual"
    assert cheapest("auto", 9_601, 20, int(DUAL_UP_TO * 9_601), False) == "dual"
    assert cheapest("auto", 705, 20, 705, False) == "primal"
    assert [cheapest(form, 705, 20, 705, True) for form in FORMS if form not in ("auto", "last-layer")] == [
        "rows",
        "dual",
        "primal",
    ]
