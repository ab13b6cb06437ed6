"""Let q-ensemble serve a new shop, then a known one, then one whose products are all replaced, under each schedule."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from studies.cache import kept_rows
from studies.held_out import ranking_reward, serve
from studies.work import rows_by_task
from zoosim.core.rng import stream
from zoosim.core.types import Progress
from zoosim.experiments.request import parse_seeds
from zoosim.policies.boosts.q_boosts import QEnsemble
from zoosim.worlds.search.boosts import BoostWorld
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.tables import read_search_config
from zoosim.worlds.search.world import build_search_world

GREEDY = "mean alone"
CONSTANTS = {f"beta {beta:g}": float(beta) for beta in (0.5, 1, 2, 4)}
FALLING, GROWING = "2 exp(-3 t / T)", "sqrt(log t)"
DRAWS = "a member drawn"
SCHEDULES: dict[str, dict[str, Any]] = {
    GREEDY: {"explore": "ucb", "beta": 0.0},
    **{name: {"explore": "ucb", "beta": beta, "decay": 0.0} for name, beta in CONSTANTS.items()},
    FALLING: {"explore": "ucb", "beta": 2.0, "decay": 3.0},
    GROWING: {"explore": "ucb", "beta": 1.0, "schedule": "logarithmic"},
    DRAWS: {"explore": "thompson"},
}
"""Parameters of q-ensemble by schedule of beta; with the last it draws a member instead, as by default."""

SHIFT = 900
"""The visit at which other products take the places of all."""

OPENING, KNOWN, RENEWED = "new shop", "known shop", "new catalogue"
PERIODS = {OPENING: (30, 300), KNOWN: (600, SHIFT), RENEWED: (SHIFT, 1_200)}
"""The first visit of each period, and the first after it; the 30 before all of them are random."""


@dataclass(frozen=True)
class Earned:
    """The expected reward of what q-ensemble showed in a period of a seed, its exploring included, in EUR a visit."""

    schedule: str
    seed: int
    period: str
    reward: float


def measure(*, seeds: Any = "1000:1016", jobs: Any = None, progress: Progress = lambda line: None) -> list[Earned]:
    """Let each schedule serve the 1,200 visits of each seed; what is finished is kept on disk."""
    tasks = [(schedule, seed) for seed in parse_seeds(seeds) for schedule in SCHEDULES]
    return rows_by_task(_kept, tasks, jobs=jobs, words=lambda task: f"{task[0]}, seed {task[1]}", progress=progress)


def _kept(task: tuple[str, int]) -> list[Earned]:
    schedule, seed = task
    key = (SCHEDULES[schedule], PERIODS, seed)
    return kept_rows("optimism", key, Earned, partial(earned_by, schedule, seed, PERIODS))


def earned_by(schedule: str, seed: int, periods: dict[str, tuple[int, int]]) -> Sequence[Earned]:
    """Let q-ensemble serve the shop of a seed to the end of the last of the `periods`; the catalogue renews at `SHIFT`.

    Args:
        schedule: A name in `SCHEDULES`.
        seed: The seed of the shop, of its visitors and of the policy.
        periods: First visits, and first visits behind, by name.
    """
    shop = {"n_products": 1_000, "a_max": 0.5, "shifts": [{"step": SHIFT, "name": RENEWED, "renewal": 1.0}]}
    world = BoostWorld(SearchShop(build_search_world(read_search_config(shop), seed=seed)))
    last = max(stop for _, stop in periods.values())
    policy = QEnsemble(world.spec(last), stream(seed, "policy"), **SCHEDULES[schedule])
    rewards = np.zeros(last)
    for step in range(last):
        visit = world.arrive(step)
        shown, _ = serve(world, policy, visit)
        if any(start <= step < stop for start, stop in periods.values()):
            rewards[step] = ranking_reward(world.shop, visit, shown)
    return [Earned(schedule, seed, name, float(rewards[slice(*span)].mean())) for name, span in periods.items()]
