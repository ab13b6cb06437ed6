"""Q25: what DQN, PPO and MaskablePPO of other libraries reach in the world of sessions.

Each learns from `zoosim/Sessions-v0` that shows the state, as it is. Its greedy policy is then read as a table, whose
worth is exact. Needs stable-baselines3 and sb3-contrib of the extra `bench` (Raffin et al. 2021); without them the
benchmark says so.
"""

import time
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.statistics import mean_interval
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.states import policy_table
from zoosim.worlds.sessions.truth import SessionTruth

SEEDS = range(1000, 1004)

DECISIONS = 200_000
"""Decisions that a learner sees, those of some 30,000 visits."""

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
"""Classes of learners: the packages that they come from, and their options, tuned on seed 0."""


class Learned(NamedTuple):
    """The `share` of the optimum that a greedy policy has, exactly, and the processor `seconds` to learn it."""

    share: float
    seconds: float


def main() -> None:
    """Print what each learner reaches."""
    try:
        for package, _ in LEARNERS.values():
            import_module(package)
    except ImportError:
        print("Q25 learners of sessions: needs stable-baselines3 and sb3-contrib; run make bench")
        return
    truth = SessionTruth(SessionConfig())
    for name in LEARNERS:
        runs = [learn(name, truth, seed, DECISIONS) for seed in SEEDS]
        shares = np.array([run.share for run in runs])
        mean, low, high = mean_interval(100 * shares)
        print(
            f"Q25 learners of sessions: {name}: {mean:.1f}% of the optimum ({low:.1f} to {high:.1f}; worst "
            f"{100 * shares.min():.1f}) after {DECISIONS:,} decisions, seeds {SEEDS.start} to {SEEDS.stop - 1}, "
            f"{np.mean([run.seconds for run in runs]):.0f} s of processor time a run",
            flush=True,
        )


def learn(name: str, truth: SessionTruth, seed: int, decisions: int) -> Learned:
    """Return what a learner reaches.

    Args:
        name: Class of the learner.
        truth: What is true of the shop at its defaults.
        seed: Seed of the worlds and of the learner.
        decisions: Length of learning.
    """
    package, options = LEARNERS[name]
    import_module("torch").set_num_threads(1)
    make_env = import_module("stable_baselines3.common.env_util").make_vec_env
    env = make_env("zoosim/Sessions-v0", SHOPS, seed=seed, env_kwargs={"config": {"observe": "state"}})
    model = getattr(import_module(package), name)("MlpPolicy", env, seed=seed, device="cpu", **options)
    began = time.process_time()
    model.learn(decisions)
    seconds = time.process_time() - began
    table = policy_table(truth.laws, lambda states: model.predict(states.astype(np.float32), deterministic=True)[0])
    return Learned(truth.value(table) / truth.value(truth.optimum), seconds)
