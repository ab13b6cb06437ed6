"""Visitors of a small shop in thirty days: when they come, how much they click, and the draws that decide the rest."""

from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray

DAYS = 30
PER_DAY = 20_000
RATE = 0.05
SWING = 0.2
"""In half of the hours, drawn at random, clicks are more likely by this part, in the others less."""

NIGHT, WEATHER = 0.5, 0.2
"""By what part fewer come at night than on average, and by what part days and hours differ by chance."""


class Visitors(NamedTuple):
    """Visitors in the order in which they come, `(n,)` each; all courses of a launch meet the same.

    `hour` is the time since the launch began; `rate` the chance of a click where the champion decides; `arm` and `luck`
    are uniform draws, of who decides and of the click.
    """

    hour: FloatArray
    rate: FloatArray
    arm: FloatArray
    luck: FloatArray


def draw_visitors(seed: int, days: int = DAYS) -> Visitors:
    """Return the visitors of a shop, whose launch begins at any time of the day."""
    rng = np.random.default_rng(seed)
    hours = np.arange(24 * days)
    by_day = rng.uniform(1.0 - WEATHER, 1.0 + WEATHER, days)[hours // 24]
    by_hour = rng.uniform(1.0 - WEATHER, 1.0 + WEATHER, len(hours))
    by_daylight = 1.0 + NIGHT * np.sin(2.0 * np.pi * (hours / 24.0 + rng.random()))
    counts = rng.poisson(PER_DAY / 24.0 * by_day * by_hour * by_daylight)
    rates = RATE * rng.choice((1.0 - SWING, 1.0 + SWING), len(hours))
    n = int(counts.sum())
    return Visitors(
        np.sort(np.repeat(hours, counts) + rng.random(n)), np.repeat(rates, counts), rng.random(n), rng.random(n)
    )
