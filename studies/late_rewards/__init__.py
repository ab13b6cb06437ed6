"""What rewards that come late, or in batches, cost each policy in the gauntlet's shop (ten minutes per 8 seeds).

How much of the oracle's rewards does each policy lose when rewards come 100, 1,000 or 5,000 visits late?
"""

from studies.late_rewards.page import build_page
from studies.late_rewards.runs import measure

__all__ = ["build_page", "measure"]
