"""Lagrange multipliers that adapt online: dual ascent on floors and ceilings of what a visit brings.

Maximise E[R] subject to E[g_c] >= floor_c, or <= ceiling_c, for each constraint c. Its Lagrangian is
E[R] + sum_c lambda_c (E[g_c] - floor_c), so a policy that maximises R + sum_c price_c g_c at each visit, with price
lambda_c of a floor and -lambda_c of a ceiling, maximises it. The multipliers ascend along the dual's stochastic
gradient, the gap of one visit (Arrow, Hurwicz & Uzawa 1958; as bandits: Immorlica et al. 2019,
https://arxiv.org/abs/1811.11881), by multiplicative steps (mirror descent in the dual, Balseiro, Lu & Mirrokni 2020,
https://arxiv.org/abs/2002.10421):

    level_c <- level_c exp(step_t gap_c / size_c), kept in [LEAST, MOST]
    lambda_c = (level_c - LEAST) mean|R| / size_c
    step_t = step / (EARLY + min(t, MEMORY))

with gap_c = floor_c - g_c, or g_c - ceiling_c; size_c the larger of |floor_c| and mean|g_c|; t the visits so far. A
level has no unit: at 1 the constraint counts as much as the reward. Multiplicative, since prices that do the same to
different quantities differ by orders of magnitude: what matters is by which factor one is wrong. Steps that fall as 1/t
average the noise of visits, whose deviation is often more than twice their mean; they stop falling after `MEMORY`
visits, so that multipliers follow a market that changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from math import sqrt
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from zoosim.core.limits import COUNTS, NOT_NEGATIVE, Limits
from zoosim.core.state import Stateful
from zoosim.core.types import FloatArray, IntArray

FIRST, LEAST, MOST = 0.03, 0.003, 10.0
"""Levels of multipliers at first, at least, where the multiplier is 0, and at most."""

EARLY = 100
"""Visits that the first steps are as small as if there had been so many before."""

MEMORY = 10_000
"""Visits after which steps do not get smaller any more."""

RECENT = 500
"""Visits over which the means of reports reach back."""

FEWEST = 100
"""Visits before which nothing is said about a constraint."""

ERRORS = 2.0
"""Standard errors by which a mean must miss its limit for that to be said."""


class Constraint(NamedTuple):
    """A limit of the mean of a quantity `name` per visit: the least one, a floor, or else the largest, a ceiling."""

    name: str
    limit: float
    is_floor: bool = True


class Standing(StrEnum):
    """What is known of a constraint."""

    UNKNOWN = "too few visits to tell"
    MET = "met"
    RISING = "not met yet, and its multiplier rises"
    IMPOSSIBLE = "cannot be met: not even at the largest multiplier"


class ConstraintReport(NamedTuple):
    """A `constraint`, the mean of its quantity over recent visits with its standard error, and its `multiplier`.

    The multiplier is in units of the reward per unit of the quantity.
    """

    constraint: Constraint
    mean: float
    error: float
    multiplier: float
    standing: Standing

    @property
    def sentence(self) -> str:
        """The report in words."""
        name, limit, is_floor = self.constraint
        what = f"{name}: {'floor' if is_floor else 'ceiling'} {limit:g} per visit"
        if self.standing == Standing.UNKNOWN:
            return f"{what}, {self.standing}"
        return (
            f"{what}, {self.mean:.4g} +- {self.error:.2g} of late, {self.standing} (multiplier {self.multiplier:.3g})"
        )


class DualAscent(Stateful):
    """Multipliers of `constraints`, in their order; `update` moves them by one visit, and `prices` reads them."""

    learned: ClassVar = ("_levels", "_visits", "_sizes", "_recent")
    _levels: Annotated[FloatArray, Limits(LEAST, MOST)]
    _visits: Annotated[IntArray, COUNTS]
    _sizes: Annotated[FloatArray, NOT_NEGATIVE]

    def __init__(self, constraints: Sequence[Constraint], step: float) -> None:
        """Begin with small multipliers.

        Args:
            constraints: The m constraints; there may be none.
            step: The numerator of the steps, above 0.
        """
        self.constraints = tuple(constraints)
        self._step = step
        self._limits = np.array([constraint.limit for constraint in constraints], float)
        self._signs = np.array([1.0 if constraint.is_floor else -1.0 for constraint in constraints])
        m = len(self.constraints)
        self._levels = np.full(m, FIRST)
        self._visits = np.zeros(1, np.int64)
        self._sizes = np.zeros(1 + m)  # means of |reward|, and of each |quantity|
        self._recent = np.zeros((2, m))  # means and variances of quantities over recent visits

    @property
    def visits(self) -> int:
        """The number of visits that moved the multipliers."""
        return int(self._visits[0])

    def prices(self) -> FloatArray:
        """Return what a unit of each quantity is worth, `(m,)`, in units of the reward; below 0 under a ceiling."""
        prices: FloatArray = self._signs * (self._levels - LEAST) * self._sizes[0] / self._units()
        return prices

    def update(self, reward: float, values: FloatArray) -> None:
        """Move the multipliers by one visit.

        Args:
            reward: What the visit earned, without prices.
            values: Its quantities, `(m,)`.
        """
        visits = int(self._visits[0])
        n = visits + 1
        self._visits[0] = n
        self._sizes += (np.abs(np.array([reward, *values])) - self._sizes) / n
        gaps = self._signs * (self._limits - values) / self._units()
        moves = self._step / (EARLY + min(visits, MEMORY)) * gaps
        # A logarithm that is bounded first, as the exponential of a wild visit would be infinite.
        self._levels = np.exp(np.clip(np.log(self._levels) + moves, np.log(LEAST), np.log(MOST)))
        self._levels = np.clip(self._levels, LEAST, MOST)
        share = 1.0 / min(n, RECENT)
        means, variances = self._recent
        deviations = values - means
        means += share * deviations
        variances += share * ((1.0 - share) * deviations**2 - variances)

    def reports(self) -> tuple[ConstraintReport, ...]:
        """Return what is known of each constraint."""
        multipliers = np.abs(self.prices())
        return tuple(self._report(number, float(multipliers[number])) for number in range(len(self.constraints)))

    def _report(self, number: int, multiplier: float) -> ConstraintReport:
        visits = int(self._visits[0])
        mean, variance = self._recent[:, number].tolist()
        # Exponential weights of rate 1/N have the error of a plain mean of 2 N - 1 visits.
        error = sqrt(variance / min(max(visits, 1), 2 * RECENT - 1))
        standing = self._standing(number, mean, error)
        return ConstraintReport(self.constraints[number], mean, error, multiplier, standing)

    def _standing(self, number: int, mean: float, error: float) -> Standing:
        if self._visits[0] < FEWEST:
            return Standing.UNKNOWN
        gap = float(self._signs[number] * (self._limits[number] - mean))
        if gap <= ERRORS * error:
            return Standing.MET
        return Standing.IMPOSSIBLE if self._levels[number] >= MOST else Standing.RISING

    def _units(self) -> FloatArray:
        units = np.maximum(np.abs(self._limits), self._sizes[1:])
        return np.where(units > 0.0, units, 1.0)

    def _state_flaws(self, values: Mapping[str, Any]) -> Iterator[str]:
        """Yield whether a variance is below 0."""
        if (values["recent"][1] < 0.0).any():
            yield "recent holds a variance below 0"
