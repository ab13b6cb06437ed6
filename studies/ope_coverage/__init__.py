"""How often intervals of off-policy estimates hold, on worlds of known truth (some 10 minutes).

How often do the intervals of a policy judged by a log hold: products, templates, rankings, boosts?
"""

from studies.ope_coverage.measuring import measure
from studies.ope_coverage.page import build_page

__all__ = ["build_page", "measure"]
