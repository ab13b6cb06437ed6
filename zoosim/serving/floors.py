"""Floors and ceilings of the models that decide: how each stands, and a line where one cannot be met."""

import logging
from collections.abc import Iterable

from zoosim.optimizers.dual_ascent import ConstraintReport, Standing
from zoosim.policies.base import Policy
from zoosim.policies.constraints import Constrained
from zoosim.serving.arm_replica import ArmReplica

logger = logging.getLogger("zoosim.serving")


class FloorWatch:
    """Says of each floor and ceiling of an arm, once, that it cannot be met."""

    def __init__(self) -> None:
        """Begin with nothing said."""
        self._said: set[tuple[str, str]] = set()

    def look(self, arms: Iterable[ArmReplica]) -> None:
        """Say what the policies of arms have learned by now."""
        for arm in arms:
            for report in floors_of(arm.model.policy):
                key = (arm.origin, report.constraint.name)
                if report.standing == Standing.IMPOSSIBLE and key not in self._said:
                    self._said.add(key)
                    logger.warning("arm %s: %s", arm.name, report.sentence)


def floors_of(policy: Policy) -> tuple[ConstraintReport, ...]:
    """Return how the floors and ceilings of a policy stand; none for a policy without."""
    return policy.constraints if isinstance(policy, Constrained) else ()
