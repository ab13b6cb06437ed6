"""Policies of a real shop judged by each other's logs: the Open Bandit Dataset (--data DIR, or ZOOSIM_DATA).

What do the real logs of a fashion shop say of each other's policies, and what can they not tell?
"""

from studies.open_bandit.judging import measure
from studies.open_bandit.page import build_page

__all__ = ["build_page", "measure"]
