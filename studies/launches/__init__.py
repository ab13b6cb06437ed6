"""Launches in simulated shops: worse models taken back, better ones shipped, beside GrowthBook's ramp (two minutes).

What does it cost to launch a model that earns less, and how long does one that earns more wait until it has all
visitors, by the default plan of a launch and by a ramp with a fixed end?
"""

from studies.launches.measuring import measure
from studies.launches.page import build_page

__all__ = ["build_page", "measure"]
