"""What rehearsed launches say together: the chance to regret it, what it brings or costs, and how long it takes."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.statistics import Interval, share_intervals
from zoosim.core.types import FloatArray
from zoosim.rehearsal.launches.outcome import Outcome

LEVEL = 0.95
"""Chance with which one further launch lies within an interval."""


class LaunchFigures(NamedTuple):
    """The figures of rehearsed launches.

    Shares have the interval of their estimate from so many launches; what is told of one launch has the interval that
    one further launch lies in with 95%.

    Attributes:
        n: How many launches.
        regret: The chance that it costs more than is bearable.
        shipped, taken_back, untold: The chances of how it ends within the horizon.
        shipped_worse: The chance that it ships what truly earns less than today's choices.
        taken_back_better: The chance that what truly earns more is taken back.
        better: The chance that the new model truly earns more.
        effect: By what part it truly earns more.
        net: What the launch earns over the horizon, above today's choices alone; a cost where it is below 0.
        net_share: The same as a part of what these earn.
        asking: What is not earned over the horizon since nobody knows beforehand which of both is better.
        hours: Hours until it has shipped or was taken back; the horizon where it did neither.
        hours_to_ship: The same of those that ship; None where none does.
        baseline: What today's choices alone earn over the horizon.
    """

    n: int
    regret: Interval
    shipped: Interval
    taken_back: Interval
    untold: Interval
    shipped_worse: Interval
    taken_back_better: Interval
    better: Interval
    effect: Interval
    net: Interval
    net_share: Interval
    asking: Interval
    hours: Interval
    hours_to_ship: Interval | None
    baseline: Interval

    @property
    def plain(self) -> dict[str, Any]:
        """The figures as plain values for JSON."""
        values = self._asdict()
        return {name: value._asdict() if isinstance(value, Interval) else value for name, value in values.items()}


def launch_figures(outcomes: Sequence[Outcome], bearable: float) -> LaunchFigures:
    """Return what launches say together.

    Args:
        outcomes: The launches, at least one.
        bearable: The part of what today's choices earn that a launch may cost.
    """

    def share(is_so: Callable[[Outcome], bool]) -> Interval:
        return _share([is_so(each) for each in outcomes])

    def spread(value: Callable[[Outcome], float]) -> Interval:
        return spread_of([value(each) for each in outcomes])

    to_ship = [each.hour for each in outcomes if each.has_shipped]
    return LaunchFigures(
        n=len(outcomes),
        regret=share(lambda each: each.is_regretted(bearable)),
        shipped=share(lambda each: each.has_shipped),
        taken_back=share(lambda each: each.was_taken_back),
        untold=share(lambda each: not each.has_shipped and not each.was_taken_back),
        shipped_worse=share(lambda each: each.has_shipped and each.effect < 0.0),
        taken_back_better=share(lambda each: each.was_taken_back and each.effect > 0.0),
        better=share(lambda each: each.effect > 0.0),
        effect=spread(lambda each: each.effect),
        net=spread(lambda each: each.net),
        net_share=spread(lambda each: each.net / each.baseline if each.baseline else 0.0),
        asking=spread(lambda each: each.asking),
        hours=middle_of([each.hour for each in outcomes]),
        hours_to_ship=middle_of(to_ship) if to_ship else None,
        baseline=spread(lambda each: each.baseline),
    )


def _share(flags: Sequence[bool]) -> Interval:
    low, high = share_intervals(np.array([sum(flags)]), len(flags))
    return Interval(sum(flags) / len(flags), max(float(low[0]), 0.0), min(float(high[0]), 1.0))


def spread_of(values: Sequence[float] | FloatArray) -> Interval:
    """Return the mean of values, and the interval in which one further lies with 95%."""
    low, high = _ends(values)
    return Interval(float(np.mean(values)), low, high)


def middle_of(values: Sequence[float] | FloatArray) -> Interval:
    """Return the median of values, and the interval in which one further lies with 95%."""
    low, high = _ends(values)
    return Interval(float(np.median(values)), low, high)


def _ends(values: Sequence[float] | FloatArray) -> tuple[float, float]:
    """Return the ends of the interval in which one further value lies with 95%, by ranks.

    The k-th smallest of n lies above a further value with a chance of k / (n + 1), whatever their distribution.
    """
    ordered = np.sort(np.asarray(values, float))
    n = len(ordered)
    rank = max(int((n + 1) * (1.0 - LEVEL) / 2.0), 1)
    return float(ordered[rank - 1]), float(ordered[n - rank])
