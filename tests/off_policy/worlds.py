"""Small worlds with known values, and logs drawn from them."""

from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray, IntArray


class Drawn(NamedTuple):
    """A log: contexts, actions, weights of the target policy, rewards, users, each `(n,)`."""

    contexts: IntArray
    actions: IntArray
    weights: FloatArray
    rewards: FloatArray
    users: IntArray


class TableWorld:
    """4 contexts, 10 actions, clicks by a table; `distance` says how far the target lies from the logging policy."""

    def __init__(self, seed: int, distance: float) -> None:
        rng = np.random.default_rng(seed)
        self.clicks = rng.uniform(0.1, 0.4, (4, 10)) * np.array([[0.2], [0.5], [1.2], [2.1]])
        self.logging = _normalised(np.exp(0.5 * rng.normal(size=(4, 10))))
        self.target = _normalised(self.logging * np.exp(distance * rng.normal(size=(4, 10))))
        self.value = float((self.target * self.clicks).sum(axis=1).mean())

    def draw(self, rng: np.random.Generator, n: int, rows_a_user: int = 1) -> Drawn:
        """Draw `n` rows; a user's rows share their context, so that their rewards go together."""
        users = np.arange(n) // rows_a_user
        contexts = rng.integers(4, size=users[-1] + 1)[users]
        actions = (rng.random(n)[:, None] > self.logging.cumsum(axis=1)[contexts]).sum(axis=1).clip(max=9)
        weights = (self.target / self.logging)[contexts, actions]
        rewards = (rng.random(n) < self.clicks[contexts, actions]).astype(float)
        return Drawn(contexts, actions, weights, rewards, users)


def _normalised(table: FloatArray) -> FloatArray:
    return np.asarray(table / table.sum(axis=1, keepdims=True))
