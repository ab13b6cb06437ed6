"""Times of a user's table, as times in UTC."""

import re
from zoneinfo import ZoneInfo

import polars as pl

from zoosim.core.errors import DataError
from zoosim.core.parameters import shown
from zoosim.schema.values import MICROSECONDS

ZONE = r":\d{2}(?:\.\d+)?\s*(Z|[+-]\d{2}(?::?\d{2})?)\s*$"
HOURS = r"(:\d{2}(?:\.\d+)?\s*[+-]\d{2})\s*$"
"""An offset of hours alone, such as +00, as PostgreSQL writes it."""


def read_times(column: pl.Series, time_zone: str | None, epoch: str | None, source: str) -> pl.Series:
    """Return a column of times in UTC; what cannot be read is null.

    Words in ISO 8601 all name the same offset, or none, and then `time_zone` tells it; numbers count `epoch` units
    since 1970. Raises `DataError` for mixed time zones, naming the first row that differs.
    """
    if epoch and not column.dtype.is_temporal():
        counted = column.cast(pl.Float64, strict=False) * MICROSECONDS[epoch]
        return counted.round().cast(pl.Int64, strict=False).cast(pl.Datetime("us", "UTC"))
    if column.dtype == pl.Date:
        column = column.cast(pl.Datetime("us"))
    if isinstance(column.dtype, pl.Datetime):
        if column.dtype.time_zone is None:
            return _placed(column, time_zone, source)
        return column.dt.convert_time_zone("UTC").dt.cast_time_unit("us")
    if column.dtype != pl.String:
        hint = "expected times as words, or say in a schema what numbers count (epoch: s, ms or us)"
        raise DataError(f"{source}: column {column.name} holds values of type {column.dtype}, {hint}")
    column = column.str.replace(HOURS, "${1}:00").alias(column.name)
    offsets = column.str.extract(ZONE).replace({"+00:00": "Z", "+0000": "Z"})
    _check_one_zone(column, offsets, source)
    if offsets.null_count() < column.len():
        return _parsed(column.str.replace(r"Z\s*$", "+00:00"), "UTC", source)
    return _placed(_parsed(column, None, source), time_zone, source)


def _parsed(column: pl.Series, time_zone: str | None, source: str) -> pl.Series:
    """Read times in words; raises `DataError` where not one can be read."""
    try:
        return column.str.to_datetime(time_zone=time_zone, time_unit="us", strict=False)
    except pl.exceptions.PolarsError:
        example = shown(column.drop_nulls().first())
        counts = column.drop_nulls().str.contains(r"^\s*\d+(\.\d+)?\s*$").all()
        hint = "say in a schema what it counts (epoch: s, ms or us)" if counts else "expected such as 2026-03-01T10:00Z"
        got = f"column {column.name} holds no time that can be read, but {example}"
        raise DataError(f"{source}: {got}; {hint}") from None


def _placed(column: pl.Series, time_zone: str | None, source: str) -> pl.Series:
    """Return times without a zone as times in UTC."""
    if time_zone is None:
        raise DataError(f"{source}: column {column.name} names no time zone; say time_zone: UTC, or which, in a schema")
    try:
        ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError):
        raise DataError(f"{source}: time_zone: got {shown(time_zone)}, expected a name such as Europe/Berlin") from None
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
