"""Q7: does a library for reinforcement learning learn from flat observations? PPO in the recommendation world.

Needs stable-baselines3 of the extra `bench` (Raffin et al. 2021); without it the benchmark says so.
"""

from importlib import import_module
from typing import Any

import numpy as np

from zoosim.envs.recommendation_env import RecommendationEnv

SEEDS = range(1000, 1004)
STEPS = 6_000
JUDGED = 2_000


def main() -> None:
    """Print the click rate of PPO (Schulman et al. 2017) before and after it has learned, by what it observes."""
    try:
        ppo = import_module("stable_baselines3").PPO
    except ImportError:
        print("Q7 flat observations: needs stable-baselines3; run make bench")
        return
    for name, flat in (("whole contexts", False), ("flat=True", True)):
        rates = np.array([_rates(ppo, flat, seed) for seed in SEEDS])
        (before, after), spread = rates.mean(axis=0), rates[:, 1].std(ddof=1) / np.sqrt(len(rates))
        print(
            f"Q7 flat observations: PPO on {name}: click rate {before:.3f} before, {after:.3f} after {STEPS:,} visits"
        )
        print(f"Q7 flat observations: PPO on {name}: standard error {spread:.3f} over {len(SEEDS)} seeds")


def _rates(ppo: Any, flat: bool, seed: int) -> tuple[float, float]:
    """Return the click rate of a seed before and after learning, over visits that the learner did not learn from."""
    env = RecommendationEnv(flat=flat)
    env.reset(seed=seed)
    policy = "MlpPolicy" if flat else "MultiInputPolicy"
    learner = ppo(policy, env, seed=seed, device="cpu", n_steps=500, batch_size=100, verbose=0)
    before = _judge(learner, flat, seed)
    learner.learn(STEPS)
    return before, _judge(learner, flat, seed)


def _judge(learner: Any, flat: bool, seed: int) -> float:
    """Return the click rate of what a learner would choose, in visits of the seed's world."""
    env = RecommendationEnv(flat=flat)
    observation, _ = env.reset(seed=seed)
    clicks = 0.0
    for _ in range(JUDGED):
        action, _ = learner.predict(observation if flat else dict(observation), deterministic=False)
        clicks += env.step(int(action))[1]
        observation, _ = env.reset()
    return clicks / JUDGED
