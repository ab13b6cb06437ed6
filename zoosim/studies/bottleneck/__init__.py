"""What a decision of NeuralUCB costs in time and memory, by candidates and parameters: published and exact forms."""

from zoosim.studies.bottleneck.story import tell
from zoosim.studies.bottleneck.timing import measure

__all__ = ["measure", "tell"]
