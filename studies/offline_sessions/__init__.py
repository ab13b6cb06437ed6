"""Visitors who come back: what can be learned from the log of a bandit alone, in % of the exact optimum (minutes).

Is the log of a shop that looks at the next click enough to learn to look ahead?
"""

from studies.offline_sessions.measuring import measure
from studies.offline_sessions.page import build_page

__all__ = ["build_page", "measure"]
