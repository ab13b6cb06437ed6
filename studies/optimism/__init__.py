"""Schedules of optimism for q-ensemble: none, constant, falling, growing; with new and with known products (minutes).

How much should mean + beta std add for uncertainty, and does it take more where the catalogue is new?
"""

from studies.optimism.measuring import measure
from studies.optimism.page import build_page

__all__ = ["build_page", "measure"]
