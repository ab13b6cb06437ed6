"""A shop whose clicks cease: how soon a service over HTTP freezes learning, and goes on by itself (ten minutes).

How long after a pixel breaks is learning frozen, and how long after it is mended does it go on?
"""

from studies.broken_pixel.measuring import measure
from studies.broken_pixel.page import build_page

__all__ = ["build_page", "measure"]
