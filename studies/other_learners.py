"""Learners of other libraries in the world of sessions: Stable-Baselines3 and sb3-contrib (Raffin et al. 2021)."""

from collections.abc import Mapping
from importlib import import_module, metadata
from typing import Any

import numpy as np

from zoosim.core.types import FloatArray

SHOPS = 16
"""Shops that a learner plays at once."""

PPO = {"n_steps": 256, "batch_size": 512, "gamma": 1.0, "learning_rate": 1e-3, "ent_coef": 0.003}
DQN = {
    "train_freq": 4,
    "gradient_steps": 4,
    "batch_size": 128,
    "buffer_size": 50_000,
    "learning_starts": 1_000,
    "target_update_interval": 1_000,
    "exploration_fraction": 0.5,
    "exploration_final_eps": 0.1,
    "gamma": 1.0,
    "learning_rate": 5e-4,
}
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "DQN": ("stable_baselines3", DQN),
    "PPO": ("stable_baselines3", PPO),
    "MaskablePPO": ("sb3_contrib", PPO),
}
"""Classes of learners: the packages that they come from, and their options, tuned on seed 0 of the default shop."""


class Trained:
    """A learner's greedy policy, by observations."""

    def __init__(self, name: str, environment: Mapping[str, Any], seed: int, decisions: int) -> None:
        """Let a learner learn.

        Args:
            name: Class of the learner.
            environment: What `gymnasium.make("zoosim/Sessions-v0", ...)` takes.
            seed: Seed of the worlds and of the learner.
            decisions: Length of learning.
        """
        package, options = LEARNERS[name]
        import_module("torch").set_num_threads(1)
        make_env = import_module("stable_baselines3.common.env_util").make_vec_env
        env = make_env("zoosim/Sessions-v0", SHOPS, seed=seed, env_kwargs=dict(environment))
        self._model = getattr(import_module(package), name)("MlpPolicy", env, seed=seed, device="cpu", **options)
        self._model.learn(decisions)

    def __call__(self, observations: FloatArray) -> Any:
        """Return the best action `(n,)` at each of the `observations (n, features)`."""
        return self._model.predict(observations.astype(np.float32), deterministic=True)[0]


def version_of(name: str) -> tuple[str, str]:
    """Return the library of a learner and its version."""
    library = LEARNERS[name][0].replace("_", "-")
    return library, metadata.version(library)
