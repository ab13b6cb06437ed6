"""Searchers who come back by how pleased they were: what the best boosts of one visit leave of the best (2 minutes).

Does it pay to look ahead in search, where each visit begins anew?
"""

from studies.search_returns.measuring import measure
from studies.search_returns.page import build_page

__all__ = ["build_page", "measure"]
