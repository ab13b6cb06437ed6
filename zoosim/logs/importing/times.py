"""Times of a user's table, as times in UTC."""

import re
from typing import NamedTuple
from zoneinfo import ZoneInfo

import polars as pl

from zoosim.core.errors import DataError
from zoosim.core.parameters import shown
from zoosim.logs.checks import is_in_calendar
from zoosim.logs.importing.dates import in_iso_order
from zoosim.schema.values import LAST_COUNTED, MICROSECONDS_PER, NUMBER, DateOrder, Epoch, epoch_of, numbers_of

ZONE = r":\d{2}(?:\.\d+)?\s*(Z|[+-]\d{2}(?::?\d{2})?)\s*$"
HOURS = r"(:\d{2}(?:\.\d+)?\s*[+-]\d{2})\s*$"
"""An offset of hours alone, such as +00, as PostgreSQL writes it."""

MICROSECONDS_OF_YEAR = 365.2425 * 86_400e6


class TimeNotation(NamedTuple):
    """Notation of a table's times: the `time_zone` of those that name none, UTC if nothing is said; the `epoch` units
    that numbers count since 1970, and whether `dates` such as 03/04/2024 begin with the day or the month, None where
    the column tells.
    """

    time_zone: str | None = None
    epoch: Epoch | None = None
    dates: DateOrder | None = None


def read_times(column: pl.Series, notation: TimeNotation, source: str) -> pl.Series:
    """Return a column of times in UTC; what cannot be read, or is beyond the years 1 to 9999, is null.

    Words in ISO 8601, or with day and month first, all name the same offset, or none. Raises `DataError` for mixed time
    zones, naming the first row that differs, and where nothing tells what numbers count, or day from month.
    """
    times = _in_utc(column, notation, source)
    return times.to_frame().select(pl.when(is_in_calendar(times)).then(times)).to_series().alias(column.name)


def _in_utc(column: pl.Series, notation: TimeNotation, source: str) -> pl.Series:
    if column.dtype == pl.Date:
        column = column.cast(pl.Datetime("us"))
    dtype = column.dtype
    if isinstance(dtype, pl.Datetime):
        column = column.to_frame().select(pl.when(is_in_calendar(column)).then(column)).to_series()
        if dtype.time_zone is None:
            return _placed(column, notation.time_zone, source)
        return column.dt.convert_time_zone("UTC").dt.cast_time_unit("us")
    if notation.epoch or column.dtype.is_numeric() or _counts(column):
        return _counted(column, notation.epoch, source)
    if column.dtype != pl.String:
        raise DataError(f"{source}: column {column.name} holds values of type {column.dtype}, expected times as words")
    column = in_iso_order(column, notation.dates, source)
    column = column.str.replace(HOURS, "${1}:00").alias(column.name)
    offsets = column.str.extract(ZONE).replace({"+00:00": "Z", "+0000": "Z"})
    _check_one_zone(column, offsets, source)
    if offsets.null_count() < column.len():
        return _parsed(column.str.replace(r"Z\s*$", "+00:00"), "UTC", source)
    return _placed(_parsed(column, None, source), notation.time_zone, source)


def _counts(column: pl.Series) -> bool:
    """Return whether a column of words holds numbers that count from 1970."""
    if column.dtype != pl.String or not column.str.strip_chars().str.contains(NUMBER).all():
        return False
    return epoch_of(numbers_of(column)) is not None


def _counted(column: pl.Series, epoch: Epoch | None, source: str) -> pl.Series:
    """Return numbers as times; raises `DataError` where nothing tells their unit, or most are no time in theirs."""
    counts = pl.Series(column.name, numbers_of(column)).fill_nan(None)
    likely = epoch_of(counts.drop_nulls().to_numpy())
    unit = epoch or likely
    hint = "say in a schema what it counts (epoch: s, ms or us)"
    if unit is None:
        raise DataError(f"{source}: column {column.name} holds {shown(column.drop_nulls().first())}; {hint}")
    microseconds = counts * MICROSECONDS_PER[unit]
    is_beyond = microseconds.abs() >= LAST_COUNTED
    if 2 * int(is_beyond.sum()) > counts.len() - counts.null_count():
        row = int(is_beyond.fill_null(False).arg_max() or 0)
        year = 1970 + float(counts[row]) * MICROSECONDS_PER[unit] / MICROSECONDS_OF_YEAR
        looks = f"; it looks like {likely}" if likely else ""
        got = f"row {row}, column {column.name}: got {shown(column[row])}, with epoch: {unit} the year {year:,.0f}"
        raise DataError(f"{source}: {got}{looks}; {hint}")
    within = pl.select(pl.when(~is_beyond).then(microseconds)).to_series()
    return within.round().cast(pl.Int64).cast(pl.Datetime("us", "UTC")).alias(column.name)


def _parsed(column: pl.Series, time_zone: str | None, source: str) -> pl.Series:
    """Read times in words; raises `DataError` where not one can be read."""
    if column.null_count() == column.len():
        return column.cast(pl.Datetime("us", time_zone))
    try:
        return column.str.to_datetime(time_zone=time_zone, time_unit="us", strict=False)
    except pl.exceptions.PolarsError:
        example = shown(column.drop_nulls().first())
        counts = column.drop_nulls().str.contains(r"^\s*\d+(\.\d+)?\s*$").all()
        hint = "say in a schema what it counts (epoch: s, ms or us)" if counts else "expected such as 2026-03-01T10:00Z"
        got = f"column {column.name} holds no time that can be read, but {example}"
        raise DataError(f"{source}: {got}; {hint}") from None


def lacks_zone(column: pl.Series) -> bool:
    """Return whether the times of a column name no time zone, and are no counts since 1970."""
    if isinstance(column.dtype, pl.Datetime):
        return column.dtype.time_zone is None
    if column.dtype != pl.String:
        return column.dtype == pl.Date
    first = column.drop_nulls()[:1]
    return bool(first.len()) and not _counts(first) and not first.str.contains(f"{ZONE}|{HOURS}").any()


def _placed(column: pl.Series, time_zone: str | None, source: str) -> pl.Series:
    """Return times without a zone, which are those of `time_zone`, by default UTC, as times in UTC."""
    time_zone = time_zone or "UTC"
    try:
        ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError):
        raise DataError(f"{source}: time_zone: got {shown(time_zone)}, expected a name such as Europe/Berlin") from None
    # The hour that clocks show twice when summer time ends is taken for its first; the one that they skip is no time.
    local = column.dt.cast_time_unit("us").dt.replace_time_zone(time_zone, ambiguous="earliest", non_existent="null")
    return local.dt.convert_time_zone("UTC")


def _check_one_zone(column: pl.Series, offsets: pl.Series, source: str) -> None:
    filled = offsets.fill_null("none").zip_with(column.is_not_null(), pl.Series([None], dtype=pl.String))
    if column.null_count() == column.len():
        return
    first = filled.drop_nulls().first()
    others = (filled != first).fill_null(False)
    if others.any():
        row = int(others.arg_max() or 0)
        offset = re.sub("^none$", "no time zone", str(filled[row]))
        got = f"row {row}, column {column.name}: got {shown(column[row])} ({offset})"
        count = f"{int(others.sum()):,} of {column.len():,} rows differ"
        expected = re.sub("^none$", "no time zone", str(first))
        raise DataError(f"{source}: {got}, expected {expected} as in the rows before; {count}; give all times in UTC")
