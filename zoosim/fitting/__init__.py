"""A recommendation world estimated from a log: segments, categories, a click table, and how well it fits."""

from zoosim.fitting.click_table import Estimates, estimate_clicks
from zoosim.fitting.fit import Cell, FittedWorld, fit_world
from zoosim.fitting.holdout import Fit, check_fit, split_log

__all__ = [
    "Cell",
    "Estimates",
    "Fit",
    "FittedWorld",
    "check_fit",
    "estimate_clicks",
    "fit_world",
    "split_log",
]
