"""Simulated logs of rankings of known truth: visitors read from the top, and who clicks looks less at what follows."""

from functools import cached_property
from itertools import permutations
from typing import NamedTuple

import numpy as np

from studies.known_logs import chosen, direction, effective_rows, log_of, softmax
from zoosim.core.action_space import RANKINGS
from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.log import Log

AFTER_CLICK, AFTER_NONE = 0.4, 0.9
"""How often a visitor who looked at a position looks at the next."""


class RankingSettings(NamedTuple):
    """What a log is made of: `n` visits that show `positions` of `actions`; `distance` and `floor` as in `Settings`."""

    distance: float
    floor: float
    n: int
    contexts: int = 4
    actions: int = 6
    positions: int = 3


class RankingLogs:
    """Logs whose rankings are drawn without replacement; all rankings can be listed, so the truth is exact.

    `logging` and `target` are the probabilities of the top position by context `(c, K)`, drawn from `rng`, as are click
    probabilities of who looks, `table`, and the contexts' `shares`.
    """

    family = "cascade-"
    misrecorded = faulty = False
    alike = True

    def __init__(self, settings: RankingSettings, rng: np.random.Generator) -> None:
        self.settings = s = settings
        self.table = np.clip(0.2 * np.exp(0.8 * rng.normal(size=(s.contexts, s.actions))), 0.0, 0.8)
        self.shares = rng.dirichlet(np.full(s.contexts, 3.0))
        scores = rng.normal(size=self.table.shape)
        self.logging = (1.0 - s.floor) * softmax(scores) + s.floor / s.actions
        self.target = softmax(scores + s.distance * direction(self.table, 0.0, rng))
        self.rankings = np.array(list(permutations(range(s.actions), s.positions)))

    @property
    def reward_range(self) -> tuple[float, float]:
        """The fewest and the most clicks of a visit."""
        return 0.0, float(self.settings.positions)

    @cached_property
    def truth(self) -> float:
        """How many clicks a visit of the target has."""
        looks = np.ones((len(self.shares), len(self.rankings)))
        earned = np.zeros_like(looks)
        for shown in self.rankings.T:
            rates = self.table[:, shown]
            earned += looks * rates
            looks *= rates * AFTER_CLICK + (1.0 - rates) * AFTER_NONE
        return float(self.shares @ (self._chances(self.target) * earned).sum(axis=1))

    @cached_property
    def effective(self) -> float:
        """How many visits of the target's own a log counts for in expectation, by the weights of whole rankings."""
        logged = self._chances(self.logging)
        return effective_rows(self.settings.n, self.shares[:, None] * logged, self._chances(self.target), logged)

    @property
    def largest(self) -> float:
        """The largest weight that a visit can have."""
        return float((self._chances(self.target) / self._chances(self.logging)).max())

    def _chances(self, top: FloatArray) -> FloatArray:
        """Return the probability of each ranking by context `(c, R)`."""
        rows = np.broadcast_to(top[:, None, :], (len(top), len(self.rankings), top.shape[1]))
        flat = rows.reshape(-1, top.shape[1])
        found = without_replacement(flat, np.tile(self.rankings, (len(top), 1))).prod(axis=1)
        return np.asarray(found.reshape(len(top), -1))

    def draw(self, rng: np.random.Generator) -> tuple[Log, FloatArray]:
        """Draw a log, and the target's probabilities of the top position for its visits `(n, K)`."""
        s = self.settings
        contexts = rng.choice(s.contexts, size=s.n, p=self.shares)
        actions = self.rankings[chosen(rng, self._chances(self.logging), contexts)]
        looks, clicks = np.ones(s.n, bool), np.zeros(actions.shape)
        for position, shown in enumerate(actions.T):
            clicked = looks & (rng.random(s.n) < self.table[contexts, shown])
            looks &= rng.random(s.n) < np.where(clicked, AFTER_CLICK, AFTER_NONE)
            clicks[:, position] = clicked
        propensities = without_replacement(self.logging[contexts], actions)
        features = np.eye(s.contexts)[contexts]
        log = log_of(actions, propensities, clicks, features, s.actions, action_space=RANKINGS)
        return log, self.target[contexts]

    @staticmethod
    def bounded(log: Log, target: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weights of whole rankings and what visits earned, each `(n,)`."""
        ratios = without_replacement(target, log.actions) / log.propensities
        return ratios.prod(axis=1), log.visit_rewards


def without_replacement(top: FloatArray, actions: IntArray) -> FloatArray:
    """Return probabilities of `actions (n, L)`, given those above, by those of the top position, `top (n, K)`."""
    own = np.take_along_axis(top, actions, axis=1)
    return np.asarray(own / (1.0 - np.cumsum(own, axis=1) + own))
