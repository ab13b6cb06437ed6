"""What happens when a parameter of `adaptive` is halved or doubled, in drawn shops (or of another policy: `policies`).

Is there a parameter that one would have to tune, because another value of it is worth a point or more?
"""

from studies.parameter_sensitivity.page import build_page
from studies.parameter_sensitivity.runs import measure

__all__ = ["build_page", "measure"]
