"""Settings of CEM: members and iterations, elites and smoothing, warm starts, dimensions (minutes).

What do fewer members or iterations, other elites, a warm start and more dimensions cost a search, or bring it?
"""

from studies.cem_settings.measuring import measure
from studies.cem_settings.page import build_page

__all__ = ["build_page", "measure"]
