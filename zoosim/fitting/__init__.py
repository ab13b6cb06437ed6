"""A recommendation world estimated from a log, and how well it fits."""

from zoosim.fitting.checks import Checks, check_fit
from zoosim.fitting.fit import FittedModels, fit_shop

__all__ = ["Checks", "FittedModels", "check_fit", "fit_shop"]
