"""What trust regions and a guardrail on rank change do to a learner of boosts, and what they cost."""

from zoosim.studies.trust_region.courses import measure
from zoosim.studies.trust_region.story import tell

__all__ = ["measure", "tell"]
