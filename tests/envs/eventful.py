"""A small shop where much happens, and what both environment tests need."""

from typing import Any

import numpy as np
from gymnasium.utils.env_checker import data_equivalence

from zoosim import Context

EVENTFUL: dict[str, Any] = {
    "n_products": 12,
    "n_users": 40,
    "noise_features": {"user": 2, "product": 1},
    "shocks": [
        {"step": 100, "name": "fish", "set": {"budget_shopper": {"Fish Supplies": 0.9, "Cat Food": 0.1}}},
        {"step": 1_500, "name": "toys", "set": {"fish_hobbyist": {"Dog Toy": 0.95}}},
    ],
    "availability": [
        {"step": 50, "change": "appear", "products": [3]},
        {"step": 80, "change": "run-out", "products": [0, 1], "until": 160},
        {"step": 200, "change": "vanish", "category": "Cat Toy"},
    ],
}


def any_available(context: Context, rng: np.random.Generator) -> int:
    return int(rng.choice(np.flatnonzero(context.available)))


def same(a: Any, b: Any) -> bool:
    """Tell whether two results are equal bit for bit, types included."""
    return bool(data_equivalence(a, b, exact=True))
