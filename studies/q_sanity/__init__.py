"""An ensemble learns a quadratic of known values, and CEM looks for its best action (a minute).

Do the networks learn a quadratic whose values are known, and does CEM then find its best action?
"""

from studies.q_sanity.fits import measure
from studies.q_sanity.page import build_page

__all__ = ["build_page", "measure"]
