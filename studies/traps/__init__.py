"""Mistakes in learning to look ahead, each a broken learner beside the right one (half an hour).

What does each of the usual mistakes cost, and by what is it noticed?
"""

from studies.traps.measuring import measure
from studies.traps.page import build_page

__all__ = ["build_page", "measure"]
