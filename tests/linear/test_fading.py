"""Fading by visits, against models that are made anew of what they should hold."""

import numpy as np
import pytest

from zoosim.core.types import FloatArray
from zoosim.linear.dense import nonzeros
from zoosim.linear.ridge import Ridge, fade, new_ridge, observe


def must_hold(ridge: Ridge, model: int, xs: FloatArray, rewards: FloatArray, weights: FloatArray) -> None:
    """Check a model against the sums of weighted observations."""
    gram, b = (xs.T * weights) @ xs, xs.T @ (weights * rewards)
    inverse = np.linalg.inv(gram + ridge.regularization * np.eye(len(b)))
    np.testing.assert_allclose(ridge.gram[model], gram, atol=1e-10)
    np.testing.assert_allclose(ridge.inverse[model], inverse, atol=1e-10 * np.abs(inverse).max())
    np.testing.assert_allclose(ridge.theta[model], inverse @ b, atol=1e-9)


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
