"""Visitors who come back: what bandits, tables and networks learn, after so many visits, in % of the exact optimum.

How many visits does it take to learn to look ahead, and what do policies reach that look at the next click?
"""

from studies.session_learners.measuring import measure
from studies.session_learners.page import build_page

__all__ = ["build_page", "measure"]
