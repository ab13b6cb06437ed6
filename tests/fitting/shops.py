"""Logs of shops with known click tables."""

from typing import Any

import numpy as np

from zoosim.core.types import FloatArray
from zoosim.logs.candidate_sets import CandidateSets
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
    **changes: Any,
) -> Log:
    """Draw a log whose policy favours what each segment clicks; `later` is the table from the share `at` of rows on."""
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
    zeros = np.zeros(n, np.int64)
    given: dict[str, Any] = {
        "actions": actions,
        "propensities": logging[segment, actions],
        "rewards": (rng.random(n) < chance).astype(float),
        "candidates": CandidateSets.everything(PRODUCTS),
        "candidate_set": zeros,
        "features": np.eye(segments)[segment],
        "positions": zeros,
        "products": np.eye(categories)[groups],
        "categories": tuple(f"category {group}" for group in groups),
        "user_ids": users if rows_a_user > 1 else None,
    }
    return Log(**{**given, **changes})
