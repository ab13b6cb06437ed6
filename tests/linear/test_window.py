"""Sliding windows and fading by visits, against models that are made anew of what they should hold."""

import numpy as np
import pytest

from zoosim.core.types import FloatArray
from zoosim.linear.dense import nonzeros
from zoosim.linear.joint import joint
from zoosim.linear.ridge import Ridge, fade, new_ridge, observe
from zoosim.linear.window import new_window, renew, slide

VISITS = 300


def must_hold(ridge: Ridge, model: int, xs: FloatArray, rewards: FloatArray, weights: FloatArray) -> None:
    """Check a model against the sums of weighted observations."""
    gram, b = (xs.T * weights) @ xs, xs.T @ (weights * rewards)
    inverse = np.linalg.inv(gram + ridge.regularization * np.eye(len(b)))
    np.testing.assert_allclose(ridge.gram[model], gram, atol=1e-10)
    np.testing.assert_allclose(ridge.inverse[model], inverse, atol=1e-10 * np.abs(inverse).max())
    np.testing.assert_allclose(ridge.theta[model], inverse @ b, atol=1e-9)


@pytest.mark.parametrize("size", [1, 7, 100, 1_000])
def test_models_hold_the_last_visits_of_their_segment_and_no_more(size: int) -> None:
    rng = np.random.default_rng(size)
    ridge, window = new_ridge(6, 6, 0.5), new_window(2, size, 3, 2)
    lefts, rights = rng.normal(size=(VISITS, 3)), rng.normal(size=(VISITS, 2)) * (rng.random((VISITS, 2)) < 0.7)
    models, rewards = rng.integers(3, 6, VISITS), rng.random(VISITS)
    xs = np.array([joint(left, right) for left, right in zip(lefts, rights, strict=True)])
    for n in range(VISITS):
        slide(ridge, window, 1, n + 1, lefts[n], rights[n], models[n], rewards[n])
        observe(ridge, models[n], xs[n], nonzeros(xs[n]), rewards[n])
        if (n + 1) % size == 0:
            renew(ridge, window, 1, 3, 3)
        for model in range(3, 6):
            mine = np.flatnonzero(models[: n + 1] == model)
            mine = mine[mine > n - size]
            must_hold(ridge, model, xs[mine], rewards[mine], np.ones(len(mine)))
    assert not ridge.gram[:3].any()


def test_renewing_takes_away_what_rounding_left() -> None:
    """Rows of size 1e6 have left: sums that were only added to and subtracted from would hold nothing but noise."""
    rng, size = np.random.default_rng(0), 50
    ridge, window, kept = new_ridge(1, 3), new_window(1, size, 3, 1), new_ridge(1, 3)
    lefts = rng.normal(size=(4 * size, 3)) * np.where(np.arange(4 * size) < 2 * size, 1e6, 1e-3)[:, None]
    for n, left in enumerate(lefts):
        slide(ridge, window, 0, n + 1, left, np.ones(1), 0, 1.0)
        observe(ridge, 0, left, nonzeros(left), 1.0)
        if (n + 1) % size == 0:
            renew(ridge, window, 0, 0, 1)
    for left in lefts[-size:]:
        observe(kept, 0, left, nonzeros(left), 1.0)
    np.testing.assert_allclose(ridge.gram, kept.gram, rtol=1e-12, atol=1e-18)
    np.testing.assert_allclose(ridge.theta, kept.theta, rtol=1e-9)


@pytest.mark.parametrize("count", [1, 3, 150])
def test_models_fade_by_the_visits_to_all_of_them(count: int) -> None:
    """A stair of 64 visits, each model's own; the one that is never shown again fades just as fast."""
    rng, discount, period = np.random.default_rng(count), 0.99, 64
    ridge, visits = new_ridge(count, 2, 1.0, discount), 500
    models = np.where(
        np.arange(visits) < 200, rng.integers(0, count, visits), rng.integers(0, (count + 1) // 2, visits)
    )
    xs, rewards = rng.normal(size=(visits, 2)), rng.random(visits)
    for n in range(visits):
        fade(ridge, 0, models[n], count, n + 1)
        observe(ridge, models[n], xs[n], nonzeros(xs[n]), rewards[n])
        if n % 37 == 0 or n > visits - 5:
            for model in range(count):
                mine = np.flatnonzero(models[: n + 1] == model)
                turns = (n + 1 - model) // period - (mine - model) // period  # rebuilds at visits model + 64 j
                must_hold(ridge, model, xs[mine], rewards[mine], discount ** (period * turns.astype(float)))
