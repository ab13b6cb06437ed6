"""What a NeuralUCB decision costs, by candidates and parameters (minutes, on a machine at rest).

Is exact NeuralUCB too dear to serve, as its publication says?
"""

from studies.bottleneck.page import build_page
from studies.bottleneck.timing import measure

__all__ = ["build_page", "measure"]
