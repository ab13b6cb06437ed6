"""How often the verdict on an off-policy estimate is right, on worlds whose truth is known."""

from zoosim.studies.ope_verdict.measuring import measure
from zoosim.studies.ope_verdict.story import tell

__all__ = ["measure", "tell"]
