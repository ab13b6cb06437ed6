"""Filters of the pages' templates: how numbers, intervals, seeds and names are written."""

import itertools
import re
from collections.abc import Iterable, Mapping

from markupsafe import Markup

from zoosim.core import number_format

MISSING = "\u2013"
NBSP = "\u00a0"


def percent(value: float | None) -> str:
    """0.8412 as 84.1%."""
    return number_format.percent(value, MISSING)


def interval(value: Mapping[str, float | None]) -> str:
    """The 95% interval of a fraction as 83.2–85.0%; empty when there is none."""
    low = value["low"]
    high = value["high"]
    # Word joiners around the dash, so that no line breaks within an interval.
    return "" if low is None or high is None else f"{100 * low:.1f}\u2060\u2013\u2060{100 * high:.1f}%"


def amount(value: float | None) -> str:
    """8.4123 as 8.41."""
    return MISSING if value is None else f"{value:,.2f}"


def signed(value: float | None) -> str:
    """An amount that may be negative: -0.4123 as 0.41 with a true minus before it."""
    # -0.0 + 0.0 is 0.0: what rounds to 0 has no minus.
    return MISSING if value is None else f"{round(value, 2) + 0.0:,.2f}".replace("-", "\u2212")


def amounts(value: Mapping[str, float | None]) -> str:
    """The 95% interval of an amount as 8.32–8.50; empty when there is none."""
    low = value["low"]
    high = value["high"]
    return "" if low is None or high is None else f"{signed(low)}\u2060\u2013\u2060{signed(high)}"


def points(value: float | None) -> str:
    """A signed difference in percentage points, with a true minus."""
    return MISSING if value is None else f"{100 * value:+.1f}".replace("-", "\u2212")


def count(value: float | None) -> str:
    """12345 as 12,345."""
    return MISSING if value is None else f"{value:,.0f}"


def p_value(value: float | None) -> str:
    """0.0123 as .012, and 0.0001 as below .001."""
    return number_format.p_value(value, MISSING)


def duration(seconds: float | None) -> str:
    """372.4 as 6 min 12 s."""
    if seconds is None:
        return MISSING
    if seconds < 60:
        return f"{seconds:.1f}{NBSP}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "min"), (rest if not hours else 0, "s")]
    return NBSP.join(f"{number}{NBSP}{unit}" for number, unit in parts if number)


def seed_list(seeds: Iterable[int]) -> str:
    """[0, 1, 2, 7] as 0–2, 7."""
    # Within a run of consecutive seeds the seed less its place is constant.
    runs = itertools.groupby(enumerate(sorted(seeds)), key=lambda item: item[1] - item[0])
    ends = [[seed for _, seed in run] for _, run in runs]
    return ", ".join(f"{run[0]}{MISSING}{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in ends)


def breakable(name: str) -> Markup:
    """The name, escaped, with a place to break the line after each joint."""
    return Markup("<wbr>").join(re.split("(?<=[_./-])", name))


FILTERS = (percent, interval, amount, signed, amounts, points, count, p_value, duration, seed_list, breakable)
