"""Forecasts of a simulated quarter, and what came of them: how many intervals held, by kind (hours).

Do the intervals that `train`, `evaluate`, `recommend` and `deploy launch` print hold as often as they say?
"""

from studies.forecast_ledger.measuring import measure
from studies.forecast_ledger.page import build_page

__all__ = ["build_page", "measure"]
