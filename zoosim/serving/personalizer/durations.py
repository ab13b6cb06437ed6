"""Durations as ISO 8601 writes them, such as PT10M."""

import re

_DURATION = re.compile(
    r"P(?=[0-9T])(?:(?P<days>[0-9]{1,6})D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]{1,6})H)?(?:(?P<minutes>[0-9]{1,6})M)?(?:(?P<seconds>[0-9]{1,6}(?:\.[0-9]{1,7})?)S)?)?"
)
_UNITS = {"days": 86_400.0, "hours": 3_600.0, "minutes": 60.0, "seconds": 1.0}


def seconds_of(text: str) -> float | None:
    """Return a duration in seconds, None for what is none."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    return sum(_UNITS[unit] * float(count) for unit, count in match.groupdict().items() if count is not None)


def duration_of(seconds: float) -> str:
    """Return seconds as a duration."""
    days, rest = divmod(seconds, 86_400.0)
    hours, rest = divmod(rest, 3_600.0)
    minutes, rest = divmod(rest, 60.0)
    date = f"{days:.0f}D" if days else ""
    time = "".join(f"{count:g}{unit}" for count, unit in ((hours, "H"), (minutes, "M"), (round(rest, 6), "S")) if count)
    return f"P{date}T{time}" if time else f"P{date or 'T0S'}"
