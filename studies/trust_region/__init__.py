"""Q-ensemble in trust regions around the static best, and behind the guardrail (some 15 minutes).

Does a trust region around the static best help early, and what does the rank-change guardrail cost?
"""

from studies.trust_region.courses import measure
from studies.trust_region.page import build_page

__all__ = ["build_page", "measure"]
