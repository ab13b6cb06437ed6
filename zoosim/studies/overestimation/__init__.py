"""By how much critics of boosts overrate the actions that they pick themselves."""

from zoosim.studies.overestimation.picks import measure
from zoosim.studies.overestimation.story import tell

__all__ = ["measure", "tell"]
