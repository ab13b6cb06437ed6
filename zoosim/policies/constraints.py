"""Floors of what policies bring per visit beside their reward, as parameters that policies share.

A policy that mixes `Constrained` in asks `prices` what a unit of each quantity is worth now, decides by the reward plus
that, and moves the multipliers by each visit of its own. The multipliers are part of its saved state, and a decision's
probabilities are those under the multipliers in force.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zoosim.core.errors import ConfigError
from zoosim.core.parameters import numbers_by_name, parameter, unknown
from zoosim.core.types import FloatArray
from zoosim.optimizers.dual_ascent import Constraint, ConstraintReport, DualAscent, Standing
from zoosim.policies.base import Policy, policy_name

CHECKED = 100
"""Visits from one check of whether constraints can be met to the next."""


class Constrained(Policy):
    """A policy with floors, whose Lagrange multipliers adapt to what visits bring (`zoosim.optimizers.dual_ascent`)."""

    floors: str = parameter("", by_name=True, help="least mean of parts of a visit's reward, such as {cm2: 1.2}")
    dual_step: float = parameter(
        8.0, low=0.01, high=100, help="multipliers move by this / (100 + visits, 10,000 at most) times the relative gap"
    )

    _dual: DualAscent
    _warned = False

    def _constrain(self, known: Sequence[str] | None = None, more: Sequence[Constraint] = ()) -> None:
        """Begin with the floors of the parameters.

        Args:
            known: Quantities that may have a floor; None where any name may be one.
            more: Further constraints.

        Raises:
            ConfigError: a floor is of an unknown quantity.
        """
        floors = numbers_by_name(self.floors)
        for name in floors:
            if known is not None and name not in known:
                raise ConfigError(unknown(f"{policy_name(type(self))}.floors: unknown part", name, list(known)))
        constraints = [Constraint(name, limit) for name, limit in floors.items()]
        self._dual = DualAscent([*constraints, *more], self.dual_step)

    @property
    def constraints(self) -> tuple[ConstraintReport, ...]:
        """What is known of each floor and ceiling: whether it is met, and if not, whether it can be."""
        return self._dual.reports()

    @property
    def prices(self) -> dict[str, float]:
        """What a unit of each constrained quantity is worth now, beside what the reward counts for it."""
        names = [constraint.name for constraint in self._dual.constraints]
        return dict(zip(names, self._dual.prices().tolist(), strict=True))

    def _ascend(self, reward: float, values: FloatArray) -> None:
        """Move the multipliers by a visit, and warn, once, of a constraint that cannot be met.

        Args:
            reward: What the visit earned, without prices.
            values: Its quantities, `(m,)`.
        """
        self._dual.update(reward, values)
        if self._warned or self._dual.visits % CHECKED:
            return
        for report in self.constraints:
            if report.standing == Standing.IMPOSSIBLE:
                self._warned = True
                warnings.warn(f"{policy_name(type(self))}: {report.sentence}", RuntimeWarning, stacklevel=3)

    def _priced(self, reward: float, values: FloatArray) -> float:
        """Return a reward plus what a visit's quantities `(m,)` are worth now."""
        return reward + float(self._dual.prices() @ values)

    def _learned_attributes(self) -> Mapping[str, str]:
        # Of those that have constraints alone, so that states which others have saved are read as before.
        more = {"dual": "_dual"} if self._dual.constraints else {}
        return {**super()._learned_attributes(), **more}

    def _quantities(self, parts: Mapping[str, Any]) -> FloatArray:
        """Return the constrained quantities of a visit `(m,)` by its parts, which name all of them."""
        return np.array([float(parts[constraint.name]) for constraint in self._dual.constraints])
