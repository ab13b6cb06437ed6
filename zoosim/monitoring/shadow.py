"""What a policy that decides for nobody would have earned, from the decisions of the one that does, as they come.

Each decision gives the doubly robust estimate q + w (r - q) of what the shadow would have earned (Dudik, Langford & Li
2011), with w the shadow's probability of what was shown over that by which it was drawn, r the reward and q the mean
of the rewards before, which no draw of this decision bears on. Its difference to what was earned is (w - 1) (r - q): 0
where both choose alike. Weights are not cut.

Intervals hold however often one looks: they are asymptotic confidence sequences (Waudby-Smith, Arbour, Sinha, Kennedy
& Ramdas 2021, theorem 2.2), right for many visitors of whom none weighs much. Visitors are taken whole, since what one
earns at one visit and at the next goes together.
"""

import math
from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray

LEVEL = 0.05
"""The probability that an interval ever misses what it is for."""

TUNED_TO = 1_000.0
"""Visitors at which intervals are narrowest, for their standard error."""

MOST_VISITORS = 200_000
"""Visitors whose sums are kept; of more, half is drawn by their numbers, and half of these, and so on."""

ALL_VISITORS = 2**64
"""Numbers of visitors lie below this."""

LEAST_EFFECTIVE = 100.0
"""The effective sample size below which nothing is said of the difference."""

LEAST_GROUPS, LEAST_REWARDS = 40.0, 40.0
"""Effective numbers of visitors, and of decisions that earned something, below which an interval may be too narrow."""

MOST_UNSUPPORTED = 0.01
"""The largest part of what the shadow would show that may never be shown: nothing is known of what that earns."""

MEAN_ERRORS = 4.5
"""Standard errors by which the mean weight may miss 1 before the probabilities are not believed."""

COLUMNS = ("decisions", "earned", "estimated", "weights")


class Judged(NamedTuple):
    """A decision as a shadow would have made it.

    Attributes:
        visitor: Number of the visitor, evenly drawn from 64 bits, as by a hash.
        reward: What was earned.
        weight: The shadow's probability of what was shown over that by which it was drawn.
        overlap: The part of both distributions that is the same, from 0 to 1.
        unsupported: The shadow's probability of what would never have been shown.
    """

    visitor: int
    reward: float
    weight: float
    overlap: float
    unsupported: float


class ValueEstimate(NamedTuple):
    """An estimate with its interval; NaN before the first decision."""

    value: float
    low: float
    high: float

    def unbounded(self) -> "ValueEstimate":
        """Return it with an interval that holds everything."""
        return self._replace(low=-math.inf, high=math.inf)


class ShadowEstimate(NamedTuple):
    """What a shadow would have earned per decision, beside what was earned.

    Attributes:
        decisions, visitors: How many count.
        part: The part of the visitors that is drawn to count; 1 for all.
        effective: The effective sample size: of as many decisions of its own the shadow's mean would be as sure.
        agreement: The mean part of both distributions that is the same.
        unsupported: The mean probability of what is never shown.
        earned: What was earned.
        value: What the shadow would have earned.
        difference: Their difference.
        reason: Why that tells nothing yet, so that intervals hold everything: of few decisions with large weights those
            that were rewarded lack, and an interval would be far too narrow. Empty where it tells something.
    """

    decisions: int
    visitors: int
    part: float
    effective: float
    agreement: float
    unsupported: float
    earned: float
    value: ValueEstimate
    difference: ValueEstimate
    reason: str

    @property
    def sentence(self) -> str:
        """What the estimate says, in a sentence."""
        if self.reason:
            return f"Cannot tell yet: {self.reason}."
        low, high = self.difference.low, self.difference.high
        if low <= 0.0 <= high:
            return f"Cannot tell yet whether it would earn more: {_signed(low)} to {_signed(high)} per decision."
        word = "more" if low > 0.0 else "less"
        return f"It would earn {word} than the champion: {_signed(low)} to {_signed(high)} per decision."


class ShadowEvidence:
    """Takes decisions in the order in which they are over; the same ones come to the same estimate, to the bit."""

    def __init__(self, most_visitors: int = MOST_VISITORS) -> None:
        """Begin without decisions.

        Args:
            most_visitors: Visitors whose sums are kept.
        """
        self._most_visitors = most_visitors
        self._limit = ALL_VISITORS
        self._place_of: dict[int, int] = {}
        self._sums = np.zeros((1_024, len(COLUMNS)))
        self._squares = self._overlap = self._unsupported = 0.0
        self._rewarded = self._rewarded_squares = 0.0
        self._count = 0
        self._mean = 0.0

    def takes(self, visitor: int) -> bool:
        """Return whether the decisions of a visitor count."""
        return visitor < self._limit

    def update(self, judged: Judged) -> None:
        """Take a decision."""
        if not self.takes(judged.visitor):
            return
        guess = self._mean  # of the rewards before this one alone
        estimated = guess + judged.weight * (judged.reward - guess)
        place = self._place(judged.visitor)  # before the sums are named, which may be others then
        self._sums[place] += (1.0, judged.reward, estimated, judged.weight)
        self._count += 1
        self._mean += (judged.reward - self._mean) / self._count
        self._squares += judged.weight**2
        self._overlap += judged.overlap
        self._unsupported += judged.unsupported
        if judged.reward:
            self._rewarded += judged.weight
            self._rewarded_squares += judged.weight**2
        if len(self._place_of) > self._most_visitors:
            self._halve()

    def _place(self, visitor: int) -> int:
        """Return the row of a visitor in the sums."""
        place = self._place_of.setdefault(visitor, len(self._place_of))
        if place == len(self._sums):
            self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)])
        return place

    def _halve(self) -> None:
        """Go on with the half of the visitors that has the smaller numbers, as if others had never counted."""
        # A visitor's number says nothing of it, so those who are left are a sample of all, and each counts whole.
        self._limit //= 2
        kept = [(visitor, place) for visitor, place in self._place_of.items() if visitor < self._limit]
        sums = np.zeros_like(self._sums)
        sums[: len(kept)] = self._sums[[place for _, place in kept]]
        self._sums = sums
        self._place_of = {visitor: place for place, (visitor, _) in enumerate(kept)}

    def estimate(self) -> ShadowEstimate:
        """Return what the shadow would have earned."""
        decisions, earned, estimated, weights = self._sums[: len(self._place_of)].T
        total = float(decisions.sum())
        value = _ratio(estimated, decisions)
        difference = _ratio(estimated - earned, decisions)
        count = max(self._count, 1)
        effective = (float(weights.sum()) / total) ** 2 / (self._squares / count) * total if self._squares else 0.0
        reason = self._reason(effective, _groups(estimated - earned, decisions), _mean_errors(weights, decisions))
        return ShadowEstimate(
            decisions=round(total),
            visitors=len(self._place_of),
            part=self._limit / ALL_VISITORS,
            effective=effective,
            agreement=self._overlap / count if self._count else math.nan,
            unsupported=self._unsupported / count,
            earned=float(earned.sum()) / total if total else math.nan,
            value=value.unbounded() if reason else value,
            difference=difference.unbounded() if reason else difference,
            reason=reason,
        )

    def _reason(self, effective: float, groups: float, mean_errors: float) -> str:
        """Return why the difference tells nothing; empty where it tells something."""
        if not self._count:
            return "no decision is over"
        if self._squares and self._overlap / self._count > 1.0 - 1e-9:
            return "both choose alike"
        unsupported = self._unsupported / self._count
        if unsupported > MOST_UNSUPPORTED:
            return f"the champion never shows {unsupported:.0%} of what it would show"
        rewards = self._rewarded**2 / self._rewarded_squares if self._rewarded_squares else 0.0
        if effective < LEAST_EFFECTIVE:
            return f"decisions say as much as {effective:,.0f} of its own, and {LEAST_EFFECTIVE:,.0f} are needed"
        if rewards < LEAST_REWARDS:
            return f"rewards say as much as {rewards:,.0f} of its own, and {LEAST_REWARDS:,.0f} are needed"
        if groups < LEAST_GROUPS:
            return f"as few as {groups:,.0f} visitors decide it, and {LEAST_GROUPS:,.0f} are needed"
        if mean_errors > MEAN_ERRORS:
            return f"its weights miss a mean of 1 by {mean_errors:.1f} standard errors: the probabilities are wrong"
        return ""


def _influence(top: FloatArray, bottom: FloatArray) -> FloatArray:
    """Return by how much each visitor moves the ratio of two sums, times the second one."""
    return np.asarray(top - top.sum() / bottom.sum() * bottom)


def _ratio(top: FloatArray, bottom: FloatArray) -> ValueEstimate:
    """Return the ratio of two sums over visitors, with its interval."""
    if not len(top):
        return ValueEstimate(math.nan, math.nan, math.nan)
    value = float(top.sum() / bottom.sum())
    if len(top) < 2:
        return ValueEstimate(value, -math.inf, math.inf)
    half = _factor(len(top)) * _error(top, bottom)
    return ValueEstimate(value, value - half, value + half)


def _error(top: FloatArray, bottom: FloatArray) -> float:
    """Return the standard error of the ratio of two sums over visitors."""
    count = len(top)
    return math.sqrt(float((_influence(top, bottom) ** 2).sum()) * count / (count - 1)) / float(bottom.sum())


def _factor(count: int) -> float:
    """Return how many standard errors an interval of so many visitors has to each side."""
    log_level = math.log(LEVEL)
    rho_squared = (-2.0 * log_level + math.log(1.0 - 2.0 * log_level)) / TUNED_TO
    scaled = count * rho_squared + 1.0
    return math.sqrt(2.0 * scaled / (count * rho_squared) * math.log(math.sqrt(scaled) / LEVEL))


def _groups(top: FloatArray, bottom: FloatArray) -> float:
    """Return the effective number of visitors behind the error of a ratio."""
    if not len(top):
        return 0.0
    squares = _influence(top, bottom) ** 2
    fourths = float((squares**2).sum())
    return float(squares.sum()) ** 2 / fourths if fourths else 0.0


def _mean_errors(weights: FloatArray, decisions: FloatArray) -> float:
    """Return by how many standard errors the mean weight misses 1."""
    if len(weights) < 2:
        return 0.0
    error = _error(weights, decisions)
    distance = abs(float(weights.sum() / decisions.sum()) - 1.0)
    return distance / error if error > 1e-12 else 0.0


def _signed(value: float) -> str:
    return f"{value:+.3g}"
