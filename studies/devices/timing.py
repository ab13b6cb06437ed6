"""Time decisions and training of one ensemble on the processor, and on each graphics card that torch finds."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from studies.quadratic import ACTION_DIM, BATCH, EPOCHS, STATE_DIM, TESTED, TRAINED, Points, draw_points
from zoosim.core.devices import find_cards
from zoosim.core.rng import stream
from zoosim.core.types import FloatArray, Progress
from zoosim.optimizers import CEMConfig, cem_optimize_many
from zoosim.policies.q_ensemble import QEnsembleConfig, QEnsembleRegressor

REQUESTS = (1, 16, 256, 1_024)
TRAINING = ((TRAINED, BATCH), (50_000, 1_024))
"""Rows of an epoch, and rows per step of training."""

BETA = 1.0
BUDGET = 2.0
"""Seconds that the calls of one measurement may take; there are at least three."""


@dataclass(frozen=True)
class Timing:
    """One measurement: the `median` and the `shortest` milliseconds of `calls`.

    `task` is "decision", of `size` requests at once, or "epoch", of training on `rows` with `size` per step. `device`
    is "cpu" or the name of a graphics card. `difference`: how far predictions are from those of the processor by the
    same weights, at most, in units of their standard deviation.
    """

    task: str
    device: str
    size: int
    rows: int
    median: float
    shortest: float
    calls: int
    difference: float


def measure(*, progress: Progress = lambda line: None) -> list[Timing]:
    """Time every task, on one thread of the processor and on each graphics card that torch finds.

    A decision is `CEMConfig.fast()` over the mean + std of 5 x [64, 64]: 5 iterations of 64 samples per request. Draws
    of samples and fits to elites stay on the processor.
    """
    timings: list[Timing] = []
    with threadpool_limits(1):
        progress("training on the processor")
        trained = _regressor("cpu")
        trained.update_batch(*draw_points(TRAINED, rng=stream(0, "devices")), n_epochs=EPOCHS, batch_size=BATCH)
        points = draw_points(max(TESTED, *REQUESTS), rng=stream(1, "devices"))
        for device, name in {"cpu": "cpu", **find_cards()}.items():
            q = _regressor(device)
            q.load_state_dict(trained.state_dict())
            difference = _difference(q, trained, points)
            for task, size, rows, call in _tasks(q, points.states):
                progress(f"{task}, {size:,} at once, on {name}")
                spans = _spans(call)
                median = 1e3 * float(np.median(spans))
                timings.append(Timing(task, name, size, rows, median, 1e3 * min(spans), len(spans), difference))
    return timings


def _regressor(device: str) -> QEnsembleRegressor:
    return QEnsembleRegressor(STATE_DIM, ACTION_DIM, QEnsembleConfig(device=device))


def _difference(q: QEnsembleRegressor, other: QEnsembleRegressor, points: Points) -> float:
    """Return the largest difference of predicted means, in units of their standard deviation."""
    mean, _ = q.predict(points.states, points.actions)
    expected, _ = other.predict(points.states, points.actions)
    return float(np.abs(mean - expected).max() / expected.std())


def _tasks(q: QEnsembleRegressor, states: FloatArray) -> Iterator[tuple[str, int, int, Callable[[], Any]]]:
    """Yield the name, size and rows of each task, and a function that does it once."""
    for count in REQUESTS:
        yield "decision", count, count, partial(_decide, q, states[:count])
    for rows, batch in TRAINING:
        points = draw_points(rows, rng=stream(2, "devices"))
        yield "epoch", batch, rows, partial(q.update_batch, *points, batch_size=batch)


def _decide(q: QEnsembleRegressor, states: FloatArray) -> FloatArray:
    objective = q.objective(states, BETA)
    return cem_optimize_many(objective, len(states), ACTION_DIM, CEMConfig.fast(), rng=stream(3, "devices")).actions


def _spans(call: Callable[[], Any]) -> list[float]:
    """Return the seconds of each call; the first one, which may compile, is left out."""
    call()
    spans: list[float] = []
    deadline = time.perf_counter() + BUDGET
    while len(spans) < 3 or time.perf_counter() < deadline:
        began = time.perf_counter()
        call()  # returns numpy arrays, or has written weights back, so a card has finished
        spans.append(time.perf_counter() - began)
    return spans
