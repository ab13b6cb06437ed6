"""Policies with floors of CM2 and of strategic purchases beside the best that is possible (some 25 minutes).

How much reward does a floor cost, how near do multipliers that adapt online come to that in 2,000 visits, and what does
a fixed guardrail cost?
"""

from studies.constraints.measuring import measure
from studies.constraints.page import build_page

__all__ = ["build_page", "measure"]
