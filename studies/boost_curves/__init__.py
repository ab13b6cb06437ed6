"""Learning curves of boosts and of templates on held-out visits, beside what both can reach at best (hours).

Do continuous boosts beat templates, by how much, and after how many visits?
"""

from studies.boost_curves.measuring import measure
from studies.boost_curves.page import build_page

__all__ = ["build_page", "measure"]
