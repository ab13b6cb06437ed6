"""A hundred new products among 1,000 known ones, some of which are the best for a segment of visitors.

How soon is a product found that is the best for a segment, and what does exploring the others cost?
"""

from studies.cold_start.page import build_page
from studies.cold_start.runs import measure

__all__ = ["build_page", "measure"]
