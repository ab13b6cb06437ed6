"""Successive halving over seeds: many settings meet few seeds, and the better half goes on to twice as many.

Sequential halving (Karnin, Koren & Somekh 2013) with rounds that add up, as in Jamieson & Talwalkar 2016. All settings
of a round meet the same seeds, from the first on, so that their means differ by what they do, and not by whom they met.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray

FEWEST_SEEDS = 2
"""Seeds of the first round at least: of one seed nobody can say how far settings differ by chance."""


class Round(NamedTuple):
    """How many settings take part in a round, and on how many seeds they have been tried after it."""

    settings: int
    seeds: int


@dataclass(frozen=True)
class Standing:
    """How a setting fared: its score on each seed that it met, `(n,)`, and in which round it left, 0 for the winner.

    One that failed has no scores.
    """

    name: str
    scores: FloatArray = field(default_factory=lambda: np.empty(0))
    left: int = 0

    @property
    def mean(self) -> float:
        """The mean of its scores."""
        return float(self.scores.mean())


def rounds(settings: int, seeds: int) -> list[Round]:
    """Return the rounds: half as many settings in each as in that before, and twice as many seeds.

    Args:
        settings: How many settings there are, at least 1.
        seeds: How many seeds the last round has, at least 1.
    """
    count = max(1, (settings - 1).bit_length())
    fewest = min(seeds, FEWEST_SEEDS)
    return [
        Round(-(-settings // 2**number), max(fewest, seeds // 2 ** (count - 1 - number))) for number in range(count)
    ]


Evaluate = Callable[[int, Sequence[str], Sequence[int]], Mapping[str, FloatArray]]
"""Gives the scores of settings, by name, on seeds: `(n,)` in their order. It leaves out those that failed.

Its first argument is the number of the round, from 1.
"""


def halve(names: Sequence[str], seeds: Sequence[int], evaluate: Evaluate) -> list[Standing]:
    """Return how all settings fared, the winner first, those that failed last.

    Args:
        names: The settings; of two with equal means the earlier one goes on.
        seeds: The seeds, of which the last round takes all.
        evaluate: Tries settings on seeds.
    """
    alive = list(names)
    out: list[Standing] = []
    failed: list[Standing] = []
    plan = rounds(len(names), len(seeds))
    for number, each in enumerate(plan, 1):
        scores = evaluate(number, alive, seeds[: each.seeds])
        failed += [Standing(name, left=number) for name in alive if name not in scores]
        standings = [Standing(name, scores[name], number) for name in alive if name in scores]
        standings.sort(key=lambda standing: -standing.mean)
        most = plan[number].settings if number < len(plan) else 1
        out = standings[most:] + out
        alive = [standing.name for standing in standings[:most]]
    winners = [Standing(name, scores[name]) for name in alive]
    return winners + out + failed
