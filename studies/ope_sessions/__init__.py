"""What a log of visitors who come back tells of other policies, on a world of known truth (some 15 minutes).

How near the truth are estimates of what visitors bring in all, and does the verdict say where they are not?
"""

from studies.ope_sessions.measuring import measure
from studies.ope_sessions.page import build_page

__all__ = ["build_page", "measure"]
