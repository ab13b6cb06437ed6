"""Learners of boosts and of templates by visits, beside what vectors and templates can reach at best."""

from zoosim.studies.continuous_vs_discrete.courses import measure
from zoosim.studies.continuous_vs_discrete.story import tell

__all__ = ["measure", "tell"]
