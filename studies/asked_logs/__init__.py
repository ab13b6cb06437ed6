"""Visitors who come back: what fit-world answers by logs of shops whose truth is known (some minutes).

Does a log tell whether planning pays, and do the intervals hold?
"""

from studies.asked_logs.measuring import measure
from studies.asked_logs.page import build_page

__all__ = ["build_page", "measure"]
