"""Grow a fitted schema by what it does not express: new columns, new levels, columns whose type was wrong.

A value becomes a level, and so part of every file that holds the schema, only where `FEWEST_VISITORS` visitors had it;
what fewer had is hashed. Ranges of numbers are rounded, so that they name nobody's number either.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl

from zoosim.core.errors import ZoosimError
from zoosim.core.number_format import counted
from zoosim.core.types import FloatArray
from zoosim.schema.column import FEWEST_VISITORS, MOST_LEVELS
from zoosim.schema.columns import COLUMN_TYPES, AnyColumn, CategoryColumn, LevelColumn, LevelCounts, WordsColumn
from zoosim.schema.encoder import Encoder
from zoosim.schema.infer import MOSTLY, infer_type
from zoosim.schema.number_columns import BEYOND, LONG, NumberColumn, VectorColumn
from zoosim.schema.values import number_of, numbers_of, text_of

MOST_COLUMNS = 50
"""Columns that a schema grows to: those that come most often."""

MOST_TRIED = 200
"""New columns, the most frequent ones, that are looked at: clients may send as many as they like."""

MOST_FEATURES = 1_024
"""Features that a schema grows to: what policies keep of visitors takes the square of them, at 3,000 gigabytes."""

FIRST_LEVELS, BUCKETS = 20, 16
"""Levels of a column when it is taken up, and features that its others share: few, as are the rows."""

USUAL = 0.95
"""Share of the visitors whose numbers say what is usual."""

SEPARATOR = "|"
SHARED = 4
"""Visitors who had each text of a column on average, for it to be a category though no text has visitors enough."""


class Observations(NamedTuple):
    """Observations in requests of visitors, or of products: values by column `rows`, and the visitor of each row."""

    rows: Sequence[Mapping[str, Any]]
    visitors: Sequence[str]

    def of(self, name: str) -> list[Any]:
        """Return the values of a column, None where a row lacks it."""
        return [row.get(name) for row in self.rows]

    def n_visitors(self, rows: Iterable[int]) -> int:
        """Return how many visitors some rows come from."""
        return len({self.visitors[row] for row in rows})


class Grown(NamedTuple):
    """An encoder, and what it has that the one before had not, in words."""

    encoder: Encoder
    news: tuple[str, ...]


def grow_encoder(encoder: Encoder, observed: Observations) -> Grown:
    """Return an encoder that expresses what enough visitors' requests held and the given one does not.

    Columns keep their places, their features and their levels, so that what was learned of them stays true; one whose
    type was wrong is fitted anew. There are at most `MOST_COLUMNS` columns, and `MOST_LEVELS` levels of each.

    Args:
        encoder: How visitors, or products, are encoded so far; without columns everything is new to it.
        observed: What came of late.
    """
    news: list[str] = []
    columns = list(encoder.columns)
    for place, column in enumerate(columns):
        regrown = _regrown(column, observed)
        if regrown is not None and _fits([*columns[:place], regrown, *columns[place + 1 :]]):
            news.append(_difference(column, regrown))
            columns[place] = regrown
    is_first = not encoder.columns
    for name in _new_names(encoder, observed):
        if len(columns) == MOST_COLUMNS:
            break
        new = _fitted(name, observed.of(name), observed.visitors)
        if new is None or not _fits([*columns, new]):
            continue
        # Of what came before the column did, it is missing.
        columns.append(new if is_first else new.model_copy(update={"missing": True}))
        news.append(f"{name} ({new.type})")
    if is_first:
        columns.sort(key=lambda column: column.name)
    return Grown(Encoder(columns=tuple(columns)), tuple(news))


def _new_names(encoder: Encoder, observed: Observations) -> list[str]:
    """Return the columns that an encoder lacks and that may have visitors enough, the most frequent ones first."""
    counts = Counter(name for row in observed.rows for name in row if name not in encoder.by_name)
    frequent = [name for name, count in counts.items() if count >= FEWEST_VISITORS]
    return sorted(frequent, key=lambda name: (-counts[name], name))[:MOST_TRIED]


def _fits(columns: Iterable[AnyColumn]) -> bool:
    return sum(len(column.features) for column in columns) <= MOST_FEATURES


def _difference(before: AnyColumn, after: AnyColumn) -> str:
    """Say what a column has that it had not."""
    if after.type != before.type:
        return f"{before.name} ({after.type}, not {before.type})"
    if isinstance(before, LevelColumn) and isinstance(after, LevelColumn):
        return f"{before.name} ({counted(len(after.levels) - len(before.levels), 'more level')})"
    return before.name


def _regrown(column: AnyColumn, observed: Observations) -> AnyColumn | None:
    """Return a column with the levels that it lacks, or of another type where its own does not fit the values.

    None where it is to stay as it is.
    """
    values = observed.of(column.name)
    misfits = [row for row, value in enumerate(values) if value is not None and not column.expresses(value)]
    if observed.n_visitors(misfits) < FEWEST_VISITORS:
        return None
    if isinstance(column, LevelColumn):
        counts = _count_levels(column, values, observed.visitors)
        unknown = {level: count for level, count in counts.rows.items() if level not in column.levels}
        new = counts._replace(rows=unknown).common(MOST_LEVELS - len(column.levels), FEWEST_VISITORS)
        return column.model_copy(update={"levels": (*column.levels, *new)}) if new else None
    n_present = sum(value is not None for value in values)
    if len(misfits) <= (1.0 - MOSTLY) * n_present:
        return None
    strange = _fitted(column.name, [values[row] for row in misfits], [observed.visitors[row] for row in misfits])
    if strange is None or (strange.type != column.type and 2 * len(misfits) <= n_present):
        return None  # a few words among numbers count as missing
    fitted: AnyColumn | None = strange
    if isinstance(strange, CategoryColumn):
        fitted = _fitted_category(column.name, values, observed.visitors)
    elif strange.type == column.type:
        fitted = _fitted(column.name, values, observed.visitors)
    if fitted is None or fitted.model_copy(update={"missing": column.missing}) == column:
        return None
    return fitted.model_copy(update={"missing": True})


def _fitted(name: str, values: Sequence[Any], visitors: Sequence[str]) -> AnyColumn | None:
    """Return a column of the type that values have; None where they hold nothing, or too few visitors had them."""
    holders = {visitor for value, visitor in zip(values, visitors, strict=True) if value is not None}
    if len(holders) < FEWEST_VISITORS:
        return None
    series = series_of(name, values)
    kind = infer_type(series).type
    if not kind:
        return None
    try:
        if kind == "category" or (kind == "words" and not isinstance(series.dtype, pl.List)):
            return _fitted_category(name, values, visitors)
        if kind == "words":
            return _fitted_words(name, values, visitors)
        if kind == "number":
            return _rounded(NumberColumn.fitted(name, pl.Series(name, _within_usual(numbers_of(series), visitors))))
        if kind == "vector":
            lists = pl.Series(name, _shortened(series.to_list(), visitors), pl.List(pl.Float64))
            return _rounded_vector(VectorColumn.fitted(name, lists))
        fitted: Any = COLUMN_TYPES[kind].fitted(name, series)
    except ZoosimError:  # a column that cannot be read is no feature
        fitted = None
    return cast(AnyColumn | None, fitted)


def _within_usual(numbers: FloatArray, visitors: Sequence[str]) -> FloatArray:
    """Return numbers `(n,)`, NaN where one is missing, clipped where they lie far beyond those of most visitors."""
    low, middle, high = _quantiles(numbers, visitors, (1.0 - USUAL, 0.5, USUAL))
    # Where most have one number there is no spread by which another could be far.
    lowest = low - BEYOND * (middle - low) if low < middle else -np.inf
    highest = high + BEYOND * (high - middle) if high > middle else np.inf
    return np.clip(numbers, lowest, highest)


def _shortened(lists: Sequence[list[float] | None], visitors: Sequence[str]) -> list[list[float] | None]:
    """Return lists of which those far longer, by the Euclidean norm, than the ones of most visitors are shortened."""
    norms = np.array([np.nan if one is None else np.linalg.norm(np.array(one, float)) for one in lists])
    (usual,) = _quantiles(norms, visitors, (USUAL,))
    if not usual > 0.0:
        return list(lists)
    shares = np.minimum(LONG * usual / np.maximum(norms, usual), 1.0)
    shortened = []
    for numbers, share in zip(lists, shares.tolist(), strict=True):
        is_long = numbers is not None and share < 1.0
        shortened.append([share * number for number in numbers or ()] if is_long else numbers)
    return shortened


def _quantiles(numbers: FloatArray, visitors: Sequence[str], shares: Sequence[float]) -> FloatArray:
    """Return quantiles of numbers `(n,)` without those that are NaN; NaN where all are.

    Each visitor counts as much as another, so that one who comes often, or sends 8e8, does not move them.
    """
    known = ~np.isnan(numbers)
    if not known.any():
        return np.full(len(shares), np.nan)
    n_rows = Counter(visitors)
    weights = np.array([1.0 / n_rows[visitor] for visitor in visitors])[known]
    order = np.argsort(numbers[known])
    cumulative = np.cumsum(weights[order])
    places = np.searchsorted(cumulative, np.array(shares) * cumulative[-1])
    return np.asarray(numbers[known][order][places])


def _fitted_category(name: str, values: Sequence[Any], visitors: Sequence[str]) -> CategoryColumn | None:
    """Return a category whose levels enough visitors had; None where hardly two visitors share a text, as of ids."""
    counts = _count_levels(CategoryColumn(name=name), values, visitors)
    levels = counts.common(FIRST_LEVELS, FEWEST_VISITORS)
    if not levels and sum(counts.visitors.values()) < SHARED * len(counts.rows):
        return None
    return CategoryColumn.of_counts(name, counts, levels, BUCKETS)


def _fitted_words(name: str, values: Sequence[Any], visitors: Sequence[str]) -> WordsColumn | None:
    column = WordsColumn(name=name, missing=any(value is None for value in values), separator=SEPARATOR)
    levels = _count_levels(column, values, visitors).common(FIRST_LEVELS, FEWEST_VISITORS)
    return column.model_copy(update={"levels": levels}) if levels else None


def _count_levels(column: LevelColumn, values: Sequence[Any], visitors: Sequence[str]) -> LevelCounts:
    numbers = {visitor: number for number, visitor in enumerate(dict.fromkeys(visitors))}
    return column.count_levels(
        pl.Series(column.name, values, pl.Object), np.array([numbers[visitor] for visitor in visitors])
    )


def _rounded(column: NumberColumn) -> NumberColumn:
    """Return a column of numbers whose range is rounded outwards, to the size of its spread, or to two digits."""
    if column.log:
        low = _two_digits(column.low, math.floor)
        high = _two_digits(column.high, math.ceil)
    else:
        step = 10.0 ** math.floor(math.log10(column.scale))
        low = step * math.floor(column.low / step)
        high = step * math.ceil(column.high / step)
    return column.model_copy(update={"low": low, "high": high})


def _rounded_vector(column: VectorColumn) -> VectorColumn:
    """Return a column of lists whose bounds are rounded up to two digits."""
    bounds = {"scale": column.scale, "reach": column.reach, "longest": column.longest}
    rounded = {name: _two_digits(bound, math.ceil) for name, bound in bounds.items() if bound is not None}
    return column.model_copy(update=rounded)


def _two_digits(number: float, rounded: Any) -> float:
    """Return a number above 0 with two digits that count, rounded down or up."""
    step = 10.0 ** (math.floor(math.log10(number)) - 1)
    return float(f"{step * rounded(number / step):.12g}")


def series_of(name: str, values: Sequence[Any]) -> pl.Series:
    """Return values as a column: of numbers, of yes and no, of lists of numbers or of words, else of texts.

    Args:
        name: Name of the column.
        values: The values; None for a missing one.
    """
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, list) for value in known):
        is_numeric = all(isinstance(part, int | float) for value in known for part in value)
        dtype = pl.List(pl.Float64) if is_numeric else pl.List(pl.String)
        convert = number_of if is_numeric else text_of
        return pl.Series(name, [None if value is None else list(map(convert, value)) for value in values], dtype)
    if known and all(isinstance(value, bool) for value in known):
        return pl.Series(name, values, pl.Boolean)
    if known and all(isinstance(value, int | float) for value in known):
        return pl.Series(name, [number_of(value) for value in values], pl.Float64)
    return pl.Series(name, [text_of(value) if not isinstance(value, list) else None for value in values], pl.String)
