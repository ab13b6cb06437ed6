"""What the Open Bandit logs say of the policies that wrote them: each policy judged by the other's log."""

from zoosim.studies.open_bandit.judging import measure
from zoosim.studies.open_bandit.story import tell

__all__ = ["measure", "tell"]
