"""Recommendation and search worlds estimated from logs, and how well they fit."""

from zoosim.fitting.checks import Checks, check_fit
from zoosim.fitting.fit import FittedModels, fit_shop

__all__ = ["Checks", "FittedModels", "check_fit", "fit_shop"]
