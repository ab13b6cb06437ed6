"""Numbers, times and lengths of time as the console writes them."""

import math
from datetime import UTC, datetime

from zoosim.core.durations import DAY, HOUR, MICROSECONDS

MISSING = "\u2013"


def signed(value: float | None) -> str:
    """Return a difference with its sign; a dash for none."""
    return MISSING if value is None else f"{value + 0.0:+.3g}".replace("-", "\u2212")


def amount(value: float | None) -> str:
    """Return an amount; a dash for none."""
    return MISSING if value is None or not math.isfinite(value) else f"{value:.4g}".replace("-", "\u2212")


def moment(time: float) -> str:
    """Return a time in microseconds since 1970 as a date and a time of day, in UTC."""
    return f"{datetime.fromtimestamp(time / MICROSECONDS, UTC):%Y-%m-%d %H:%M:%S}"


def span(length: float) -> str:
    """Return a length of time in microseconds in words."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (60 * MICROSECONDS, "min")):
        if length >= unit:
            return f"{length / unit:.3g} {name}"
    return f"{length / MICROSECONDS:.3g} s"
