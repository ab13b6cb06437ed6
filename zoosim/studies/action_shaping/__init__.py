"""What becomes of boosts on features that say nothing about a query, and what a penalty on their size does."""

from zoosim.studies.action_shaping.story import tell
from zoosim.studies.action_shaping.weights import measure

__all__ = ["measure", "tell"]
