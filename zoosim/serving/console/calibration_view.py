"""What the console says of policies' own predictions: are they right, and where are they not?"""

from collections.abc import Sequence
from typing import NamedTuple

from zoosim.serving.console.calibration import Bin, Calibration
from zoosim.serving.console.texts import amount

HEADS = ("predicted", "came", "95% interval", "decisions", "so it")

LEAST = 20
"""Decisions of a bin from which on it is said whether it holds."""


class CalibrationPanel(NamedTuple):
    """How well one policy predicts: whose it is, a sentence, and a row per bin."""

    arm: str
    sentence: str
    heads: Sequence[str]
    rows: list[list[str]]


def calibration_panels(calibrations: Sequence[Calibration]) -> list[CalibrationPanel]:
    """Return what the console says of each arm's predictions."""
    return [
        CalibrationPanel(
            each.arm, _sentence(each), HEADS, [_row(kept, each) for kept in each.bins if kept.count >= 0.5]
        )
        for each in calibrations
    ]


def _sentence(calibration: Calibration) -> str:
    who = f"{calibration.arm} ({calibration.policy})"
    if not calibration.predicts:
        return f"{who} tells no reward that it expects, so there is nothing to compare with what came."
    bins = [each for each in calibration.bins if each.count >= LEAST]
    if not bins:
        return f"{who} predicts rewards; too few decisions are over to say how well."
    count = sum(each.count for each in calibration.bins)
    predicted = sum(each.predicted for each in calibration.bins) / count
    came = sum(each.came for each in calibration.bins) / count
    right = sum(_holds(each, calibration) for each in bins)
    return (
        f"{who} predicts rewards: {amount(predicted)} on average, {amount(came)} came. In {right} of "
        f"{len(bins)} bins what came agrees with it."
    )


def _holds(kept: Bin, calibration: Calibration) -> bool:
    _, low, high = kept.interval(calibration.low, calibration.high)
    return low <= kept.predicted / kept.count <= high


def _row(kept: Bin, calibration: Calibration) -> list[str]:
    mean, low, high = kept.interval(calibration.low, calibration.high)
    word = "" if kept.count < LEAST else "agrees" if _holds(kept, calibration) else "is off"
    interval = f"{amount(max(low, calibration.low))} to {amount(min(high, calibration.high))}"
    return [amount(kept.predicted / kept.count), amount(mean), interval, f"{kept.count:,.0f}", word]
