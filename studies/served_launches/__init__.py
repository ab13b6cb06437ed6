"""Launches in shops that drive a running service over HTTP, beside the same launches computed (hours).

Does a service launch, ship and take back models as `launches` computes it, with the same visitors?
"""

from studies.served_launches.measuring import measure
from studies.served_launches.page import build_page

__all__ = ["build_page", "measure"]
