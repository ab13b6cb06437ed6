"""A small world of rankings, 3 of 4 actions, in which every ranking can be listed, and logs of it."""

import itertools
import math
from fractions import Fraction
from functools import cached_property

import numpy as np
import polars as pl

from zoosim.core.types import FloatArray

K, L = 4, 3
RANKINGS = list(itertools.permutations(range(K), L))
TARGET = np.array([0.4, 0.15, 0.25, 0.2])
ENDS = (0.9, 0.1, 0.4, 0.0)
"""How often a visitor who sees an action looks at no other."""


class RankedWorld:
    """What each position of each ranking earns `(24, 3)`; it `depends` on its "own" action, those "above", or "all"."""

    def __init__(self, depends: str, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        own = rng.uniform(0.3, 0.9, (L, K))

        def left(ranking: tuple[int, ...], place: int) -> float:
            above = ranking[: {"own": 0, "above": place, "all": L}[depends]]
            return float(np.prod([1.0 - ENDS[b] for b in above if b != ranking[place]]))

        self.rewards = np.array([[own[place, a] * left(r, place) for place, a in enumerate(r)] for r in RANKINGS])
        self.counts = rng.integers(1, 4, len(RANKINGS))

    @cached_property
    def truth(self) -> float:
        """What the target earns a visit, over all rankings."""
        return float(
            sum(math.prod(drawn(r)) * earned for r, earned in zip(RANKINGS, self.rewards.sum(axis=1), strict=True))
        )

    def shares(self, shown: tuple[int, ...]) -> Fraction:
        """The share of the log's visits whose rankings begin like this."""
        own = sum(int(c) for r, c in zip(RANKINGS, self.counts, strict=True) if r[: len(shown)] == shown)
        return Fraction(own, int(self.counts.sum()))

    def conditional(self, ranking: tuple[int, ...], place: int) -> float:
        """The log's probability of what stands at a position given those above."""
        return float(self.shares(ranking[: place + 1]) / self.shares(ranking[:place]))

    def marginal(self, action: int, place: int) -> float:
        """The log's probability that a position shows an action."""
        return float(sum(self.shares(r) for r in RANKINGS if r[place] == action))

    def listed(self, times: int) -> pl.DataFrame:
        """The log in which every ranking stands as often as is likely, `times` each count; rewards are means."""
        which = np.repeat(np.arange(len(RANKINGS)), times * self.counts)
        return self.frame(which, self.rewards[which])

    def frame(self, which: np.ndarray, rewards: FloatArray) -> pl.DataFrame:
        """A log of the rankings `which (n,)`, as Records."""
        told = [
            [
                (a, self.conditional(r, place), self.marginal(a, place), drawn(r)[place], marginal(a, place))
                for place, a in enumerate(r)
            ]
            for r in RANKINGS
        ]
        table = np.array(told)[which].reshape(-1, 5)
        names = ("propensity", "marginal_propensity", "p_new", "marginal_p_new")
        columns = {name: table[:, 1 + i] for i, name in enumerate(names)}
        visits = [f"visit {v}" for v in range(len(which)) for _ in range(L)]
        places = np.tile(np.arange(L), len(which))
        head = {"decision_id": visits, "position": places, "action": table[:, 0].astype(int)}
        return pl.DataFrame({**head, **columns, "reward": rewards.reshape(-1), "user": np.ones((len(places), 1))})


def drawn(ranking: tuple[int, ...]) -> list[float]:
    """The target's probabilities of a ranking's actions given those above: drawn without replacement."""
    return [TARGET[a] / (1.0 - sum(TARGET[list(ranking[:place])])) for place, a in enumerate(ranking)]


def marginal(action: int, place: int) -> float:
    """The target's probability that a position shows an action."""
    return float(sum(math.prod(drawn(r)) for r in RANKINGS if r[place] == action))
