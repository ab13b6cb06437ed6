"""Whether CEM ends in other places because there are several optima, or because it stops too soon."""

from zoosim.studies.cem_optima.ends import measure
from zoosim.studies.cem_optima.story import tell

__all__ = ["measure", "tell"]
