"""Optimizers of actions: functions over arrays. The objective takes all candidates at once."""

from zoosim.optimizers.cem import CEMConfig, CEMResult, CEMResults, cem_optimize, cem_optimize_many
from zoosim.optimizers.projection import project_trust_region

__all__ = [
    "CEMConfig",
    "CEMResult",
    "CEMResults",
    "cem_optimize",
    "cem_optimize_many",
    "project_trust_region",
]
