"""How far off off-policy estimators are, by log size, distance and drift, on known truth (minutes).

How far off is each estimator, with more rows, a policy further away, and a world that moves?
"""

from studies.ope_accuracy.measuring import measure
from studies.ope_accuracy.page import build_page

__all__ = ["build_page", "measure"]
