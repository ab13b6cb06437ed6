"""Measures of one run of one policy over one seed: pure functions of its rows."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zoosim.core.types import BoolArray, FloatArray

WINDOW = 500
"""Visits in the window that must reach the target for a recovery, and, by default, in the moving average."""

TARGET = 0.95
"""Fraction of oracle that counts as recovered."""

POINTS = 400
"""Points of a curve, at most."""


FIGURES = ["reward", "true_probability", "best_probability"]
"""The columns of a trial that become `TrialRows`, in their order."""


class TrialRows(NamedTuple):
    """The rows of a trial, each `(steps,)`: rewards, and true probabilities of the chosen and of the best product."""

    rewards: FloatArray
    true_probabilities: FloatArray
    best_probabilities: FloatArray


def oracle_fraction(rows: TrialRows, start: int, stop: int) -> float:
    """Return chosen over best true probabilities, each summed over visits `start` to `stop - 1`; 1 if both are 0."""
    best = rows.best_probabilities[start:stop].sum()
    return float(rows.true_probabilities[start:stop].sum() / best) if best > 0 else 1.0


def mean_reward(rows: TrialRows, start: int, stop: int) -> float:
    """Return the mean reward of visits `start` to `stop - 1`."""
    return float(rows.rewards[start:stop].mean())


def recovery(rows: TrialRows, shock: int, end: int) -> int | None:
    """Return the smallest k >= 0 whose window of visits shock + k to shock + k + 499 reaches 95% of oracle.

    Sums are of true probabilities; the window may not cross `end`, the next shock or the end of the run. None when no
    window does.
    """
    chosen = rows.true_probabilities[shock:end]
    best = rows.best_probabilities[shock:end]
    if len(chosen) < WINDOW:
        return None
    # Sums of the same numbers may differ by rounding: a window that just reaches the target counts.
    reached = np.flatnonzero(_window_sums(chosen) >= TARGET * _window_sums(best) - 1e-9)
    return int(reached[0]) if len(reached) else None


def _window_sums(values: FloatArray) -> FloatArray:
    return recent_sums(values, range(WINDOW, len(values) + 1), WINDOW)


def sample_steps(steps: int) -> Sequence[int]:
    """Return at most `POINTS` numbers of visits done, evenly spread, at which curves are drawn; the last is `steps`."""
    # Not from 0, where nothing is done yet and a mean would be 0 / 0.
    evenly_spread = np.linspace(max(1, steps // POINTS), steps, min(POINTS, steps))
    steps_done: list[int] = np.unique(evenly_spread.astype(int)).tolist()
    return steps_done


def curves(rows: TrialRows, at: Sequence[int], window: int = WINDOW) -> dict[str, FloatArray]:
    """Return the curves of a trial.

    Args:
        rows: The trial.
        at: Numbers of visits done, `(n,)`.
        window: Visits in a moving average.

    Returns:
        Each `(n,)`: over the last `window` visits `ctr` and the `share` of the oracle, and `clicks` and `regret` of all
        visits so far.
    """
    visits = np.asarray(at)
    chosen = recent_sums(rows.true_probabilities, at, window)
    best = recent_sums(rows.best_probabilities, at, window)
    return {
        "ctr": recent_sums(rows.rewards, at, window) / np.minimum(visits, window),
        "share": np.divide(chosen, best, out=np.ones(len(visits)), where=best > 0.0),
        "clicks": _cumulated(rows.rewards)[visits],
        "regret": _cumulated(rows.best_probabilities - rows.true_probabilities)[visits],
    }


def recent_sums(values: FloatArray | BoolArray, at: Sequence[int], window: int) -> FloatArray:
    """Return the sums `(n,)` of `values (steps,)` over the last `window` visits before each number of visits `at`."""
    ends = np.asarray(at)
    total = _cumulated(values)
    sums: FloatArray = total[ends] - total[np.maximum(ends - window, 0)]
    return sums


def _cumulated(values: FloatArray | BoolArray) -> FloatArray:
    """Return the sums of the first 0, 1, ..., n of `values (n,)`."""
    return np.concatenate([[0.0], np.cumsum(values)])
