"""What a decision over continuous boosts costs: a loop over samples, CEM, gradients, an actor, a whole policy."""

from zoosim.studies.latency.story import tell
from zoosim.studies.latency.timing import measure

__all__ = ["measure", "tell"]
