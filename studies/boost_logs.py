"""Simulated logs of continuous boosts of known truth: visitors differ in the boosts that serve them best."""

from typing import NamedTuple

import numpy as np

from studies.known_logs import log_of
from zoosim.core.action_space import BOOSTS
from zoosim.core.types import FloatArray
from zoosim.logs.log import Log

NOISE = 0.5


class BoostSettings(NamedTuple):
    """What a log is made of: `n` visits, `d` boosts; the target is off what serves best by `distance` in each boost.

    What is lost by a boost is its square off the best, or where `kinked` its size.
    """

    d: int
    distance: float
    n: int
    kinked: bool = False


class BoostLogs:
    """Logs of boosts drawn from all of [-1, 1]^d alike, judged by kernels.

    Kernels estimate what a blurred target earns, so intervals promise nothing; the verdict is to tell where they hold.
    """

    family = "kernel-"
    misrecorded = False
    faulty = alike = True
    effective = reward_range = None
    largest = np.inf

    def __init__(self, settings: BoostSettings, rng: np.random.Generator) -> None:
        self.settings = settings
        self.tastes = rng.normal(size=(2, settings.d))

    @property
    def truth(self) -> float:
        """What the target earns a visit: it is as far off for every visitor."""
        s = self.settings
        return 1.0 - (abs(s.distance) if s.kinked else s.distance**2)

    def draw(self, rng: np.random.Generator) -> tuple[Log, FloatArray]:
        """Draw a log, and the target's boosts for its visits `(n, d)`."""
        s = self.settings
        features, actions = rng.normal(size=(s.n, 2)), rng.uniform(-1.0, 1.0, (s.n, s.d))
        best = 0.6 * np.tanh(features @ self.tastes)
        off = np.abs(actions - best)
        rewards = 1.0 - (off if s.kinked else off**2).mean(axis=1) + NOISE * rng.normal(size=s.n)
        densities = np.full(s.n, 2.0**-s.d)
        log = log_of(actions, densities, rewards, features, 0, action_space=BOOSTS, a_max=1.0)
        return log, best + s.distance
