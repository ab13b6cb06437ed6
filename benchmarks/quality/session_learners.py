"""Q25: what DQN, PPO and MaskablePPO of other libraries reach in the world of sessions.

Each learns from `zoosim/Sessions-v0` that shows the state, as it is. Its greedy policy is then read as a table, whose
worth is exact. Needs stable-baselines3 and sb3-contrib of the extra `bench` (Raffin et al. 2021); without them the
benchmark says so.
"""

import time
from importlib import import_module
from typing import NamedTuple

import numpy as np

from studies.other_learners import LEARNERS, train
from zoosim.core.statistics import mean_interval
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.states import policy_table
from zoosim.worlds.sessions.truth import SessionTruth

SEEDS = range(1000, 1004)

DECISIONS = 200_000
"""Decisions that a learner sees, those of some 30,000 visits."""


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
    began = time.process_time()
    choose = train(name, {"config": {"observe": "state"}}, seed, decisions)
    seconds = time.process_time() - began
    table = policy_table(truth.laws, choose)
    return Learned(truth.value(table) / truth.value(truth.optimum), seconds)
