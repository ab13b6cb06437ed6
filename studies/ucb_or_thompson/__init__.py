"""Upper confidence bounds against Thompson sampling, on the same models: reward, delay, widths and time.

When should a policy explore by an upper confidence bound, and when by Thompson sampling?
"""

from studies.ucb_or_thompson.measuring import measure
from studies.ucb_or_thompson.page import build_page

__all__ = ["build_page", "measure"]
