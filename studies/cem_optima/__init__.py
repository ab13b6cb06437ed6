"""CEM from ten starts: local optima, too few samples, or a search that was not finished (minutes)?

Does CEM end in other places because there are several optima, or because it stops too soon?
"""

from studies.cem_optima.ends import measure
from studies.cem_optima.page import build_page

__all__ = ["build_page", "measure"]
