"""Visitors who come back, in worlds that are hard in one way each: what learners reach, in % of the optimum (minutes).

Which learners look ahead, and which of them still do so after a shock, from rewards that are rare, or cut short?
"""

from studies.axes.measuring import measure
from studies.axes.page import build_page

__all__ = ["build_page", "measure"]
