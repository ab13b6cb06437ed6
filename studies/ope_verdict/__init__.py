"""The verdict on policies judged by logs, on worlds of known truth: does it trust what it should (minutes)?

When the verdict on an estimate says trust, does the interval hold? And does it refuse in vain?
"""

from studies.ope_verdict.measuring import measure
from studies.ope_verdict.page import build_page

__all__ = ["build_page", "measure"]
