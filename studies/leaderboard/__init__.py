"""Learners of all libraries by the result files of a folder, in worlds of visitors who come back with a known optimum.

Which learner looks ahead best, over all worlds, and where does each of them fail?
"""

from studies.leaderboard.measuring import measure
from studies.leaderboard.page import build_page

__all__ = ["build_page", "measure"]
