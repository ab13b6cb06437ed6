"""Standardised errors and coverage of an ensemble's spread, before and after recalibration (minutes).

Are the uncertainties honest, about a mean and about single rewards?
"""

from studies.calibration.measuring import measure
from studies.calibration.page import build_page

__all__ = ["build_page", "measure"]
