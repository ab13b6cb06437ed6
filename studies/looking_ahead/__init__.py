"""Visitors who come back, by other laws: what myopia, the best rule and the optimum are worth, exactly (a minute).

When does it pay to look ahead, and when is a bandit, or one rule, enough?
"""

from studies.looking_ahead.measuring import measure
from studies.looking_ahead.page import build_page

__all__ = ["build_page", "measure"]
