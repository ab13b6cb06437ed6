"""Visits that a critic was asked about before it learned from them, and what they say of its spread.

Each visit is held out once, just before it is learned from (prequential, Dawid 1984), so that none is lost to training.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.state import Stateful
from zoosim.core.types import FloatArray
from zoosim.models.calibration import Recalibration, adaptive_beta, fit_recalibration

FEWEST = 20
"""Held-out visits before anything is fitted to them."""

LEAST = 1e-9
"""The least spread that errors are divided by."""


class Judged(NamedTuple):
    """Predictions and what came of them, the oldest first: `mean`, `std` and `reward` of n visits, each `(n,)`."""

    mean: FloatArray
    std: FloatArray
    reward: FloatArray


class HeldOutVisits(Stateful):
    """The last visits with the mean and the standard deviation that were predicted for them, on the critic's scale."""

    learned = ("_rows", "_count")

    def __init__(self, capacity: int) -> None:
        """Hold `capacity` visits at most; none for 0."""
        self._rows = np.zeros((capacity, 5))  # mean, std, target; and what a target of 0 and of 1 more mean in EUR
        self._count = np.zeros(1, np.int64)

    def add(self, mean: float, std: float, target: float, shift: float, unit: float) -> None:
        """Take in a visit; a number y on the critic's scale is shift + unit y in EUR.

        Args:
            mean, std: What the critic expected of it, and how surely, on its scale.
            target: What it earned, on the critic's scale.
            shift, unit: The scale, in EUR.
        """
        self._rows[int(self._count[0]) % len(self._rows)] = mean, std, target, shift, unit
        self._count += 1

    def judged(self) -> Judged:
        """Return the visits in EUR."""
        mean, std, target, shift, unit = self._in_order().T
        return Judged(shift + unit * mean, unit * std, shift + unit * target)

    def beta(self, level: float) -> float | None:
        """Return the beta at which mean + beta std bounds a share `level` of them; None where there are too few.

        It is the upper end of a conformal limit on the reward of the next visit (Vovk et al. 2005).

        Args:
            level: The share, between 0 and 1.
        """
        mean, std, target, _, _ = self._in_order().T
        if len(mean) < FEWEST:
            return None
        beta = adaptive_beta(target, mean, np.maximum(std, LEAST), level)
        return beta if np.isfinite(beta) else None

    def recalibration(self) -> Recalibration:
        """Return what mends the standard deviation; one that leaves it alone where there are too few visits."""
        mean, std, target, _, _ = self._in_order().T
        if len(mean) < FEWEST or np.ptp(target - mean) == 0.0:
            return Recalibration(1.0, 0.0, 0.0)
        return fit_recalibration(target, mean, np.maximum(std, LEAST))

    def _in_order(self) -> FloatArray:
        count = int(self._count[0])
        return np.roll(self._rows, -count, axis=0)[-min(count, len(self._rows)) or len(self._rows) :]
