"""Comparisons on one log that hold all at once: p values, intervals and who may be best come from one statistic."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray


class PairedLead(NamedTuple):
    """Lead of one policy over another: `value`, its standard `error`, and the bootstrap's `ratios (B,)`.

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
        return math.copysign(math.inf, self.value) if self.value else 0.0


class Corrected(NamedTuple):
    """Correction of a lead as one of several: its two-sided `p`, and the interval that leaves out 0 with it.

    The interval ends at value - `below` x error and value + `above` x error.
    """

    p: float
    below: float
    above: float

    def interval(self, lead: PairedLead) -> Interval:
        """Return the simultaneous interval of a lead, which holds its value."""
        if lead.error == 0.0:
            return Interval(lead.value, lead.value, lead.value)
        return Interval(lead.value, lead.value - self.below * lead.error, lead.value + self.above * lead.error)


class PolicyRank(NamedTuple):
    """A policy's place by its value, 1 the best, among those whose estimate can be used.

    `p_better` is the corrected p of its difference from the logged choices where it earns more than these, else 1;
    `low` is the lower end of that difference. `may_be_best` is False where another policy is shown to earn more. All
    three are those of the differences between policies.
    """

    policy: str
    estimator: str
    place: int
    value: float
    lead: float
    low: float
    p_better: float
    may_be_best: bool


def correct(leads: Sequence[PairedLead], level: float = 0.95) -> list[Corrected]:
    """Correct several leads on the same resampled logs for being several.

    Each is measured by its own bootstrapped ends, so that one with heavy tails does not widen the others (balanced
    intervals, Beran 1988); what the largest of all stays below in a share `level` of the samples widens them all alike,
    which knows how estimates from one log go together (Romano & Wolf 2005, single-step). An interval leaves out 0
    exactly where p is at most 1 - `level`.
    """
    if not leads:
        return []
    ends = [_own_ends(lead.ratios, level) for lead in leads]
    relative = [_relative(lead.ratios, *own) for lead, own in zip(leads, ends, strict=True)]
    largest = np.max(relative, axis=0)
    samples = len(largest)
    rank = min(math.ceil(level * (samples + 1)), samples)
    reach = float(np.sort(largest)[rank - 1])
    corrected = []
    for lead, (below, above) in zip(leads, ends, strict=True):
        if lead.error == 0.0:
            corrected.append(Corrected(1.0 if lead.value == 0.0 else 0.0, 0.0, 0.0))
            continue
        # 0 where its end is open: nothing is shown then, and p is 1.
        observed = float(_relative(np.array([lead.statistic]), below, above)[0])
        beyond = int((largest >= observed).sum()) if observed > 0.0 else samples
        # What was observed counts as one of the samples, so that p is never 0.
        p = (1 + beyond) / (1 + samples)
        corrected.append(Corrected(p, *(reach * end if math.isfinite(end) else math.inf for end in (below, above))))
    return corrected


def _own_ends(ratios: FloatArray, level: float) -> tuple[float, float]:
    """Return how many standard errors a studentised interval reaches below and above its value, were it alone.

    An end is infinite where no sample lies on its side of the value, or too many have no spread.
    """
    ordered = np.sort(ratios)
    rank = max(math.floor((1.0 - level) / 2 * (len(ordered) + 1)), 1)
    below = float(ordered[-rank])
    above = float(-ordered[rank - 1])
    return below if below > 0.0 else math.inf, above if above > 0.0 else math.inf


def _relative(ratios: FloatArray, below: float, above: float) -> FloatArray:
    """Return ratios over the end on their side; 0 where that is open, as nothing can be said of such a lead."""
    ends = np.where(ratios > 0.0, below, above)
    return np.divide(np.abs(ratios), ends, out=np.zeros(len(ratios)), where=np.isfinite(ends))


def rank_policies(
    estimator: str,
    values: Mapping[str, float],
    over_logged: Mapping[str, Interval],
    p_values: Mapping[str, float],
    between: Mapping[tuple[str, str], Interval],
) -> tuple[PolicyRank, ...]:
    """Rank policies by their `values`, with corrected intervals of their leads.

    Args:
        estimator: What estimated them.
        values: By policy.
        over_logged: Corrected intervals of leads over the logged choices, by policy.
        p_values: Their corrected p values, by policy.
        between: Corrected intervals of how far the first policy is ahead of the second, in one order or the other. Who
            is behind another by any of these is not the best (multiple comparisons with the best, Hsu 1981).
    """
    behind = set()
    for (first, second), interval in between.items():
        if interval.low is not None and interval.low > 0.0:
            behind.add(second)
        if interval.high is not None and interval.high < 0.0:
            behind.add(first)
    ranked = []
    for place, name in enumerate(sorted(values, key=lambda name: -values[name]), start=1):
        lead = over_logged[name]
        low = -math.inf if lead.low is None else lead.low
        p_better = p_values[name] if lead.mean > 0.0 else 1.0
        ranked.append(PolicyRank(name, estimator, place, values[name], lead.mean, low, p_better, name not in behind))
    return tuple(ranked)
