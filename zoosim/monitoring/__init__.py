"""Detectors of drift: has the mean of a stream changed?"""

from zoosim.monitoring.adwin import ADWIN
from zoosim.monitoring.detector import Detector
from zoosim.monitoring.glr import GLR
from zoosim.monitoring.page_hinkley import PageHinkley

__all__ = ["ADWIN", "GLR", "Detector", "PageHinkley"]
