"""LinUCB with a model per product."""

import numpy as np

from zoosim.core.types import Context, PolicySpec
from zoosim.policies.products.linucb import LinUCB


def test_expected_rewards_are_the_means_of_each_products_model() -> None:
    policy = LinUCB(PolicySpec(user_dim=1, product_dim=1), np.random.default_rng(0))
    context = Context(
        user_id=0,
        user=np.array([1.0]),
        product_ids=np.array([3, 7]),
        products=np.array([[0.0], [1.0]]),
        available=np.ones(2, np.bool_),
    )
    policy.update(context, 0, 1.0)
    # Ridge of one row x = (1, 0) with lambda 1: theta = (1 / 2, 0); the other product was never shown.
    np.testing.assert_allclose(policy.expected_rewards(context), [0.5, 0.0])
