"""Search from ten starts a query and see where they end, then go on from there by gradient until nothing is left."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from studies.cem_optima.landscapes import A_MAX, KINDS, Landscape, landscape, repeated
from studies.quadratic import PUBLISHED_CEM
from studies.work import rows_by_task
from zoosim.core.rng import stream
from zoosim.core.types import BoolArray, FloatArray, IntArray, Progress
from zoosim.experiments.request import parse_seeds
from zoosim.optimizers import CEMConfig, cem_optimize_many
from zoosim.optimizers.gradient import GradientConfig, gradient_ascent_many

STARTS = 10
NEAR = 0.1
"""Ends closer than this are the same."""

SETTINGS = {
    "published, 5 x 64": PUBLISHED_CEM,
    "published, 100 x 64": replace(PUBLISHED_CEM, n_iters=100),
    "fast, 5 x 64": CEMConfig.fast(),
    "default": CEMConfig(),
}
POPULATIONS = (16, 32, 56, 64, 96, 128, 192)
DIMENSIONS = (10, 20)
RADII = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
DECISIONS = (1, 3, 10)
Task = tuple[str, int, str, CEMConfig] | tuple[str, float]
"""A landscape, its dimension, the name of a setting and the setting; or a landscape and a radius."""

FINISH = GradientConfig(n_starts=1, n_steps=400, step_size=0.02)


@dataclass(frozen=True)
class Ends:
    """Where ten starts of one query ended: as the search left them, and after climbing on from there (`finished`).

    `agree` is whether all are within .1 of each other, `distinct` how many ends there are; `gap` the best less the
    worst value, as a share of what there is to gain over a random action; `evaluations` are a start's.
    """

    landscape: str
    dimension: int
    setting: str
    n_samples: int
    seed: int
    agree: bool
    distinct: int
    gap: float
    finished_agree: bool
    finished_gap: float
    evaluations: float
    converged: float


@dataclass(frozen=True)
class Step:
    """How much of what there is to gain a search in a trust region got by this many decisions, each around the last."""

    landscape: str
    radius: float
    decisions: int
    seed: int
    share: float


def measure(*, seeds: Any = "1000:1040", jobs: Any = None, progress: Progress = lambda line: None) -> list[Ends | Step]:
    """Measure every setting, population and radius; a query is a seed, and has an objective of its own."""
    tasks: list[Task] = [(kind, 20, name, config) for kind in KINDS for name, config in SETTINGS.items()]
    populations = [CEMConfig(n_samples=count, n_iters=200) for count in POPULATIONS]
    tasks += [("concave", d, "population", config) for d in DIMENSIONS for config in populations]
    tasks += [(kind, radius) for kind in ("concave", "network") for radius in RADII]
    return rows_by_task(partial(_rows_of, parse_seeds(seeds)), tasks, jobs=jobs, words=_words, progress=progress)


def _rows_of(queries: Sequence[int], task: Task) -> Sequence[Ends | Step]:
    return ends_of(*task, queries) if len(task) == 4 else steps_of(*task, queries)


def _words(task: Task) -> str:
    if len(task) == 2:
        return f"{task[0]}: trust region of radius {task[1]:g}"
    return f"{task[0]}, {task[1]} dimensions: {task[2]}, {task[3].n_samples} samples"


def ends_of(kind: str, d: int, setting: str, config: CEMConfig, seeds: Sequence[int]) -> list[Ends]:
    """Search from ten starts for each of `seeds`."""
    made, rng = landscape(kind, d, seeds), stream(seeds[0], "search")
    slope = repeated(made.slope, STARTS)
    requests = STARTS * len(seeds)
    begin = np.concatenate([stream(seed, "starts").uniform(-A_MAX, A_MAX, (STARTS, d)) for seed in seeds])
    found = cem_optimize_many(lambda a: slope(a)[0], requests, d, config, rng=rng, init_mean=begin)
    finished = gradient_ascent_many(slope, requests, d, FINISH, rng=rng, init_mean=found.actions)
    best = np.maximum(_per_query(finished.values).max(axis=1), _known(made, d, rng))
    gain = best - made.typical
    return [
        Ends(
            *(kind, d, setting, config.n_samples, seed),
            *agreement(found.actions.reshape(-1, STARTS, d)[i]),
            float(np.ptp(_per_query(found.values)[i]) / gain[i]),
            agreement(finished.actions.reshape(-1, STARTS, d)[i])[0],
            float(np.ptp(_per_query(finished.values)[i]) / gain[i]),
            *(float(_per_query(x)[i].mean()) for x in (found.n_evaluations, found.converged)),
        )
        for i, seed in enumerate(seeds)
    ]


def steps_of(kind: str, radius: float, seeds: Sequence[int]) -> list[Step]:
    """Search in a trust region around (.1, ..., .1), then around what was found, and so on, in 10 dimensions."""
    made, rng = landscape(kind, 10, seeds), stream(seeds[0], "steps")
    best = _known(made, 10, rng)
    base = np.full((len(seeds), 10), 0.1)
    first = made.slope(base[:, np.newaxis])[0][:, 0]
    rows = []
    for decision in range(1, max(DECISIONS) + 1):
        found = cem_optimize_many(lambda a: made.slope(a)[0], len(seeds), 10, rng=rng, base_action=base, radius=radius)
        base = found.actions
        if decision in DECISIONS:
            shares = (found.values - first) / (best - first)
            rows += [Step(kind, radius, decision, seed, float(shares[i])) for i, seed in enumerate(seeds)]
    return rows


def _known(made: Landscape, d: int, rng: np.random.Generator) -> FloatArray:
    """Return the best value `(m,)` that 64 climbs and 4 thorough searches find."""
    m = len(made.typical)
    climbed = gradient_ascent_many(made.slope, m, d, GradientConfig(n_starts=64, n_steps=100), rng=rng)
    thorough = CEMConfig(n_samples=256, n_starts=4)
    searched = cem_optimize_many(lambda a: made.slope(a)[0], m, d, thorough, rng=rng)
    return np.maximum(climbed.values, searched.values)


def _per_query(values: FloatArray | BoolArray | IntArray) -> FloatArray:
    return np.asarray(values, float).reshape(-1, STARTS)


def agreement(ends: FloatArray) -> tuple[bool, int]:
    """Tell whether all ends `(s, d)` are near each other, and count them: one that is near none before it is new."""
    apart = np.linalg.norm(ends[:, np.newaxis] - ends, axis=2)
    distinct = sum(bool((apart[i, :i] >= NEAR).all()) for i in range(len(ends)))
    return bool(apart.max() < NEAR), distinct
