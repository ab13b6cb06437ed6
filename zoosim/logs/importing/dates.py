"""Dates that begin with a day or a month, such as 03/04/2024: which of both comes first."""

import numpy as np
import polars as pl

from zoosim.core.errors import DataError
from zoosim.core.parameters import shown
from zoosim.schema.values import DateOrder

BEGINS = r"^\s*\d{1,2}[/.-]"
DATE = (
    r"^\s*(?P<first>\d{1,2})[/.-](?P<second>\d{1,2})[/.-](?P<year>\d{4})"
    r"(?:[T\s,]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<seconds>\d{2}(?:\.\d+)?))?"
    r"\s*(?:(?P<half>[AaPp])\.?[Mm]\.?)?\s*(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?)?\s*$"
)
"""Day and month in either order, a year of four digits, and a time of 24 hours, or of 12 with AM or PM."""

NOON = 12
MONTHS = 12


def in_iso_order(column: pl.Series, order: DateOrder | None, source: str) -> pl.Series:
    """Return times in words with the year first; those that begin with day or month and cannot be read are null.

    Without an `order` a number above 12 in one place settles it for the column; raises `DataError` where none does.
    """
    begins = column.str.contains(BEGINS).fill_null(False)
    if not begins.any():
        return column
    parts = column.str.extract_groups(DATE).struct.unnest()
    places = parts.select(pl.col("first", "second").cast(pl.Int32))
    if order is None:
        order = _settled(places["first"], places["second"], column, source)
    day, month = ("first", "second") if order == "day-first" else ("second", "first")
    hour = pl.col("hour").fill_null("0").cast(pl.Int32)
    is_afternoon = pl.col("half").str.to_lowercase() == "p"
    whole_hour = pl.when(pl.col("half").is_null()).then(hour).otherwise(hour % NOON + NOON * is_afternoon)
    iso = pl.concat_str(
        pl.col("year"),
        pl.lit("-"),
        pl.col(month).str.zfill(2),
        pl.lit("-"),
        pl.col(day).str.zfill(2),
        pl.lit(" "),
        whole_hour.cast(pl.String).str.zfill(2),
        pl.lit(":"),
        pl.col("minute").fill_null("00"),
        pl.lit(":"),
        pl.col("seconds").fill_null("00"),
        pl.col("zone").fill_null(""),
    )
    return parts.select(iso.alias(column.name)).to_series().zip_with(begins, column)


def shorter_order(column: pl.Series) -> DateOrder | None:
    """Return the order of day and month in which a column's dates span the shorter period, where nothing settles it.

    None where a row settles it, or no dates begin with a day or a month.
    """
    if column.dtype != pl.String or not column.drop_nulls()[:1_000].str.contains(BEGINS).any():
        return None
    dates = column.str.extract_groups(DATE).struct.unnest().select(pl.col("first", "second", "year").cast(pl.Int32))
    dates = dates.filter(pl.all_horizontal(pl.all() > 0))  # no nulls, nor 00/00/0000, as databases write no date
    if dates.is_empty() or (dates.select("first", "second").max_horizontal() > MONTHS).any():
        return None

    def days(day: str, month: str) -> int:
        numbers = dates.select(pl.date("year", month, day).cast(pl.Int32)).to_series().to_numpy()
        return int(np.ptp(numbers))

    return "day-first" if days("first", "second") <= days("second", "first") else "month-first"


def _settled(first: pl.Series, second: pl.Series, column: pl.Series, source: str) -> DateOrder:
    """Return the order that some row of the column settles; raises `DataError` where none does, or two disagree."""
    has_day_first = (first > MONTHS).fill_null(False)
    has_month_first = (second > MONTHS).fill_null(False)
    if has_day_first.any() and has_month_first.any():
        rows = sorted([int(has_day_first.arg_max() or 0), int(has_month_first.arg_max() or 0)])
        got = " and ".join(f"{shown(column[row])} in row {row}" for row in rows)
        raise DataError(f"{source}: column {column.name}: got {got}, expected day and month in one order; mend one")
    if has_month_first.any():
        return "month-first"
    differs = (first != second).fill_null(False)
    if differs.any() and not has_day_first.any():
        row = int(differs.arg_max() or 0)
        got = f"row {row}, column {column.name}: got {shown(column[row])}, and no row tells day from month"
        raise DataError(f"{source}: {got}; say dates: day-first or month-first in a schema")
    return "day-first"
