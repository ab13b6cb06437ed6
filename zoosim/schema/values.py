"""Single values of a shop's tables, as CSV, Parquet, JSON and Python write them: what is missing, equal, a number.

A value means the same wherever it comes from: 7, 7.0, "7" and " 7.0 " are one level and one number.
"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from zoosim.core.digests import short_hash
from zoosim.core.types import BoolArray, FloatArray, IntArray

MISSING = frozenset({"", "nan", "NaN", "NAN", "null", "NULL", "None", "NA", "N/A", "n/a", "<NA>", "NaT"})
"""Words that stand for no value."""

UNREADABLE = (pl.Object, pl.Binary, pl.Struct)
"""Types of columns that hold what is no value of a shop's table."""

WORDS = (pl.String, pl.Categorical, pl.Enum)
"""Types of columns that hold words."""

NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
"""Pattern of numbers, in Python's and in Rust's regular expressions."""

LONGEST_DATE = 8
"""Digits of a date in ISO 8601 without hyphens, 20240304."""

_NUMBER = re.compile(NUMBER)
WHOLE = r"^([+-]?(?:0|[1-9][0-9]{0,299}))\.0+$"
"""A whole number that is written as another, in Python's and in Rust's regular expressions."""

_WHOLE = re.compile(WHOLE)
SECONDS = (
    r"^(?P<minute>(?:19[5-9]|2[0-9]{2})[0-9]-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2})"
    r":[0-5][0-9](?:\.[0-9]{3}(?:[0-9]{3})?)?(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?$"
)
"""A time in ISO 8601 that names its seconds."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DateOrder = Literal["day-first", "month-first"]
"""Order of day and month in dates such as 03/04/2024."""

Epoch = Literal["s", "ms", "us"]
MICROSECONDS_PER: Mapping[Epoch, float] = {"s": 1e6, "ms": 1e3, "us": 1.0}
"""Lengths of the units in which times are counted."""

FIRST_COUNTED, LAST_COUNTED = 3e14, 1e16
"""From July 1979 to 2286, in microseconds since 1970, numbers tell by their size what they count."""

LARGEST_NUMBER = 1e100
"""Larger numbers, whose squares overflow, are as unreadable as infinity."""

BLANK = " \t\r\n"
"""Characters that are stripped from words at both ends."""

YES = frozenset({"true", "yes", "y", "t", "1", "on"})
NO = frozenset({"false", "no", "n", "f", "0", "off"})


def text_of(value: Any) -> str | None:
    """Normalise a value to its canonical text, None where it is missing."""
    if value is None:
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        if math.isnan(value):
            return None
        return str(int(value)) if value == int_or_none(float(value)) else repr(float(value))
    try:
        text = str(value).strip(BLANK)
    except ValueError:  # a whole number of more than 4,300 digits
        return None
    if text in MISSING:
        return None
    whole = _WHOLE.match(text)
    return str(int(whole[1])) if whole else text


def text_of_any(value: Any) -> str | None:
    """Return `text_of` a value, or a list as a text; None where it is missing."""
    return str(value) if isinstance(value, list | tuple) else text_of(value)


def int_or_none(value: float) -> int | None:
    """Return a float as a whole number, None for infinity."""
    return None if math.isinf(value) else int(value)


def product_key(name: Any) -> int:
    """Return the number by which policies know a product, 0 to 2**63 - 1: a whole number is itself, a text its hash."""
    text = text_of(name) or ""
    if text.isascii() and text.isdigit() and len(text) < 20:
        number = int(text)
        # Whole numbers below 2^62, hashes above: no product is taken for one of the other kind.
        if number < 2**62 and str(number) == text:  # 007 is another product than 7
            return number
    return 2**62 + (level_hash(text) >> 1)


def texts_of(column: pl.Series) -> pl.Series:
    """Return `text_of` of each value of a column of words, numbers or times; null where it is missing."""
    distinct = column.unique()
    texts = pl.Series([text_of(value) for value in distinct.to_list()], dtype=pl.String)
    index = pl.DataFrame({"value": distinct, "text": texts})
    rows = pl.DataFrame({"value": column})
    return rows.join(index, on="value", how="left", nulls_equal=True, maintain_order="left")["text"]


def ids_of(column: pl.Series) -> pl.Series:
    """Return `text_of` of each value of a column of ids, of which most differ; null where it is missing."""
    texts = column.cast(pl.String).str.strip_chars(BLANK)
    is_missing = texts.is_in(MISSING)
    return pl.select(pl.when(~is_missing).then(texts.str.replace(WHOLE, "$1"))).to_series().alias(column.name)


def visitor_ids(column: pl.Series) -> pl.Series:
    """Return ids of visitors as text: a row that names none gets an id that no other row has."""
    ids = ids_of(column)
    own = pl.select(pl.format("\0{}", pl.int_range(ids.len()))).to_series()
    return ids.zip_with(ids.is_not_null(), own)


def counted(column: pl.Series) -> pl.DataFrame:
    """Return the distinct values of a column, each `value` with its `count`."""
    if column.dtype == pl.Object:
        return pl.DataFrame({"value": column, "count": np.ones(column.len(), np.int64)})
    return column.alias("value").value_counts(name="count")


def checked_zone(name: str) -> str:
    """Return the name of a time zone that is known; raises `ValueError` for another."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"got {name!r}, expected a name such as Europe/Berlin") from None
    return name


def level_hash(text: str) -> int:
    """Return a hash of a text that is the same on every machine and in every process, 0 to 2**63 - 1."""
    return int.from_bytes(short_hash(text.encode(errors="surrogatepass")), "big") >> 1


def number_of(value: Any) -> float | None:
    """Return a value as a number of at most `LARGEST_NUMBER`, None where it is missing or none."""
    if type(value) is float:  # what requests hold by the dozen
        return value if abs(value) <= LARGEST_NUMBER else None
    if isinstance(value, bool | int | float | np.number | np.bool_):
        try:
            number = float(value)
        except (OverflowError, TypeError):  # a whole number beyond floats, a complex one
            return None
    else:
        text = "" if value is None else str(value).strip(BLANK)
        if not _NUMBER.match(text):
            return None
        number = float(text)
    return number if abs(number) <= LARGEST_NUMBER else None


def truth_of(value: Any) -> bool | None:
    """Return a value as yes or no, None where it is missing or neither."""
    text = text_of(value)
    if text is None:
        return None
    word = text.lower()
    if word in YES:
        return True
    return False if word in NO else None


def time_of(value: Any, time_zone: ZoneInfo, epoch: Epoch | None = None) -> datetime | None:
    """Return a value as a time in a zone; None where it is missing or none.

    Args:
        value: A text, a time or a number.
        time_zone: The zone; a value that names none of its own is taken to be in it.
        epoch: The unit of numbers, which count from 1970; None where numbers are no times.
    """
    if text_of(value) is None:
        return None
    count = number_of(value) if epoch else None
    if epoch and count is not None:
        return _counted_time(count * MICROSECONDS_PER[epoch], time_zone)
    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, date):
        moment = datetime(value.year, value.month, value.day)
    elif isinstance(value, np.datetime64):
        moment = value.astype("datetime64[us]").item()
    else:
        text = str(value).strip(BLANK)
        if len(text) > LONGEST_DATE and _NUMBER.match(text):  # 1711112350612 is no time of the year 1711
            return None
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
    try:
        return moment.replace(tzinfo=time_zone) if moment.tzinfo is None else moment.astimezone(time_zone)
    except OverflowError:  # a time in the year 1 or 9999
        return None


def _counted_time(microseconds: float, time_zone: ZoneInfo) -> datetime | None:
    try:
        return (EPOCH + timedelta(microseconds=microseconds)).astimezone(time_zone)
    except OverflowError:
        return None


def epoch_of(counts: FloatArray) -> Epoch | None:
    """Return in which unit numbers count from 1970, by their size; None where they are none or of several units."""
    for unit, length in MICROSECONDS_PER.items():
        microseconds = counts * length
        if len(counts) and ((microseconds >= FIRST_COUNTED) & (microseconds < LAST_COUNTED)).all():
            return unit
    return None


def to_the_minute(column: pl.Series) -> pl.Series:
    """Return times without their seconds, so that fewer differ; what is no modern time stays as it is.

    Before 1950 offsets of time zones were no whole minutes.
    """
    if column.dtype == pl.String:
        return column.str.replace(SECONDS, "${minute}${zone}")
    if isinstance(column.dtype, pl.Datetime):
        modern = column.dt.year() >= 1950
        return column.to_frame().select(pl.when(modern).then(column.dt.truncate("1m")).otherwise(column)).to_series()
    return column


def numbers_of(column: pl.Series) -> FloatArray:
    """Return `number_of` of each value of a column `(n,)`, NaN where there is no number; to the bit the same."""
    if column.dtype in WORDS:
        words = column.cast(pl.String).str.strip_chars(BLANK)
        readable = pl.select(pl.when(words.str.contains(NUMBER)).then(words)).to_series()
        numbers = readable.cast(pl.Float64, strict=False)
    elif (column.dtype.is_numeric() and not column.dtype.is_decimal()) or column.dtype == pl.Boolean:
        numbers = column.cast(pl.Float64, strict=False)
    elif column.dtype.is_decimal() or column.dtype == pl.Object:
        numbers = pl.Series(map(number_of, column.to_list()), dtype=pl.Float64)
    else:
        return np.full(column.len(), math.nan)
    array = numbers.fill_null(math.nan).to_numpy().astype(float, copy=True)
    array[~(np.abs(array) <= LARGEST_NUMBER)] = math.nan
    return array


def distinct_values(column: pl.Series) -> tuple[list[Any], IntArray]:
    """Return the different values of a column, and which of them each row holds `(n,)`."""
    if column.dtype == pl.Object:
        return column.to_list(), np.arange(column.len())
    # Ranks follow values, and nested values have none: a struct's hash table gives every distinct value a number.
    frame = pl.DataFrame({"value": column}).with_row_index("row")
    distinct = frame.group_by("value", maintain_order=True).agg("row")
    lengths = distinct["row"].list.len().to_numpy()
    value_of_row = np.empty(column.len(), np.int64)
    value_of_row[distinct["row"].list.explode().to_numpy()] = np.repeat(np.arange(len(lengths)), lengths)
    return distinct["value"].to_list(), value_of_row


def which(column: pl.Series, condition: Callable[[Any], bool]) -> BoolArray:
    """Return where a condition holds, `(n,)`.

    Args:
        column: The values, `(n,)`.
        condition: Called once for each different value.
    """
    values, value_of_row = distinct_values(column)
    return np.asarray(np.array([condition(value) for value in values], bool)[value_of_row])


def present(column: pl.Series) -> BoolArray:
    """Return which values are not missing `(n,)`, as `text_of_any` says."""
    if column.dtype in WORDS:
        words = column.cast(pl.String).str.strip_chars(BLANK)
        return (words.is_not_null() & ~words.is_in(MISSING)).to_numpy()
    if column.dtype.is_numeric():
        return np.asarray(~np.isnan(column.cast(pl.Float64).to_numpy()))
    return which(column, lambda value: text_of_any(value) is not None)
