"""Cases with a known truth: a world, the policy that writes the log, the policy that is judged, and a size.

Each is drawn from its own number alone, so they are fixed in advance; odd numbers are held out from all tuning.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from zoosim.core.rng import stream
from zoosim.core.types import FloatArray, IntArray
from zoosim.evaluation.off_policy.log import Log

TOTAL = 200
MOST = 0.55
"""The highest click probability: users who click 80% more than it stay below 1."""


class Settings(NamedTuple):
    """What a case is made of.

    `rate` is the mean click probability, `distance` how far the target lies from the logging policy, `floor` the least
    share of choices that the logging policy makes at random, `missing` how many actions it never shows. Users have
    `rows_a_user` rows each and tastes that differ by `taste`; click rates move by `drift` over the log. Recorded
    propensities are off by a factor exp(N(0, `wrong`^2)) a context and action. Rewards are clicks, or amounts with a
    long tail; features tell the context, or half of it.
    """

    contexts: int
    actions: int
    rate: float
    distance: float
    floor: float
    missing: int
    n: int
    rows_a_user: int
    taste: float
    drift: float
    wrong: float
    amounts: bool
    coarse: bool

    @property
    def words(self) -> str:
        """Say what is special about the case."""
        told = [f"{self.actions} actions", f"rate {self.rate:g}", f"distance {self.distance:g}"]
        told += [f"{self.missing} actions missing"] * (self.missing > 0)
        told += [f"{self.rows_a_user} rows a user"] * (self.rows_a_user > 1)
        told += ["drift"] * (self.drift > 0) + [f"propensities off by {self.wrong:g}"] * (self.wrong > 0)
        return ", ".join([*told, *["amounts"] * self.amounts, *["coarse features"] * self.coarse])


class Case:
    """Case `number`: its world, its policies and its logs."""

    def __init__(self, number: int) -> None:
        self.number, rng = number, stream(0, "off-policy case", str(number))
        self.settings = s = _draw(rng)
        self.table = np.clip(s.rate * np.exp(0.8 * rng.normal(size=(s.contexts, s.actions))), 0.0, MOST)
        self.later = np.clip(self.table * np.exp(s.drift * rng.normal(size=self.table.shape)), 0.0, MOST)
        self.shares = rng.dirichlet(np.full(s.contexts, 3.0))
        scores = rng.normal(size=self.table.shape)
        logging = (1.0 - s.floor) * _softmax(scores) + s.floor / s.actions
        logging[:, rng.permutation(s.actions)[: s.missing]] = 0.0
        self.logging = logging / logging.sum(axis=1, keepdims=True)
        self.target = _softmax(scores + s.distance * rng.normal(size=self.table.shape))
        self.recorded = np.clip(self.logging * np.exp(s.wrong * rng.normal(size=self.table.shape)), 0.0, 1.0)

    @property
    def held_out(self) -> bool:
        """Tell whether the case is held out from tuning."""
        return self.number % 2 == 1

    @cached_property
    def truth(self) -> float:
        """What the target earns a visit, on average over the log's time."""
        mean = (self.table + self.later) / 2.0
        return float(self.shares @ (self.target * mean).sum(axis=1))

    def log(self, seed: int) -> tuple[Log, FloatArray]:
        """Draw a log, and the target's probabilities for its rows `(n, K)`."""
        s, rng = self.settings, stream(seed, "off-policy log", str(self.number))
        users = np.arange(s.n) // s.rows_a_user
        own = rng.choice(s.contexts, size=users[-1] + 1, p=self.shares)
        taste = 1.0 + s.taste * rng.choice((-1.0, 1.0), size=users[-1] + 1)
        contexts = own[users]
        actions = _chosen(rng, self.logging, contexts)
        moment = rng.permutation(s.n)[users] / s.n if s.rows_a_user > 1 else np.arange(s.n) / s.n
        chance = (1.0 - moment) * self.table[contexts, actions] + moment * self.later[contexts, actions]
        rewards = (rng.random(s.n) < chance * taste[users]).astype(float)
        if s.amounts:
            rewards *= np.exp(rng.normal(size=s.n) - 0.5)  # mean 1
        return self._log(contexts, actions, rewards, users), self.target[contexts]

    def _log(self, contexts: IntArray, actions: IntArray, rewards: FloatArray, users: IntArray) -> Log:
        s = self.settings
        told, zeros = contexts // 2 if s.coarse else contexts, np.zeros(s.n, np.int64)
        return Log(
            actions=actions,
            propensities=self.recorded[contexts, actions],
            rewards=rewards,
            candidates=np.ones((1, s.actions), bool),
            candidate_set=zeros,
            features=np.eye(s.contexts)[told],
            positions=zeros,
            products=np.zeros((s.actions, 0)),
            user_ids=users if s.rows_a_user > 1 else None,
        )


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


def _softmax(scores: FloatArray) -> FloatArray:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _chosen(rng: np.random.Generator, logging: FloatArray, contexts: IntArray) -> IntArray:
    """Draw an action for each row; one that is never shown is never drawn."""
    bounds = logging.cumsum(axis=1)
    draws = rng.random(len(contexts)) * bounds[contexts, -1]
    return np.asarray((draws[:, None] >= bounds[contexts]).sum(axis=1), np.int64)
