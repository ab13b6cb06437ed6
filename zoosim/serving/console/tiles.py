"""Tiles of the console: a difference of rewards between two arms, with its interval."""

from typing import NamedTuple


class Band(NamedTuple):
    """An interval on a line of width 100: where it begins, its width, the estimate, zero and the margin."""

    left: float
    width: float
    estimate: float
    zero: float
    margin: float


class Tile(NamedTuple):
    """How one reward stands between two arms: numbers as texts, and its band in parts of the band's width."""

    reward: str
    role: str
    difference: str
    interval: str
    confidence: str
    margin: str
    verdict: str
    note: str
    band: Band | None


def band_of(low: float, high: float, estimate: float, margin: float = 0.0) -> Band:
    """Return an interval as a band; a margin of 0 stands where 0 does."""
    reach = max(abs(low), abs(high), margin) or 1.0

    def place(value: float) -> float:
        return round(50.0 + 48.0 * value / reach, 1)

    return Band(place(low), round(place(high) - place(low), 1), place(estimate), place(0.0), place(-margin))
