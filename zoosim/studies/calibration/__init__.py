"""Whether uncertainties are honest: about a mean on the quadratic, and about single rewards in the search shop."""

from zoosim.studies.calibration.measuring import measure
from zoosim.studies.calibration.story import tell

__all__ = ["measure", "tell"]
