"""How often the intervals of off-policy estimates hold, on worlds whose truth is known."""

from zoosim.studies.ope_coverage.measuring import measure
from zoosim.studies.ope_coverage.story import tell

__all__ = ["measure", "tell"]
