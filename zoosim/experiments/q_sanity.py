"""q-sanity: do the networks learn a quadratic whose values are known?"""

from collections.abc import Iterable

import numpy as np
import polars as pl

from zoosim.core.types import FloatArray
from zoosim.experiments.quadratic import Fitted, fit_both

QUESTION = "Do the networks learn a quadratic whose values are known?"
PRINTED_MSE = 0.01
"""The error below which the publication takes the check as passed."""


def measure_sanity(seeds: Iterable[int]) -> pl.DataFrame:
    """Return a row a seed and method: errors on 5,000 points that neither saw.

    Columns: `seed`, `method` (`published` or `q-ensemble`), `mse` of the mean, `member_mse`, the mean over members,
    `sigma`, the mean spread, and `largest`, the largest error.
    """
    return pl.DataFrame([row for seed in seeds for row in _rows(seed, fit_both(seed))])


def _rows(seed: int, fitted: Fitted) -> list[dict[str, object]]:
    points = fitted.tested
    found = {
        "published": fitted.published.members(np.hstack(points[:2])),
        "q-ensemble": fitted.ours.members(points.states, points.actions),
    }
    return [{"seed": seed, "method": name, **_errors(members, points.values)} for name, members in found.items()]


def _errors(members: FloatArray, values: FloatArray) -> dict[str, float]:
    errors = members.mean(axis=0) - values
    return {
        "mse": float(np.mean(errors**2)),
        "member_mse": float(np.mean((members - values) ** 2)),
        "sigma": float(members.std(axis=0).mean()),
        "largest": float(np.abs(errors).max()),
    }
