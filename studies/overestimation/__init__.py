"""What critics promise for the boosts that they pick themselves, and what these earn (some 10 minutes).

By how much do critics overrate the actions that they pick themselves?
"""

from studies.overestimation.picks import measure
from studies.overestimation.story import tell

__all__ = ["measure", "tell"]
