"""Numbers as the terminal, notebooks, pages and verdicts write them."""

import math
from collections.abc import Iterable
from typing import NamedTuple

DIGITS = 3
"""Significant digits of a value whose interval is not known."""

MOST_DECIMALS = 12

COUNTED = ("clicks", "purchases", "orders")
"""Units of which there are fewer, not less."""

UNITS = {
    "click": "clicks",
    "clicked": "clicks",
    "CTR": "clicks",
    "purchase": "purchases",
    "purchased": "purchases",
    "order": "orders",
    "ordered": "orders",
    "eur": "EUR",
    "usd": "USD",
}
"""Units of rewards of these names; others are called by their names."""


class Written(NamedTuple):
    """A value and its interval in words, with as many decimals as the interval allows."""

    value: str
    interval: str

    def __str__(self) -> str:
        return f"{self.value} ({self.interval})"


def unit_of(reward: str) -> str:
    """Return what rewards of a name are counted in, such as "clicks"."""
    return UNITS.get(reward, reward)


VISIT, VISITOR = "visit", "visitor"
"""Units that rewards are counted per: a visitor is where visitors come back."""


def per_visit(reward: str, unit: str = VISIT) -> str:
    """Return the unit of a mean reward, such as "clicks per visit"; `unit` is what rewards are counted by."""
    return f"{unit_of(reward)} per {unit}"


def decimals(value: float, low: float | None = None, high: float | None = None) -> int:
    """Return how many decimals tell an interval with two significant digits of its half-width.

    Where an end is open, the distance of the other one counts; without any, `value` has `DIGITS` significant digits.
    """
    ends = [end for end in (low, high) if end is not None and math.isfinite(end)]
    half_width = (ends[1] - ends[0]) / 2.0 if len(ends) == 2 else abs(ends[0] - value) if ends else 0.0
    if math.isfinite(half_width) and half_width > 0.0:
        return _decimals_of(half_width, 2)
    return _decimals_of(value, DIGITS) if math.isfinite(value) else 0


def shared_decimals(values: Iterable[float | None]) -> int:
    """Return how many decimals tell figures of one column apart: their spread has `DIGITS` significant digits."""
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if not finite:
        return 0
    spread = max(finite) - min(finite)
    return _decimals_of(spread if spread > 0.0 else finite[0], DIGITS)


def _decimals_of(size: float, digits: int) -> int:
    """Return the decimals with which a number of this size has so many significant digits; whole numbers are whole."""
    if size == 0.0:
        return 0
    # Of .00996 two digits are .010: the exponent is that of the rounded number.
    exponent = int(f"{abs(size):.{digits - 1}e}".partition("e")[2])
    return min(max(digits - 1 - exponent, 0), MOST_DECIMALS)


def plain(value: float) -> str:
    """Write a number whose interval is not known: `DIGITS` significant digits, and whole ones in full, as 86,400."""
    return fixed(value, decimals(value))


def significant(value: float, digits: int) -> str:
    """Write a number with so many significant digits: 2, 0.75, 0.00031; whole ones in full, as 86,400."""
    written = fixed(value, _decimals_of(value, digits))
    return written.rstrip("0").rstrip(".") if "." in written else written


def fixed(value: float | None, places: int, *, signed: bool = False, missing: str = "none") -> str:
    """Write a number with so many decimals; `missing` is written for None and what is not finite."""
    if value is None or not math.isfinite(value):
        return missing
    return f"{value:{'+' if signed else ''}z,.{places}f}"


def with_interval(
    value: float, low: float | None, high: float | None, *, signed: bool = False, suffix: str = ""
) -> Written:
    """Write a value and its interval with the same decimals: 0.0804 and "0.0771 to 0.0837".

    An end that the log leaves open is called so; every number that is written ends in `suffix`. `signed` is for
    differences: where the interval leaves out 0, there are decimals enough that none of its ends is written as 0.
    """
    places = decimals(value, low, high)
    ends = [end for end in (low, high) if end is not None and math.isfinite(end)]
    if signed and ends and (min(ends) > 0.0 or max(ends) < 0.0):
        places = max(places, _decimals_of(min(map(abs, ends)), 1))
    texts = [fixed(number, places, signed=signed, missing="") for number in (value, low, high)]
    mean, lower, upper = (f"{text}{suffix}" if text else "" for text in texts)
    return Written(mean or "none", f"{lower or 'open'} to {upper or 'open'}")


def in_percent(
    value: float, low: float | None, high: float | None, *, signed: bool = False, suffix: str = ""
) -> Written:
    """Write a share and its interval as `with_interval` does, in percent; without "%" unless that is the `suffix`."""
    low, high = (None if end is None else 100.0 * end for end in (low, high))
    return with_interval(100.0 * value, low, high, signed=signed, suffix=suffix)


def counted(number: float, noun: str, plural: str = "") -> str:
    """Write a number of things, rounded: "1 row", "2,000 rows"; `plural` where an "s" does not make it."""
    written = f"{number:,.0f}"
    return f"{written} {noun if written == '1' else plural or f'{noun}s'}"


def percent(value: float | None, missing: str = "-") -> str:
    """Write 0.8412 as 84.1%."""
    return missing if value is None else f"{100 * value:.1f}%"


def weight(value: float) -> str:
    """Write an importance weight to three digits, large ones as whole numbers."""
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"


def p_value(p: float | None, missing: str = "-") -> str:
    """Write a p value as .012, small ones as "below .001"."""
    if p is None:
        return missing
    return "below .001" if p < 0.001 else f"{p:.3f}".removeprefix("0")
