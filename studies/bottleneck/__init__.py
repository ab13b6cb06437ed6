"""What a NeuralUCB decision costs, by candidates and parameters (minutes, on a machine at rest).

Is exact NeuralUCB too dear to serve, as its publication says?
"""

from studies.bottleneck.story import tell
from studies.bottleneck.timing import measure

__all__ = ["measure", "tell"]
