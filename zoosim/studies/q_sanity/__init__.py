"""Whether an ensemble learns a quadratic whose values are known, and a search on it finds the best action."""

from zoosim.studies.q_sanity.fits import measure
from zoosim.studies.q_sanity.story import tell

__all__ = ["measure", "tell"]
