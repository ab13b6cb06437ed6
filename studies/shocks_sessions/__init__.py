"""Visitors who come back, whose tastes change twice: after how many visits learners are back at 95% of the optimum.

After a loud and after a silent shock, who looks ahead again, and how soon?
"""

from studies.shocks_sessions.measuring import measure
from studies.shocks_sessions.page import build_page

__all__ = ["build_page", "measure"]
