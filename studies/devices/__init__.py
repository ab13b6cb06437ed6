"""What a graphics card brings a Q-ensemble: decisions and training beside the processor (a minute, at rest).

From how many requests at once on does a graphics card pay for a Q-ensemble?
"""

from studies.devices.page import build_page
from studies.devices.timing import measure

__all__ = ["build_page", "measure"]
