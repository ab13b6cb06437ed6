"""Fitted Q evaluation by a network: what a linear model cannot tell of visitors."""

import numpy as np

from zoosim.logs.lives import Lives
from zoosim.off_policy.estimators.lives import life_rows
from zoosim.off_policy.models.life_values import Choices, LinearValues
from zoosim.off_policy.models.network_values import network_terms


def test_a_network_finds_values_that_are_not_linear() -> None:
    """Visitors of two decisions click on product 1 where |x| < .5, on product 0 elsewhere; the policy knows it.

    A new one brings 2 under the policy, 1 under the log's choices by chance.
    """
    rng = np.random.default_rng(0)
    n = 2_000
    visitor = np.repeat(np.arange(n), 2)
    step = np.tile([0, 1], n)
    rows = life_rows(Lives(visitor, np.zeros_like(visitor), step, step == 1, np.zeros(2 * n, bool)))
    x = rng.uniform(-1.0, 1.0, 2 * n)
    right = (np.abs(x) < 0.5).astype(int)
    shown = rng.integers(2, size=2 * n)
    features = np.array([[1.0, 0.0], [1.0, 1.0]])
    choices = Choices(np.column_stack([np.ones(2 * n), x]), features[shown], features[right])
    linear = LinearValues(rows, choices, visitor % 2)
    rewards = (shown == right).astype(float)
    by_line = linear.terms(rewards)
    by_network = network_terms(linear, rewards)
    assert abs(by_line.value - 2.0) > 10.0 * by_line.base.std() / np.sqrt(n)
    assert abs(by_network.value - 2.0) < 0.1
    assert 0.0 < by_network.base.std() / np.sqrt(n) < 0.05
