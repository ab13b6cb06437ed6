"""Simulated logs of known truth: a world of clicks, the policy that writes the log, and the policy that is judged."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.log import Log

MOST = 0.55
"""The highest click probability: users who click 80% more than it stay below 1."""


class Settings(NamedTuple):
    """What a log and its world are made of.

    `rate` is the mean click probability, `distance` how far the target lies from the logging policy, `floor` the least
    share of choices that the logging policy makes at random, `missing` how many actions it never shows. Users have
    `rows_a_user` rows each and tastes that differ by `taste`; click rates move by `drift` over the log. Recorded
    propensities are off by a factor exp(N(0, `wrong`^2)) a context and action. Rewards are clicks, or amounts with a
    long tail; features tell the context, or half of it. `skill` is how much the target's choices, where they differ, go
    by click rates, 0 to 1.
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
    skill: float = 0.0

    @property
    def words(self) -> str:
        """Say what is special about it."""
        told = [f"{self.actions} actions", f"rate {self.rate:g}", f"distance {self.distance:g}"]
        told += [f"{self.missing} actions missing"] * (self.missing > 0)
        told += [f"{self.rows_a_user} rows a user"] * (self.rows_a_user > 1)
        told += ["drift"] * (self.drift > 0) + [f"propensities off by {self.wrong:g}"] * (self.wrong > 0)
        return ", ".join([*told, *["amounts"] * self.amounts, *["coarse features"] * self.coarse])


PLAIN = Settings(
    contexts=4,
    actions=10,
    rate=0.1,
    distance=0.0,
    floor=1.0,
    missing=0,
    n=0,
    rows_a_user=1,
    taste=0.0,
    drift=0.0,
    wrong=0.0,
    amounts=False,
    coarse=False,
)
"""A log of a uniformly random policy, nothing at fault; worlds and sizes are told by what they replace in it."""


class ChoiceLogs:
    """What logs of single choices share: the weights that a target gives their rows.

    `logging`, `recorded` and `target` are probabilities by context and action `(c, K)`, `shares (c,)` by context.
    """

    family = ""
    settings: Any
    logging: FloatArray
    recorded: FloatArray
    target: FloatArray
    shares: FloatArray

    @cached_property
    def effective(self) -> float:
        """How many rows of the target's own a log counts for in expectation."""
        return effective_rows(self.settings.n, self.shares[:, None] * self.logging, self.target, self.recorded)

    @property
    def largest(self) -> float:
        """The largest weight that a row can have."""
        return float((self.target / np.where(self.recorded > 0.0, self.recorded, np.inf)).max())

    @staticmethod
    def bounded(log: Log, target: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return weights and rewards, each `(n,)`."""
        return np.asarray(target[np.arange(len(log)), log.actions] / log.propensities), log.rewards


class KnownLogs(ChoiceLogs):
    """A world of `settings`, its policies and its logs; click table and policies are drawn from `rng`, in this order.

    `table` and `later` are click probabilities by context and action at the log's beginning and end.
    """

    settings: Settings

    def __init__(self, settings: Settings, rng: np.random.Generator) -> None:
        self.settings = s = settings
        self.table = np.clip(s.rate * np.exp(0.8 * rng.normal(size=(s.contexts, s.actions))), 0.0, MOST)
        self.later = np.clip(self.table * np.exp(s.drift * rng.normal(size=self.table.shape)), 0.0, MOST)
        self.shares = rng.dirichlet(np.full(s.contexts, 3.0))
        scores = rng.normal(size=self.table.shape)
        logging = (1.0 - s.floor) * softmax(scores) + s.floor / s.actions
        logging[:, rng.permutation(s.actions)[: s.missing]] = 0.0
        self.logging = logging / logging.sum(axis=1, keepdims=True)
        self.target = softmax(scores + s.distance * direction(self.table, s.skill, rng))
        self.recorded = np.clip(self.logging * np.exp(s.wrong * rng.normal(size=self.table.shape)), 0.0, 1.0)

    @cached_property
    def truth(self) -> float:
        """What the target earns a visit, on average over the log's time."""
        return self._worth((self.table + self.later) / 2.0)

    @cached_property
    def ending(self) -> float:
        """What the target earns a visit at the log's end."""
        return self._worth(self.later)

    @property
    def misrecorded(self) -> bool:
        """Tell whether recorded propensities are wrong."""
        return self.settings.wrong > 0.0

    @property
    def faulty(self) -> bool:
        """Tell whether the log is at fault: recorded propensities are wrong, or actions are missing."""
        return self.misrecorded or self.settings.missing > 0

    @property
    def alike(self) -> bool:
        """Tell whether each row is a fresh draw of the same visitors."""
        return self.settings.drift == 0.0 and self.settings.rows_a_user == 1

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """The range that all rewards lie in; None where there is none."""
        return None if self.settings.amounts else (0.0, 1.0)

    def _worth(self, table: FloatArray) -> float:
        return float(self.shares @ (self.target * table).sum(axis=1))

    def draw(self, rng: np.random.Generator) -> tuple[Log, FloatArray]:
        """Draw a log, and the target's probabilities for its rows `(n, K)`."""
        s = self.settings
        users = np.arange(s.n) // s.rows_a_user
        own = rng.choice(s.contexts, size=users[-1] + 1, p=self.shares)
        taste = 1.0 + s.taste * rng.choice((-1.0, 1.0), size=users[-1] + 1)
        contexts = own[users]
        actions = chosen(rng, self.logging, contexts)
        moment = rng.permutation(s.n)[users] / s.n if s.rows_a_user > 1 else np.arange(s.n) / s.n
        chance = (1.0 - moment) * self.table[contexts, actions] + moment * self.later[contexts, actions]
        rewards = (rng.random(s.n) < chance * taste[users]).astype(float)
        if s.amounts:
            rewards *= np.exp(rng.normal(size=s.n) - 0.5)  # mean 1
        told = contexts // 2 if s.coarse else contexts
        propensities = self.recorded[contexts, actions]
        by = users if s.rows_a_user > 1 else None
        return log_of(actions, propensities, rewards, np.eye(s.contexts)[told], s.actions, by), self.target[contexts]


def log_of(
    actions: np.ndarray,
    propensities: FloatArray,
    rewards: FloatArray,
    features: FloatArray,
    n_actions: int,
    user_ids: IntArray | None = None,
    **more: Any,
) -> Log:
    """Return a log in which every row could choose among all actions; `more` are further fields."""
    zeros = np.zeros(len(actions), np.int64)
    return Log(
        actions=actions,
        propensities=propensities,
        rewards=rewards,
        candidates=CandidateSets.everything(n_actions),
        candidate_set=zeros,
        features=features,
        positions=zeros,
        products=np.zeros((n_actions, 0)),
        user_ids=user_ids,
        **more,
    )


def effective_rows(n: int, logged: FloatArray, target: FloatArray, recorded: FloatArray) -> float:
    """Return n (E w)^2 / E w^2, with w = target / recorded under the probabilities `logged` of (context, action)."""
    weights = np.divide(target, recorded, out=np.zeros_like(target), where=recorded > 0.0)
    return float(n * (logged * weights).sum() ** 2 / (logged * weights**2).sum())


def direction(worth: FloatArray, skill: float, rng: np.random.Generator) -> FloatArray:
    """Return by how much a policy's log-odds differ from another's, `(contexts, actions)`, with deviation 1.

    They correlate by `skill` with what actions are `worth` in a context; 0: not at all.
    """
    drawn = rng.normal(size=worth.shape)
    merit = worth - worth.mean(axis=1, keepdims=True)
    merit /= np.maximum(merit.std(axis=1, keepdims=True), 1e-12)
    return np.asarray(np.sqrt(1.0 - skill**2) * drawn + skill * merit)


def softmax(scores: FloatArray) -> FloatArray:
    """Return probabilities by row."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def chosen(rng: np.random.Generator, logging: FloatArray, contexts: IntArray) -> IntArray:
    """Draw an action for each row; one that is never shown is never drawn."""
    bounds = logging.cumsum(axis=1)
    draws = rng.random(len(contexts)) * bounds[contexts, -1]
    return np.asarray((draws[:, None] >= bounds[contexts]).sum(axis=1), np.int64)
