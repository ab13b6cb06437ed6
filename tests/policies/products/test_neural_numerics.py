"""Neural policies at the largest features and rewards that are taken: all that they keep stays finite."""

from typing import Any

import numpy as np
import pytest

from zoosim import Context, PolicySpec
from zoosim.policies.registry import find_class
from zoosim.policies.requests import LARGEST, dense_propensities

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("neural-ucb", {}),
    ("neural-ucb", {"normalise": False}),
    ("neural-ucb", {"form": "dual", "normalise": False}),
    ("neural-ucb", {"form": "primal", "hidden": "4", "normalise": False}),
    ("neural-ucb", {"history": "published", "discount": 1.0, "hidden": "8-8-8"}),
    ("neural-ts", {"form": "last-layer"}),
    ("neural-linear", {}),
    ("neural-linear", {"learning_rate": 10.0, "train_every": 5}),
    ("dropout-ts", {"learning_rate": 10.0, "train_every": 5}),
    ("neural-linear-online", {}),
    ("neural-linear-online", {"learning_rate": 10.0}),
    ("neural-linear-head", {}),
    ("neural-linear-head", {"learning_rate": 10.0}),
    ("neural-linear-stable", {}),
    ("neural-linear-stable", {"learning_rate": 10.0, "train_every": 5, "batch_size": 5, "recompute": True}),
]


@pytest.mark.filterwarnings("ignore:.*condition number:RuntimeWarning")
@pytest.mark.parametrize("joint", [False, True], ids=["categories", "dense"])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_what_is_learned_of_the_largest_numbers_is_finite(variant: tuple[str, dict[str, Any]], joint: bool) -> None:
    """400 visits of users of 1e9, rewards of 0 and +-1e9; products of 0 and 1, or of 1e9."""
    rng, products = np.random.default_rng(1), np.eye(5)
    if joint:
        products = LARGEST * rng.uniform(-1, 1, (70, 5))
    spec = PolicySpec(user_dim=3, product_dim=5, steps=400)
    policy = find_class(variant[0])(spec, np.random.default_rng(0), **variant[1])
    arrays = {"product_ids": np.arange(len(products)), "products": products, "available": np.ones(len(products), bool)}
    for step in range(400):
        context = Context(user_id=0, user=LARGEST * rng.choice([-1.0, 1.0, 0.5], 3), **arrays)
        action = policy.select_action(context)
        assert dense_propensities(policy, context).sum() == pytest.approx(1)
        policy.update(context, action, LARGEST * float(step % 3 - 1))
    for name, value in policy.state_dict().items():
        assert isinstance(value, str) or np.isfinite(value).all(), name
