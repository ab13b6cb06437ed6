"""Rehearsed launches beside true ones, in shops of known truth: is the chance of regret what it says (20 minutes)?

Of launches that are rehearsed in the shop fitted to a log, then made in the true one: how often are they regretted,
against the chance that was printed, and how often do cost and duration lie within their intervals?
"""

from studies.launch_rehearsal.measuring import measure
from studies.launch_rehearsal.page import build_page

__all__ = ["build_page", "measure"]
