"""Visitors who differ beyond what is known of them: one model for all, or a deviation for each (ten minutes).

From how many visits of a visitor on does it pay to learn tastes of his own, and what does it take?
"""

from studies.own_tastes.measuring import measure
from studies.own_tastes.page import build_page

__all__ = ["build_page", "measure"]
