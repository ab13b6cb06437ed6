"""Q-ensemble in trust regions and behind guardrails, for ever around one point or around the last (some 40 minutes).

Does a trust region help early, what do guardrails cost, and what does it bring to walk far in small steps?
"""

from studies.trust_region.courses import measure
from studies.trust_region.page import build_page

__all__ = ["build_page", "measure"]
