"""S1: policy-steps a second of a 10-seed gauntlet against the plain loops, on the same two processes.

Four policies (`random`, `static-mlp`, `linucb`, `neural-linear-stable`). The plain loops run a sample of 2,000 visits a
seed; both sides build their features, draw their visitors and settle their clicks inside the timed part; training the
MLP, starting processes, importing and compiling are outside on both sides.
"""

import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from benchmarks.plain import PlainLinUCB, PlainNeuralLinearStable, PlainRandom, PlainStaticMLP
from zoosim.arena.loop import play
from zoosim.arena.past import uniform_log
from zoosim.core.config import EnvConfig
from zoosim.core.rng import stream
from zoosim.policies.base import Policy
from zoosim.policies.registry import make_entry
from zoosim.worlds.recommendation.shocks import LOUD, SILENT
from zoosim.worlds.recommendation.world import build_world
from zoosim.worlds.table import TableWorld

SEEDS, STEPS, SAMPLE, PROCESSES = 10, 40_000, 2_000, 2
POLICIES: dict[str, dict[str, float]] = {
    "random": {},
    "static-mlp": {},
    "linucb": {"alpha": 0.2},
    "neural-linear-stable": {"alpha": 0.3},
}
CONFIG = EnvConfig(shocks=[LOUD, SILENT])


class Timing(NamedTuple):
    """When a process began and ended its timed part, how many policy-steps it did, and its peak memory in bytes."""

    began: float
    ended: float
    policy_steps: int
    peak: int


def main() -> None:
    """Print policy-steps a second of both sides and their ratio."""
    with ProcessPoolExecutor(PROCESSES, mp_context=multiprocessing.get_context("spawn")) as pool:
        shares = [list(range(first, SEEDS, PROCESSES)) for first in range(PROCESSES)]
        list(pool.map(prepare, shares))
        ours = _rate(list(pool.map(run_zoosim, shares)))
        plain = _rate(list(pool.map(run_plain, shares)))
    print(f"S1 gauntlet: zoosim {ours[0]:,.0f} policy-steps/s, plain loops {plain[0]:,.0f}: {ours[0] / plain[0]:.0f}x")
    print(f"S1 gauntlet: peak memory {ours[1] / 1e6:,.0f} MB a process")


def _rate(timings: list[Timing]) -> tuple[float, float]:
    wall = max(t.ended for t in timings) - min(t.began for t in timings)
    return sum(t.policy_steps for t in timings) / wall, max(t.peak for t in timings)


def prepare(seeds: list[int]) -> None:
    """Compile, and train the offline models into the cache, so that both processes start timing together."""
    for seed in seeds:
        world = build_world(CONFIG, seed=seed)
        for policy in _policies(world):
            list(play(world, policy, 100))


def run_zoosim(seeds: list[int]) -> Timing:
    """Run the whole gauntlet of these seeds."""
    worlds = [build_world(CONFIG, seed=seed) for seed in seeds]
    prepared = [(world, _policies(world)) for world in worlds]
    began = time.monotonic()
    for seed, (_, policies) in zip(seeds, prepared, strict=True):
        world = build_world(CONFIG, seed=seed)
        for policy in policies:
            list(play(world, policy, STEPS))
    return Timing(began, time.monotonic(), len(seeds) * len(POLICIES) * STEPS, _peak())


def _policies(world: TableWorld) -> list[Policy]:
    """Make the four policies, the MLP trained."""
    made = []
    for name, params in POLICIES.items():
        policy = make_entry(name, params=dict(params)).make(world.spec(STEPS), stream(world.seed, "policy", name))
        if policy.past_visits:
            policy.fit(uniform_log(world, policy.past_visits))
        made.append(policy)
    return made


def run_plain(seeds: list[int]) -> Timing:
    """Run a sample of the gauntlet of these seeds with the plain loops."""
    import torch

    torch.set_num_threads(1)
    worlds = [build_world(CONFIG, seed=seed) for seed in seeds]
    _plain_seed(worlds[0], 200)  # torch imports its optimiser at the first use
    began = time.monotonic()
    for world in worlds:
        _plain_seed(world, SAMPLE)
    return Timing(began, time.monotonic(), len(seeds) * len(POLICIES) * SAMPLE, _peak())


def _plain_seed(world: TableWorld, sample: int) -> None:
    """Let the four plain agents meet the same visitors, one visit after another."""
    rng, (k, d) = np.random.default_rng(world.seed), world.products.shape
    agents: dict[str, Any] = {
        "random": PlainRandom(k, rng),
        "static-mlp": PlainStaticMLP(world.n_users, k),
        "linucb": PlainLinUCB(k, world.users.shape[1] + d, alpha=0.2),
        "neural-linear-stable": PlainNeuralLinearStable(world.users.shape[1] + d, alpha=0.3),
    }
    visitors, table = rng.integers(0, world.n_users, sample), world.periods[0].table
    for user_id in visitors:
        for name, agent in agents.items():
            user = world.users[user_id]
            features = np.hstack([np.tile(user, (k, 1)), world.products])
            action = agent.select(int(user_id) if name == "static-mlp" else features)
            reward = float(rng.random() < table[world.segments[user_id], world.groups[action]])
            agent.update(features, action, reward)


def _peak() -> int:
    """Return this process's largest resident set in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
