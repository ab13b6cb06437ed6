"""How studies write means with their intervals."""

from collections.abc import Sequence

from zoosim.core.statistics import Interval, mean_interval


def told(values: Sequence[float], digits: int, *, percent: bool = False, sign: bool = False) -> str:
    """Write the mean of `values`, one a seed, with its 95% interval, as 1.25 (1.10-1.40)."""
    return written(mean_interval(values), digits, percent=percent, sign=sign)


def written(interval: Interval, digits: int, *, percent: bool = False, sign: bool = False) -> str:
    """Write a mean with its interval; a range with signs has a "to" in it."""
    mean = _number(interval.mean, digits, percent, sign) + ("%" if percent else "")
    return mean if interval.low is None else f"{mean} ({_ends(interval, digits, percent, sign)})"


def interval_alone(interval: Interval, digits: int, *, sign: bool = False) -> str:
    """Write an interval without its mean, as: 95% interval 1.10-1.40."""
    return "one seed" if interval.low is None else f"95% interval {_ends(interval, digits, False, sign)}"


def _ends(interval: Interval, digits: int, percent: bool, sign: bool) -> str:
    low, high = ("" if end is None else _number(end, digits, percent, sign) for end in (interval.low, interval.high))
    return f"{low}{' to ' if sign else chr(0x2013)}{high}"


def _number(value: float, digits: int, percent: bool, sign: bool) -> str:
    scaled = round(100 * value if percent else value, digits) + 0.0  # no "-0"
    return f"{scaled:{'+' if sign else ''}.{digits}f}"


def extremes(values: Sequence[float], digits: int, *, percent: bool = False) -> str:
    """Write the lowest and the highest of `values`."""
    low, high = (_number(value, digits, percent, False) for value in (min(values), max(values)))
    return f"{low}\u2013{high}"
