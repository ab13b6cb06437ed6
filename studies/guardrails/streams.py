"""Decisions of a new policy and a holdback: clicks whose rate swings by the hour, of visitors who differ."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from zoosim.core.types import BoolArray, FloatArray, IntArray

SWING = 0.2
"""Every other hour clicks are more likely by this part, in the others less."""

PER_HOUR = 2_000
"""Decisions in an hour."""

STRATA = np.repeat([0.6, 1.0, 2.0], [10, 6, 4])
"""How much likelier a click is in the stratum of a visitor, such as a country; of 20 visitors that stand for all."""

LIKINGS = np.repeat([0.35, 0.95, 2.23], [9, 6, 5])
"""How much likelier by what a model predicts; with the strata, click rates spread by as much as their mean."""

NUMBER_OF_STRATA = 3


@dataclass(frozen=True)
class World:
    """Where events come from.

    `rate` is the holdback's mean click rate, `shares` the new policy's share in each of as many equal parts of `span`
    events, and `drop` the part of its clicks that the new policy loses from event `harmless` on.
    """

    rate: float
    shares: tuple[float, ...]
    drop: float = 0.0
    harmless: int = 0
    span: int = 1_000_000


class Events(NamedTuple):
    """Events in their order: the arm, the chance of it being the new policy, the click, what was known before."""

    treated: BoolArray
    share: FloatArray
    click: FloatArray
    prediction: FloatArray
    stratum: IntArray


class Stream:
    """Events of a world, drawn as they are asked for."""

    def __init__(self, world: World, rng: np.random.Generator) -> None:
        """Begin at any time of two hours."""
        self.world = world
        self._rng = rng
        self._events = 0
        self._phase = int(rng.integers(2 * PER_HOUR))
        self._base = base_rate(world.rate)

    def next(self, n: int) -> Events:
        """Return the next n events."""
        rng, world = self._rng, self.world
        time = self._events + np.arange(n)
        self._events += n
        if len(world.shares) == 1:
            share = np.full(n, world.shares[0])
        else:
            part = np.minimum(time * len(world.shares) // world.span, len(world.shares) - 1)
            share = np.array(world.shares)[part]
        treated = rng.random(n) < share
        kind = rng.integers(0, len(STRATA) * len(LIKINGS), n)
        liking = np.tile(LIKINGS, len(STRATA))[kind]
        swing = np.where((time + self._phase) // PER_HOUR % 2 == 0, 1.0 - SWING, 1.0 + SWING)
        chance = np.minimum(self._base * np.outer(STRATA, LIKINGS).ravel()[kind] * swing, 1.0)
        chance = np.where(treated & (time >= world.harmless), chance * (1.0 - world.drop), chance)
        click = (rng.random(n) < chance).astype(np.float64)
        stratum = np.unique(STRATA, return_inverse=True)[1].repeat(len(LIKINGS))[kind]
        return Events(treated, share, click, world.rate * liking, stratum)


def base_rate(rate: float) -> float:
    """Return the click rate of an average visitor at an average hour at which all click at `rate` on average."""
    factors = np.outer(STRATA, LIKINGS)
    low, high = rate / 2.0, 2.0 * rate
    for _ in range(50):  # by bisection: no chance is above 1
        middle = (low + high) / 2.0
        means = [np.minimum(middle * factors * swing, 1.0).mean() for swing in (1.0 - SWING, 1.0 + SWING)]
        low, high = (middle, high) if sum(means) / 2.0 < rate else (low, middle)
    return high


def explained(rate: float) -> float:
    """Return the part of the variance of clicks that strata and predictions explain, for one who knows all laws."""
    means = np.minimum(base_rate(rate) * np.outer(STRATA, LIKINGS), 1.0)
    return float(means.var()) / (rate * (1.0 - rate))
