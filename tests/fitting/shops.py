"""Logs of shops with known click tables."""

from typing import Any

import numpy as np

from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.log import Log

CLICKS = np.array([[0.02, 0.10, 0.40, 0.50, 0.05], [0.05, 0.55, 0.05, 0.02, 0.45], [0.20, 0.40, 0.25, 0.15, 0.20]])
MIX = np.array([0.5, 0.3, 0.2])
PRODUCTS = 20


def shop_log(
    rng: np.random.Generator,
    n: int,
    clicks: FloatArray = CLICKS,
    later: FloatArray | None = None,
    at: float = 0.5,
    rows_a_user: int = 1,
    taste: float = 0.0,
    **changes: Any,
) -> Log:
    """Draw a log whose policy favours what each segment clicks.

    `later` is the click table from the share `at` of the rows on. With a `taste` above 0 each user clicks more or less
    than the segment, by up to that share.
    """
    segments, categories = clicks.shape
    users = np.arange(n) // rows_a_user
    segment = rng.choice(segments, size=users[-1] + 1, p=MIX[:segments] / MIX[:segments].sum())[users]
    groups = np.arange(PRODUCTS) % categories
    logging = (0.2 + clicks)[:, groups]
    logging = logging / logging.sum(axis=1, keepdims=True)
    actions = (rng.random(n)[:, None] > logging.cumsum(axis=1)[segment]).sum(axis=1).clip(max=PRODUCTS - 1)
    chance = clicks[segment, groups[actions]]
    if later is not None:
        chance = np.where(np.arange(n) < at * n, chance, later[segment, groups[actions]])
    chance = chance * (1.0 + taste * rng.choice((-1.0, 1.0), size=users[-1] + 1))[users]
    zeros = np.zeros(n, np.int64)
    given: dict[str, Any] = {
        "actions": actions,
        "propensities": logging[segment, actions],
        "rewards": (rng.random(n) < chance).astype(float),
        "candidates": np.ones((1, PRODUCTS), bool),
        "candidate_set": zeros,
        "features": np.eye(segments)[segment],
        "positions": zeros,
        "products": np.eye(categories)[groups],
        "user_ids": users if rows_a_user > 1 else None,
    }
    return Log(**{**given, **changes})


def by_mix(log: Log) -> IntArray:
    """Return the segments' true numbers in the order of `fit_world`, by their visits."""
    return np.argsort(-log.features.sum(axis=0), kind="stable")
