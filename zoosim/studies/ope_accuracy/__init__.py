"""How far off off-policy estimates are, by log size, distance of the policy, and drift, on worlds of known truth."""

from zoosim.studies.ope_accuracy.measuring import measure
from zoosim.studies.ope_accuracy.story import tell

__all__ = ["measure", "tell"]
