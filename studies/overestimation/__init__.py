"""What critics promise for the boosts that they pick themselves, and what these earn (some 10 minutes).

By how much do critics overrate the actions that they pick themselves?
"""

from studies.overestimation.page import build_page
from studies.overestimation.picks import measure

__all__ = ["build_page", "measure"]
