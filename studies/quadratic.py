"""A synthetic problem with a known answer: Q(x, a) = x . a - .1 |a|^2 over 5 state and mostly 10 action numbers."""

from typing import NamedTuple

import numpy as np

from studies.published_ensemble import PublishedEnsemble
from zoosim.core.rng import stream
from zoosim.core.types import FloatArray
from zoosim.optimizers import CEMConfig
from zoosim.policies.q_ensemble import QEnsembleConfig, QEnsembleRegressor

STATE_DIM, ACTION_DIM, A_MAX = 5, 10, 0.5
TRAINED, TESTED, EPOCHS, BATCH = 1_000, 5_000, 50, 64
PUBLISHED_CEM = CEMConfig(n_samples=64, n_iters=5, elite_fraction=0.1, alpha=0.7, spread="elites")
"""Textbook CEM, with the values that docs/lessons.md prints as algorithm 7.1."""


class Points(NamedTuple):
    """States `(n, 5)`, N(0, 1), actions `(n, d)`, uniform in the box, and their `values (n,)`."""

    states: FloatArray
    actions: FloatArray
    values: FloatArray


def draw_points(n: int, d: int = ACTION_DIM, *, rng: np.random.Generator) -> Points:
    """Draw n points with d action numbers, at least 5."""
    states, actions = rng.normal(0, 1, (n, STATE_DIM)), rng.uniform(-A_MAX, A_MAX, (n, d))
    return Points(states, actions, value(states, actions))


def value(states: FloatArray, actions: FloatArray) -> FloatArray:
    """Return the true values `(n,)`."""
    values: FloatArray = (states * actions[:, :STATE_DIM]).sum(axis=1) - 0.1 * (actions**2).sum(axis=1)
    return values


class Fitted(NamedTuple):
    """Both ensembles, the points they were `trained` on, and others: `held` out to calibrate on, `tested` to judge."""

    ours: QEnsembleRegressor
    published: PublishedEnsemble
    trained: Points
    held: Points
    tested: Points


def fit_both(seed: int) -> Fitted:
    """Train 5 members of 64 and 64 units for 50 epochs on 1,000 points, ours and as published."""
    rng = stream(seed, "quadratic")
    trained, held, tested = (draw_points(n, rng=rng) for n in (TRAINED, TESTED, TESTED))
    published = PublishedEnsemble(STATE_DIM + ACTION_DIM, seed=seed)
    published.fit(np.hstack(trained[:2]), trained.values, EPOCHS, BATCH)
    return Fitted(fit_ours(trained, seed), published, trained, held, tested)


def fit_ours(trained: Points, seed: int, members: int = 5) -> QEnsembleRegressor:
    """Train our members alone."""
    q = QEnsembleRegressor(STATE_DIM, trained.actions.shape[1], QEnsembleConfig(n_ensembles=members, seed=seed))
    q.update_batch(*trained, n_epochs=EPOCHS, batch_size=BATCH)
    return q
