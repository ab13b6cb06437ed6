"""The price of knowing: how long it takes to tell a change of what visitors earn, and what that costs a day."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from zoosim.core.types import FloatArray
from zoosim.monitoring.launch_plan import Plan
from zoosim.monitoring.sample_size import events_needed

LIFTS = (0.05, 0.1, 0.2)
"""The changes whose price is told, as parts of what is earned today."""

SHARES = (0.05, 0.2, 0.5)
"""The shares of the visitors that a new model gets meanwhile."""


class Price(NamedTuple):
    """The price of telling a change.

    Attributes:
        lift: The change, as a part of what is earned today.
        share: The share of the visitors that the new model decides for.
        days: How long it takes in half of all cases, if the change is just as large.
        a_day: What that costs a day if the new model is worse by as much, in rewards.
    """

    lift: float
    share: float
    days: float
    a_day: float

    @property
    def in_all(self) -> float:
        """What it costs in all these days."""
        return self.days * self.a_day


def price_list(
    plan: Plan, earned: FloatArray, visitors_a_day: float, earned_a_day: float, *, lifts: Sequence[float] = LIFTS
) -> list[Price]:
    """Return what it takes to tell changes of what visitors earn.

    Args:
        plan: The plan, whose `ship_level` says how sure one wants to be.
        earned: What counts of visitors by today's choices: what each earns within the window `(n,)`.
        visitors_a_day: How many come a day, each counted once.
        earned_a_day: What all visits of a day earn by today's choices.
        lifts: The changes, as parts of what is earned today.
    """
    mean = float(earned.mean())
    variance = float(earned.var())
    if not mean > 0.0 or not variance > 0.0:
        return []
    prices = []
    for lift in lifts:
        for share in SHARES:
            needed = events_needed(lift * mean, variance, share, plan.ship_level)
            part = 1.0 - plan.holdback
            prices.append(Price(lift, share, needed / (visitors_a_day * part), share * part * lift * earned_a_day))
    return prices


def in_days(days: float) -> str:
    """Return a time in words: hours below two days, days else."""
    if not math.isfinite(days):
        return "never"
    if days < 2.0:
        return f"{24.0 * days:,.0f} hours"
    return f"{days:,.0f} days"
