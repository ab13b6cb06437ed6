"""Guardrails of a launch: false alarms under rewards that swing, and events until a drop is found (ten minutes).

How often does the sequential test of the difference to the holdback take back a policy that is as good, how soon does
it find one that is not, and was that said beforehand?
"""

from studies.guardrails.measuring import measure
from studies.guardrails.page import build_page

__all__ = ["build_page", "measure"]
