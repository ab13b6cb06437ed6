"""What a decision over boosts costs: loop, CEM, gradients, actor, policy (a minute, on a machine at rest).

Does a decision over continuous boosts fit into 50 ms?
"""

from studies.latency.page import build_page
from studies.latency.timing import measure

__all__ = ["build_page", "measure"]
