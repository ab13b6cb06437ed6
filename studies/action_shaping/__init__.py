"""Boosts of features that say nothing about a query, and what a penalty does to them (minutes).

What happens when a learner boosts features that do not matter for a query?
"""

from studies.action_shaping.page import build_page
from studies.action_shaping.weights import measure

__all__ = ["build_page", "measure"]
