"""Bayesian logistic regression against plain numpy: the step, the halving, what is absorbed, and draws."""

from typing import NamedTuple

import numpy as np
import pytest

from zoosim.core.types import FloatArray
from zoosim.linear.logistic import (
    Logistic,
    absorb,
    add_curvature,
    chance,
    draw_weights,
    log_posterior,
    new_logistic,
    newton_step,
)


class Data(NamedTuple):
    """Examples."""

    rows: FloatArray
    happened: FloatArray
    weights: FloatArray


def data(n: int, d: int, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    return Data(rng.normal(size=(n, d)), (rng.random(n) < 0.4).astype(float), rng.uniform(0.1, 1.0, n))


def prior(d: int, seed: int = 1) -> Logistic:
    rng = np.random.default_rng(seed)
    return new_logistic(rng.normal(size=d), rng.uniform(0.3, 2.0, d))


def plain_terms(model: Logistic, at: FloatArray, found: Data) -> tuple[float, FloatArray, FloatArray]:
    """Return the log posterior but for a constant, its gradient and its negated Hessian."""
    p = 1 / (1 + np.exp(-found.rows @ at))
    off = at - model.prior_mean
    likelihood = found.weights @ np.where(found.happened > 0, np.log(p), np.log(1 - p))
    value = float(likelihood - 0.5 * off @ model.prior_precision @ off)
    slope = found.rows.T @ (found.weights * (found.happened - p)) - model.prior_precision @ off
    bent = (found.rows.T * (found.weights * p * (1 - p))) @ found.rows + model.prior_precision
    return value, slope, bent


def test_chances_by_hand_and_where_they_are_cut() -> None:
    assert chance(0.0) == 0.5
    assert chance(np.log(3.0)) == pytest.approx(0.75)
    assert chance(1e6) == chance(30.0) < 1.0
    assert chance(-1e6) == chance(-30.0) > 0.0


def test_a_new_posterior_is_its_prior() -> None:
    model = new_logistic(np.array([1.0, -2.0]), np.array([0.5, 2.0]))
    np.testing.assert_array_equal(model.mean, [1.0, -2.0])
    np.testing.assert_array_equal(model.root @ model.root.T, np.diag([4.0, 0.25]))
    np.testing.assert_array_equal(model.prior_precision, np.diag([4.0, 0.25]))
    assert model.mean is not model.prior_mean


@pytest.mark.parametrize("n", range(10))
def test_curvature_at_every_prefix(n: int) -> None:
    """Rows are taken four at once: every remainder, and none at all."""
    found, model = data(n, 5), prior(5)
    slope, matrix = np.zeros(5), np.zeros((5, 5))
    add_curvature(model.mean, *found, slope, matrix)
    value, plain_slope, bent = plain_terms(model, model.mean, found)
    np.testing.assert_allclose(slope, plain_slope, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(np.tril(matrix), np.tril(bent - model.prior_precision), rtol=1e-12, atol=1e-14)
    assert log_posterior(model.mean, model, *found) == pytest.approx(value, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, 13, 40])
def test_a_step_is_newtons_and_the_root_is_of_where_it_began(n: int) -> None:
    found, model = data(n, 4), prior(4)
    _, slope, bent = plain_terms(model, model.mean, found)
    expected = model.mean + np.linalg.solve(bent, slope)
    newton_step(model, *found)
    np.testing.assert_allclose(model.mean, expected, rtol=1e-10)
    np.testing.assert_allclose(model.root @ model.root.T, bent, rtol=1e-10)
    np.testing.assert_array_equal(model.root, np.tril(model.root))


def test_steps_end_at_the_mode() -> None:
    """There the gradient is 0; 60 examples, 6 weights."""
    found, model = data(60, 6), prior(6)
    for _ in range(12):
        newton_step(model, *found)
    _, slope, bent = plain_terms(model, model.mean, found)
    assert np.abs(slope).max() < 1e-9
    np.testing.assert_allclose(model.root @ model.root.T, bent, rtol=1e-9)


def test_a_step_that_leads_too_far_is_halved() -> None:
    """Where the curve is flat, a whole step of Newton's method throws the weight far beyond the mode."""
    found = Data(np.ones((2, 1)), np.array([0.0, 1.0]), np.array([50.0, 15.0]))
    model = new_logistic(np.array([4.0]), np.array([10.0]))
    start, slope, bent = plain_terms(model, model.mean, found)
    step = slope / bent[0]
    assert plain_terms(model, model.mean + step, found)[0] < start - 10.0, "a whole step must lead away here"
    newton_step(model, *found)
    share = float((model.mean[0] - 4.0) / step[0])
    assert share == pytest.approx(0.25)
    assert plain_terms(model, model.mean, found)[0] > start
    assert plain_terms(model, 4.0 + 0.5 * step, found)[0] < start, "it is halved no more often than it must be"


def test_an_example_weighs_what_its_weight_says() -> None:
    found, model, other = data(9, 3), prior(3), prior(3)
    doubled = Data(np.tile(found.rows, (2, 1)), np.tile(found.happened, 2), np.tile(found.weights / 2, 2))
    newton_step(model, *found)
    newton_step(other, *doubled)
    np.testing.assert_allclose(other.mean, model.mean, rtol=1e-12)


def test_what_is_absorbed_has_the_same_slope_and_curvature_where_it_was() -> None:
    found, model = data(30, 4), prior(4)
    newton_step(model, *found)
    mean, root = model.mean.copy(), model.root.copy()
    _, slope, bent = plain_terms(model, mean, found)
    absorb(model, *found)
    np.testing.assert_allclose(model.prior_precision, bent, rtol=1e-10)
    np.testing.assert_array_equal(model.prior_precision, model.prior_precision.T)
    np.testing.assert_allclose(model.prior_precision @ (model.prior_mean - mean), slope, rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(model.mean, mean)
    np.testing.assert_array_equal(model.root, root)


def test_a_mode_stays_the_mode_when_its_examples_are_absorbed() -> None:
    found, model = data(40, 3), prior(3)
    for _ in range(12):
        newton_step(model, *found)
    before = model.mean.copy()
    absorb(model, *found)
    newton_step(model, np.empty((0, 3)), np.empty(0), np.empty(0))
    np.testing.assert_allclose(model.mean, before, rtol=1e-9)


def test_draws_by_hand() -> None:
    """L = [[2, 0], [1, 4]]: L' s = (1, 2) gives s = (.25, .5)."""
    model = new_logistic(np.array([1.0, 1.0]), np.ones(2))
    model.root[:] = [[2.0, 0.0], [1.0, 4.0]]
    np.testing.assert_allclose(draw_weights(model, np.array([1.0, 2.0]), 1.0), [1.25, 1.5])
    np.testing.assert_allclose(draw_weights(model, np.array([1.0, 2.0]), 0.5), [1.125, 1.25])
    np.testing.assert_array_equal(draw_weights(model, np.array([1.0, 2.0]), 0.0), model.mean)


def test_draws_have_the_covariance_of_the_posterior() -> None:
    """Draws of the unit normals have covariance root^-T root^-1, exactly."""
    found, model = data(25, 4), prior(4)
    newton_step(model, *found)
    steps = np.array([draw_weights(model, unit, 1.0) - model.mean for unit in np.eye(4)])
    np.testing.assert_allclose(steps.T @ steps, np.linalg.inv(model.root @ model.root.T), rtol=1e-9, atol=1e-12)
