"""Search with other settings, and say how far each search gets of the way from a random action to the best."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from studies.cem_optima.landscapes import A_MAX, Slope, landscape
from studies.quadratic import ACTION_DIM, STATE_DIM, TRAINED, draw_points, fit_ours, value
from studies.work import rows_by_task
from zoosim.core.rng import stream
from zoosim.core.types import FloatArray, Progress
from zoosim.experiments.request import parse_seeds
from zoosim.models.ensemble_gradient import gradient
from zoosim.optimizers import CEMConfig, CEMResults, cem_optimize_many
from zoosim.optimizers.gradient import GradientConfig, gradient_ascent_many
from zoosim.policies.q_ensemble import QEnsembleRegressor

SIZES = ((5, 5), (3, 5), (5, 3), (3, 3))
"""Members of the ensemble, and iterations of the fast preset."""

STATES = 16
"""Requests that each seed's ensemble is asked for."""

LIKENESS = (1.0, 0.9, 0.0)
"""Correlation of a request's state with that of the request before; at 0 another visitor came."""

WARM = {"cold": (False, None), "warm": (True, None), "warm, narrow": (True, 0.1)}
"""Whether a search starts at the action before, and `init_std`."""

FRACTIONS = (0.05, 0.1, 0.25)
SMOOTHING = (0.0, 0.1, 0.7, 0.9)
ITERATIONS = (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 60)
"""Iterations after which elites and smoothing are compared."""

DIMENSIONS = (10, 20, 50)
CEM_DIMENSIONS = {
    "fast CEM": CEMConfig.fast(),
    "default CEM": CEMConfig(),
    "CEM, 400 iterations": CEMConfig(n_iters=400),
}
CLIMBS = {"8 climbs of 10 steps": GradientConfig(n_steps=10), "8 climbs of 30 steps": GradientConfig()}
GRADIENT_PASSES = 3
"""Passes that a value with its gradient stands for: one forwards, and one backwards of twice the cost."""

Task = tuple[str, ...]


@dataclass(frozen=True)
class Search:
    """How far a search with a setting got, for the requests of a seed.

    `case` is a number that the question varies: members, likeness, iterations or dimensions. `share` is that of the
    way from a random action to the best; `passes` are those through single networks per search (evaluations, where
    there is no ensemble); `spread` is the Euclidean norm of the deviations at the end, None for climbs.
    """

    question: str
    landscape: str
    setting: str
    case: float
    seed: int
    share: float
    passes: float
    spread: float | None


def measure(*, seeds: Any = "1000:1020", jobs: Any = None, progress: Progress = lambda line: None) -> list[Search]:
    """Answer the four questions on objectives of each seed."""
    tasks: list[Task] = [("sizes",), ("starts",)]
    tasks += [("elites", kind) for kind in ("ensemble", "rastrigin")]
    tasks += [("dimensions", kind) for kind in ("concave", "ensemble", "network")]
    return rows_by_task(partial(_rows_of, parse_seeds(seeds)), tasks, jobs=jobs, words=", ".join, progress=progress)


def _rows_of(seeds: Sequence[int], task: Task) -> list[Search]:
    by_seed: dict[str, Callable[[int], list[Search]]] = {"sizes": sizes_of, "starts": starts_of}
    if task[0] in by_seed:
        return [row for seed in seeds for row in by_seed[task[0]](seed)]
    return elites_of(task[1], seeds) if task[0] == "elites" else dimensions_of(task[1], seeds)


def sizes_of(seed: int) -> list[Search]:
    """Search the mean of ensembles of 5 and 3 members, and judge what is found by the true values."""
    rng = stream(seed, "sizes")
    trained = draw_points(TRAINED, rng=rng)
    states = rng.normal(size=(STATES, STATE_DIM))
    ensembles = {members: fit_ours(trained, seed, members) for members, _ in SIZES}
    rows = []
    for members, iterations in SIZES:
        config = replace(CEMConfig.fast(), n_iters=iterations)
        search_rng = stream(seed, "search")  # the same draws for each size
        found = cem_optimize_many(ensembles[members].objective(states, 0.0), STATES, ACTION_DIM, config, rng=search_rng)
        passes = members * float(found.n_evaluations.mean())
        share = float(np.mean(true_share(states, found.actions)))
        rows.append(
            Search("sizes", "true values", f"{iterations} iterations", members, seed, share, passes, _spread(found))
        )
    return rows


def true_share(states: FloatArray, actions: FloatArray) -> FloatArray:
    """Return how far each action `(m, d)` goes from the true value of random ones to that of the best, `(m,)`."""
    best = np.zeros((len(states), ACTION_DIM))
    # x a - .1 a^2 is highest at a = 5 x, in the box.
    best[:, :STATE_DIM] = np.clip(5 * states, -A_MAX, A_MAX)
    random = -0.1 * ACTION_DIM * A_MAX**2 / 3  # E[a^2] = a_max^2 / 3 for a uniform a
    share: FloatArray = (value(states, actions) - random) / (value(states, best) - random)
    return share


def starts_of(seed: int) -> list[Search]:
    """Search for requests that are more or less like the one before, from 0 and from its action."""
    rng = stream(seed, "starts")
    q = fit_ours(draw_points(TRAINED, rng=rng), seed)
    before = rng.normal(size=(STATES, STATE_DIM))
    other = rng.normal(size=(STATES, STATE_DIM))
    previous = cem_optimize_many(q.objective(before, 0.0), STATES, ACTION_DIM, rng=rng).actions
    rows = []
    for likeness in LIKENESS:
        states = likeness * before + (1 - likeness**2) ** 0.5 * other
        rows += _starts(q, states, previous, likeness, seed)
    return rows


def _starts(
    q: QEnsembleRegressor, states: FloatArray, previous: FloatArray, likeness: float, seed: int
) -> list[Search]:
    objective = q.objective(states, 0.0)
    anywhere = stream(seed, "anywhere").uniform(-A_MAX, A_MAX, (STATES, 200, ACTION_DIM))
    typical = objective(anywhere).mean(axis=1)
    thorough = GradientConfig(n_starts=16, n_steps=60)
    climbed = gradient_ascent_many(partial(gradient, objective), STATES, ACTION_DIM, thorough, rng=stream(seed, "best"))
    rows = []
    for name, (is_warm, width) in WARM.items():
        for preset, config in (("fast", CEMConfig.fast()), ("default", CEMConfig())):
            chosen = replace(config, init_std=width)
            start = previous if is_warm else None
            search_rng = stream(seed, "search")
            found = cem_optimize_many(objective, STATES, ACTION_DIM, chosen, rng=search_rng, init_mean=start)
            share = float(np.mean((found.values - typical) / (climbed.values - typical)))
            passes = 5 * float(found.n_evaluations.mean())
            rows.append(
                Search("starts", "ensemble", f"{preset}, {name}", likeness, seed, share, passes, _spread(found))
            )
    return rows


def elites_of(kind: str, seeds: Sequence[int]) -> list[Search]:
    """Search with each share of elites, smoothing and form, and look after some iterations."""
    made = landscape(kind, ACTION_DIM, seeds)
    best = _known(kind, ACTION_DIM, seeds)
    rows = []
    for form in ("former", "elites"):
        for fraction in FRACTIONS:
            for smoothing in SMOOTHING:
                base = CEMConfig(n_samples=64, n_iters=max(ITERATIONS), spread=form)
                config = replace(base, elite_fraction=fraction, alpha=smoothing)
                rng = stream(seeds[0], "search")
                found = cem_optimize_many(partial(_values, made.slope), len(seeds), ACTION_DIM, config, rng=rng)
                setting = f"{form}, {fraction:g}, {smoothing:g}"
                for count in ITERATIONS:
                    # All may have converged before.
                    last = min(count, found.histories.shape[1]) - 1
                    shares = (found.histories[:, last] - made.typical) / (best - made.typical)
                    passes = np.minimum(found.n_evaluations, 64 * count)
                    rows += [
                        Search("elites", kind, setting, count, *figures)
                        for figures in zip(
                            seeds, shares.tolist(), passes.tolist(), found.spreads[:, last].tolist(), strict=True
                        )
                    ]
    return rows


def dimensions_of(kind: str, seeds: Sequence[int]) -> list[Search]:
    """Search objectives of more and more dimensions by CEM, and climb them along their gradients."""
    rows = []
    for d in DIMENSIONS:
        made = landscape(kind, d, seeds)
        rng = stream(seeds[0], "search")
        values = {}
        for name, config in CEM_DIMENSIONS.items():
            found = cem_optimize_many(partial(_values, made.slope), len(seeds), d, config, rng=rng)
            values[name] = (found.values, found.n_evaluations)
        for name, climb in CLIMBS.items():
            passes = np.full(len(seeds), GRADIENT_PASSES * climb.n_starts * (climb.n_steps + 1))
            values[name] = (gradient_ascent_many(made.slope, len(seeds), d, climb, rng=rng).values, passes)
        best = np.max([_known(kind, d, seeds), *(found for found, _ in values.values())], axis=0)
        for name, (found_values, passes) in values.items():
            shares = (found_values - made.typical) / (best - made.typical)
            for seed, share, count in zip(seeds, shares.tolist(), passes.tolist(), strict=True):
                rows.append(Search("dimensions", kind, name, d, seed, share, count, None))
    return rows


def _values(slope: Slope, actions: FloatArray) -> FloatArray:
    return slope(actions)[0]


def _known(kind: str, d: int, seeds: Sequence[int]) -> FloatArray:
    """Return the best value `(m,)` that is known: 0 by Rastrigin's formula, else that of 32 climbs."""
    if kind == "rastrigin":
        return np.zeros(len(seeds))
    made = landscape(kind, d, seeds)
    thorough = GradientConfig(n_starts=32, n_steps=100)
    return gradient_ascent_many(made.slope, len(seeds), d, thorough, rng=stream(seeds[0], "best")).values


def _spread(found: CEMResults) -> float:
    """Return the mean spread at the end of the searches."""
    return float(found.spreads[:, -1].mean())
