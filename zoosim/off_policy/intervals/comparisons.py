"""Rank policies evaluated on one log, with claims about all of them that hold at once."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray


class PairedLead(NamedTuple):
    """How far one policy is ahead of another: `value`, its standard `error`, and the bootstrap's `ratios (B,)`.

    Ratios are deviations of resampled leads from this one, each in its own standard error; drawn alike for all leads.
    """

    value: float
    error: float
    ratios: FloatArray

    @property
    def statistic(self) -> float:
        """Return the lead in standard errors; 0 for none at all."""
        if self.error > 0.0:
            return self.value / self.error
        return float(np.sign(self.value)) * np.inf if self.value else 0.0


class Ranked(NamedTuple):
    """A policy's place by its value, 1 the best, among those whose estimate can be used.

    `p_better` is that of earning more than the logged choices, one-sided and corrected for all policies; `low` is how
    much more it earns at least, for all policies at once. `may_be_best` is False where another is shown to be better.
    """

    policy: str
    estimator: str
    place: int
    value: float
    lead: float
    low: float
    p_better: float
    may_be_best: bool


def rank_policies(
    estimator: str,
    values: Mapping[str, float],
    over_logged: Mapping[str, PairedLead],
    between: Mapping[tuple[str, str], PairedLead],
    level: float = 0.95,
) -> tuple[Ranked, ...]:
    """Rank policies by their `values`; the chance of any false claim of one kind is at most 1 - `level`.

    `over_logged` are leads over the logged choices, `between` those of each pair, in one order or the other.
    Corrections are by the largest statistic of all (Romano & Wolf 2005, stepwise), which knows how estimates from one
    log go together; those that may be best are told from all pairs at once (as Hsu 1981 does for normal means).
    """
    names = sorted(values, key=lambda name: -values[name])
    corrected = _stepwise([over_logged[name] for name in names])
    reach = _largest([over_logged[name].ratios for name in names], level)
    beaten = _beaten(names, between, level)
    ranked = []
    for place, name in enumerate(names):
        lead = over_logged[name]
        low = lead.value - reach * lead.error if lead.error > 0.0 else lead.value
        ranked.append(
            Ranked(name, estimator, place + 1, values[name], lead.value, low, corrected[place], name not in beaten)
        )
    return tuple(ranked)


def _stepwise(leads: Sequence[PairedLead]) -> list[float]:
    """Return one-sided p values of leads above 0, corrected for being several."""
    statistics = np.array([lead.statistic for lead in leads])
    order = np.argsort(-statistics, kind="stable")
    corrected = [1.0] * len(leads)
    highest = 0.0  # a p value is never below that of a larger lead
    for rank, index in enumerate(order):
        largest = np.max([leads[other].ratios for other in order[rank:]], axis=0)
        beyond = len(largest)
        if statistics[index] > 0.0:
            beyond = int((largest >= statistics[index]).sum())
        highest = max(highest, (1 + beyond) / (1 + len(largest)))
        corrected[index] = min(highest, 1.0)
    return corrected


def _largest(ratios: Sequence[FloatArray], level: float) -> float:
    """Return what the largest of several ratios stays below with probability `level`."""
    largest = np.sort(np.max(ratios, axis=0))
    rank = min(int(np.ceil(level * (len(largest) + 1))), len(largest))
    return float(largest[rank - 1])


def _beaten(names: Sequence[str], between: Mapping[tuple[str, str], PairedLead], level: float) -> set[str]:
    """Return the policies that another one is shown to be better than."""
    pairs = {pair: lead for pair, lead in between.items() if pair[0] in names and pair[1] in names}
    if not pairs:
        return set()
    reach = _largest([side for lead in pairs.values() for side in (lead.ratios, -lead.ratios)], level)
    ahead = {second for (_, second), lead in pairs.items() if lead.statistic > reach}
    return ahead | {first for (first, _), lead in pairs.items() if -lead.statistic > reach}
