"""Cases with a known truth: a world, the policy that writes the log, the policy that is judged, and a size.

Each is drawn from its own number alone, so they are fixed in advance; odd numbers are held out from all tuning.
"""

import numpy as np

from studies.known_logs import KnownLogs, Settings
from zoosim.core.rng import stream
from zoosim.core.types import FloatArray
from zoosim.logs.log import Log

TOTAL = 200


class Case(KnownLogs):
    """Case `number`: its world, its policies and its logs."""

    def __init__(self, number: int) -> None:
        rng = stream(0, "off-policy case", str(number))
        super().__init__(_draw(rng), rng)
        self.number = number

    @property
    def held_out(self) -> bool:
        """Tell whether the case is held out from tuning."""
        return self.number % 2 == 1

    def log(self, seed: int) -> tuple[Log, FloatArray]:
        """Draw a log, and the target's probabilities for its rows `(n, K)`."""
        return self.draw(stream(seed, "off-policy log", str(self.number)))


def _draw(rng: np.random.Generator) -> Settings:
    rows_a_user = int(rng.choice((1, 1, 5, 20)))
    return Settings(
        contexts=int(rng.choice((2, 4, 8))),
        actions=int(rng.choice((4, 10, 30))),
        rate=float(rng.choice((0.005, 0.02, 0.1, 0.3))),
        distance=float(rng.choice((0.2, 0.5, 1.0, 2.0, 3.0))),
        floor=float(rng.choice((0.0, 0.02, 0.2, 1.0))),
        missing=int(rng.choice((0, 0, 0, 0, 1, 2))),
        n=int(rng.choice((300, 1_000, 3_000, 10_000))),
        rows_a_user=rows_a_user,
        taste=float(rng.choice((0.0, 0.8))) if rows_a_user > 1 else 0.0,
        drift=float(rng.choice((0.0, 0.0, 0.5))),
        wrong=float(rng.choice((0.0, 0.0, 0.0, 0.1, 0.5))),
        amounts=bool(rng.random() < 0.25),
        coarse=bool(rng.random() < 0.3),
    )
