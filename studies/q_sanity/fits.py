"""Train both ensembles on the quadratic, then search the best action on them and on the quadratic itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.quadratic import A_MAX, ACTION_DIM, PUBLISHED_CEM, STATE_DIM, Fitted, fit_both, value
from studies.work import rows_by_seed
from zoosim.core.rng import stream
from zoosim.core.types import FloatArray, Progress
from zoosim.optimizers import CEMConfig, cem_optimize

PUBLISHED, OURS, TRUTH = "published", "q-ensemble", "the quadratic itself"
SEARCHES = {"published, 5 x 64": PUBLISHED_CEM, "fast, 5 x 64": CEMConfig.fast(), "default": CEMConfig()}
CONTEXT = np.eye(STATE_DIM)[0]
BEST = A_MAX * np.eye(ACTION_DIM)[0]
"""The context that the printed check searches for, and its best action, clip(5x)."""


@dataclass(frozen=True)
class Fit:
    """Errors of an ensemble on 5,000 points that it has not seen.

    `mse` of the mean, `member_mse` the mean over members, `sigma` the mean spread, `largest` the largest error.
    """

    seed: int
    method: str
    mse: float
    member_mse: float
    sigma: float
    largest: float


@dataclass(frozen=True)
class End:
    """Where a `search` on an `objective` ended for the context [1, 0, 0, 0, 0].

    `distance` from the best action [.5, 0, ..., 0] (Euclidean), and what the end is truly worth as a `share` of it.
    """

    seed: int
    objective: str
    search: str
    distance: float
    share: float


def measure(*, seeds: Any = "1000:1020", jobs: Any = None, progress: Progress = lambda line: None) -> list[Fit | End]:
    """Measure errors and ends, with data, first weights and a search of its own for each seed."""
    return rows_by_seed(_rows_of, seeds, jobs=jobs, progress=progress)


def _rows_of(seed: int) -> list[Fit | End]:
    fitted = fit_both(seed)
    return [*fits_of(seed, fitted), *ends_of(seed, fitted)]


def fits_of(seed: int, fitted: Fitted) -> list[Fit]:
    """Return the errors of both ensembles."""
    points = fitted.tested
    found = {
        PUBLISHED: fitted.published.members(np.hstack(points[:2])),
        OURS: fitted.ours.members(points.states, points.actions),
    }
    return [Fit(seed, name, **_errors(members, points.values)) for name, members in found.items()]


def _errors(members: FloatArray, values: FloatArray) -> dict[str, float]:
    errors = members.mean(axis=0) - values
    return {
        "mse": float(np.mean(errors**2)),
        "member_mse": float(np.mean((members - values) ** 2)),
        "sigma": float(members.std(axis=0).mean()),
        "largest": float(np.abs(errors).max()),
    }


def ends_of(seed: int, fitted: Fitted) -> list[End]:
    """Return where each search ends on each objective."""
    rows = []
    for name, objective in _objectives(fitted).items():
        for search, config in SEARCHES.items():
            action = cem_optimize(objective, ACTION_DIM, config, rng=stream(seed, "search")).action
            share = _truth(action[np.newaxis])[0] / _truth(BEST[np.newaxis])[0]
            rows.append(End(seed, name, search, float(np.linalg.norm(action - BEST)), float(share)))
    return rows


def _objectives(fitted: Fitted) -> dict[str, Callable[[FloatArray], FloatArray]]:
    def published(actions: FloatArray) -> FloatArray:
        mean: FloatArray = fitted.published.members(np.hstack([_contexts(actions), actions])).mean(axis=0)
        return mean

    return {TRUTH: _truth, PUBLISHED: published, OURS: fitted.ours.objective(CONTEXT)}


def _truth(actions: FloatArray) -> FloatArray:
    return value(_contexts(actions), actions)


def _contexts(actions: FloatArray) -> FloatArray:
    return np.broadcast_to(CONTEXT, (len(actions), STATE_DIM))
