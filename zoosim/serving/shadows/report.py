"""What the learner tells of a shadow: how often it would choose alike, and what it would have earned."""

import math
from typing import Any

import msgspec

from zoosim.monitoring.shadow import ShadowEstimate


class ShadowReport(msgspec.Struct, array_like=True):
    """State of a shadow at a row of the log; figures are per decision of the champion, in units of the objective.

    Attributes:
        arm: The name of its arm.
        origin: The origin of its policy, as in `Start`.
        time: When the newest row came that counts, in microseconds since 1970.
        decisions, visitors: How many count.
        part: The part of the visitors that is drawn to count.
        effective: The effective sample size.
        agreement: The mean part of both distributions that is the same, from 0 to 1.
        unsupported: The mean probability of what the champion never shows.
        earned: What the champion earned.
        value, value_low, value_high: What the shadow would have earned, and its interval.
        difference, low, high: By how much that is more, and its interval.
        skipped: Decisions that it could not have made.
        sentence: What this says.
    """

    arm: str
    origin: str
    time: int
    decisions: int
    visitors: int
    part: float
    effective: float
    agreement: float
    unsupported: float
    earned: float
    value: float
    value_low: float
    value_high: float
    difference: float
    low: float
    high: float
    skipped: int
    sentence: str

    def as_plain(self) -> dict[str, Any]:
        """Return it as plain values by name, without numbers that JSON lacks."""
        return {name: _plain(value) for name, value in msgspec.structs.asdict(self).items()}


def report_of(arm: str, origin: str, time: int, skipped: int, estimate: ShadowEstimate) -> ShadowReport:
    """Return the report of a shadow."""
    return ShadowReport(
        arm=arm,
        origin=origin,
        time=time,
        decisions=estimate.decisions,
        visitors=estimate.visitors,
        part=estimate.part,
        effective=estimate.effective,
        agreement=estimate.agreement,
        unsupported=estimate.unsupported,
        earned=estimate.earned,
        value=estimate.value.value,
        value_low=estimate.value.low,
        value_high=estimate.value.high,
        difference=estimate.difference.value,
        low=estimate.difference.low,
        high=estimate.difference.high,
        skipped=skipped,
        sentence=estimate.sentence,
    )


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
