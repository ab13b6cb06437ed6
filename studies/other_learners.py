"""Learners of other libraries in the world of sessions: Stable-Baselines3 and sb3-contrib (Raffin et al. 2021)."""

from collections.abc import Callable, Mapping
from importlib import import_module, metadata
from typing import Any

import numpy as np

from studies.session_axes import NextInStock
from zoosim.core.types import BoolArray, FloatArray

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


def train(name: str, environment: Mapping[str, Any], seed: int, decisions: int) -> Callable[..., Any]:
    """Let a learner learn.

    Args:
        name: Class of the learner.
        environment: What `gymnasium.make("zoosim/Sessions-v0", ...)` takes.
        seed: Seed of the worlds and of the learner.
        decisions: Length of learning.

    Returns:
        Its greedy policy: takes observations `(n, features)`, if it masks which actions are there `(n, K)`, too, and
        returns actions `(n,)`.
    """
    package, options = LEARNERS[name]
    masks = name == "MaskablePPO"
    import_module("torch").set_num_threads(1)
    make_env = import_module("stable_baselines3.common.env_util").make_vec_env
    wrapper = None if masks else NextInStock
    env = make_env("zoosim/Sessions-v0", SHOPS, seed=seed, env_kwargs=dict(environment), wrapper_class=wrapper)
    model = getattr(import_module(package), name)("MlpPolicy", env, seed=seed, device="cpu", **options)
    model.learn(decisions)
    if not masks:
        return lambda observations: model.predict(observations.astype(np.float32), deterministic=True)[0]

    def choose(observations: FloatArray, there: BoolArray | None = None) -> Any:
        return model.predict(observations.astype(np.float32), action_masks=there, deterministic=True)[0]

    return choose


def version_of(name: str) -> tuple[str, str]:
    """Return the library of a learner and its version."""
    library = LEARNERS[name][0].replace("_", "-")
    return library, metadata.version(library)
