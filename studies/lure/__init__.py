"""Discounts that lure: what boosts bring that look ahead, and those that do not, in % of the exact optimum.

Does an actor-critic learn over continuous boosts what they do to a visitor's next visits?
"""

from studies.lure.measuring import measure
from studies.lure.page import build_page

__all__ = ["build_page", "measure"]
