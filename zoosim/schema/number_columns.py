"""Columns of numbers, and of lists of numbers."""

import math
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from zoosim.core.errors import ConfigError
from zoosim.core.number_format import counted
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.schema.column import TAILS, DeviationKind, Finite, FittedColumn
from zoosim.schema.values import LARGEST_NUMBER, number_of, numbers_of, text_of_any, which

CLIP = 0.001
"""Share of the numbers at either end that are clipped."""

FAR = 0.5
"""Share of the range by which a number lies far beyond it."""

MOST_LISTS = 0.95
"""Share of the lists of a column whose largest numbers say how large a number of a list may be."""

BEYOND = 3.0
"""Multiple of the largest number of these lists from which on numbers are clipped."""

LONG = 2.0
"""Multiple of the longest of these lists, by the Euclidean norm, from which on lists are shortened."""

REACH = 10.0
"""Scaled numbers beyond which those of lists are clipped where the column was fitted without a limit."""

ROUNDING = 1e-9
"""The relative size of what rounding may do to a norm."""

SKEWED = 1.0
"""Skewness above which a column of numbers above 0 is scaled by their logarithms, if these are less skewed."""


class NumberColumn(FittedColumn):
    """A number, clipped to `low` and `high`, or the `log` of that, less `center`, over `scale`: about -3 to 3."""

    type: Literal["number"] = "number"
    low: Finite
    high: Finite
    center: Finite
    scale: Annotated[Finite, Field(gt=0)]
    log: bool = False

    @model_validator(mode="after")
    def _has_logarithms(self) -> "NumberColumn":
        if self.log and self.low <= 0.0:
            raise ValueError(f"column {self.name}: low: got {self.low:g}, expected above 0, for its logarithm")
        return self

    @classmethod
    def fitted(cls, name: str, column: pl.Series, *, log: bool | None = None, **options: Any) -> "NumberColumn":
        """Clip at quantiles, and scale to a mean of 0 and a standard deviation of 1, by logarithms if that is asked.

        By default skewed numbers above 0, such as prices, are. Raises `ConfigError` for logarithms of other numbers.
        """
        numbers = numbers_of(column)
        known = numbers[~np.isnan(numbers)]
        if not len(known):
            return cls(name=name, missing=True, low=0.0, high=0.0, center=0.0, scale=1.0)
        low, high = np.quantile(known, (CLIP, 1.0 - CLIP), method="nearest")
        clipped = np.clip(known, low, high)
        if log and low <= 0.0:
            raise ConfigError(f"column {name}: log: got numbers from {low:g} on, expected all above 0")
        if log is None:
            log = _is_log_better(clipped)
        if log:
            clipped = np.log(clipped)
        scale = float(clipped.std())
        usable = math.isfinite(scale) and scale > 0.0
        return cls(
            name=name,
            missing=len(known) < len(numbers),
            low=float(low),
            high=float(high),
            center=float(clipped.mean()) if usable else float(clipped[0]),
            scale=scale if usable else 1.0,
            log=log,
        )

    @property
    def features(self) -> tuple[str, ...]:
        """The number, and whether it is missing."""
        return self._with_missing([self.name])

    def encode_one(self, value: Any) -> list[float]:
        """Return the scaled number."""
        number = number_of(value)
        if number is None:
            return self._or_missing(None, 1)
        clipped = min(max(number, self.low), self.high)
        if self.log:
            clipped = float(np.log(np.array([clipped]))[0])  # in an array, as `encode` does, to the same bits
        scaled = (clipped - self.center) / self.scale
        return self._or_missing([scaled + 0.0], 1)  # -0.0 is 0.0

    def expresses(self, value: Any) -> bool:
        """Return whether it is missing, or a number that lies not far beyond the range."""
        number = number_of(value)
        if number is None:
            return text_of_any(value) is None
        beyond = FAR * (self.high - self.low)
        return self.low - beyond <= number <= self.high + beyond

    def deviation_of(self, value: Any) -> DeviationKind | None:
        """Return whether it is far beyond the range, or no number."""
        return DeviationKind.OTHER_TYPE if number_of(value) is None else DeviationKind.OUT_OF_RANGE

    @property
    def expected(self) -> str:
        """The range."""
        return "a number" if self.high >= LARGEST_NUMBER else f"a number from {self.low:g} to {self.high:g}"

    def clips(self, value: Any) -> bool:
        """Return whether it is a number beyond the range."""
        number = number_of(value)
        return number is not None and not self.low <= number <= self.high

    def decode_one(self, features: FloatArray) -> Any:
        """Return the number within the range, to 12 digits, so that whole numbers are whole again."""
        if self.missing and features[-1]:
            return None
        number = self.center + self.scale * features[0]
        return float(f"{math.exp(number) if self.log else number:.12g}")

    def encode_distinct(self, column: pl.Series) -> tuple[FloatArray, IntArray]:
        """Return the scaled numbers, one per row, since most differ."""
        numbers = numbers_of(column)
        is_missing = np.isnan(numbers)
        clipped = np.minimum(np.maximum(numbers, self.low), self.high)
        if self.log:
            clipped = np.log(clipped)
        scaled = (clipped - self.center) / self.scale + 0.0
        scaled[is_missing] = 0.0
        features = np.column_stack([scaled, is_missing]) if self.missing else scaled.reshape(-1, 1)
        return features, np.arange(column.len())

    def reads(self, values: pl.Series) -> BoolArray:
        """Return which are numbers."""
        return ~np.isnan(numbers_of(values))

    def knows(self, values: pl.Series) -> BoolArray:
        """Return which are numbers in the range."""
        numbers = numbers_of(values)
        return (self.low <= numbers) & (numbers <= self.high)

    def most_unknown(self, n: int) -> float:
        """Return how many are beyond the range anyhow."""
        return TAILS * n


def _is_log_better(numbers: FloatArray) -> bool:
    """Return whether skewed numbers are all above 0, and their logarithms less skewed."""
    if numbers.min() <= 0.0 or not math.isfinite(float(numbers.std())) or numbers.min() == numbers.max():
        return False
    skewness = _skewness(numbers)
    return skewness > SKEWED and abs(_skewness(np.log(numbers))) < skewness


def _skewness(numbers: FloatArray) -> float:
    scaled = (numbers - numbers.mean()) / numbers.std()
    return float((scaled * scaled * scaled).mean())


class VectorColumn(FittedColumn):
    """A list of `length` numbers, such as the embedding of a text, over `scale`, clipped to -`reach` and `reach`.

    What is longer than `longest`, by its Euclidean norm, is shortened to that: how much a list moves a linear model
    grows with the square of its norm, whatever its single numbers are. Models of earlier releases have no such limit.
    """

    type: Literal["vector"] = "vector"
    length: Annotated[int, Field(ge=1, le=10_000)]
    scale: Annotated[Finite, Field(gt=0)]
    reach: Annotated[Finite, Field(gt=0)] = REACH
    longest: Annotated[Finite, Field(gt=0)] | None = None

    @classmethod
    def fitted(cls, name: str, column: pl.Series, **options: Any) -> "VectorColumn":
        """Take the length that most lists have, clip what is far beyond most, and scale to a mean square of 1."""
        lists = _lists(column)
        readable = [] if lists is None else _by_length(lists)
        if not readable:
            return cls(name=name, missing=True, length=1, scale=1.0)
        # Of lengths that are as frequent, the one that comes first.
        rows, numbers = max(readable, key=lambda vectors: (len(vectors[0]), -vectors[0][0]))
        missing = len(rows) < column.len()
        length = numbers.shape[1]
        limit = _limit(np.abs(numbers).max(axis=1), BEYOND)
        clipped = np.clip(numbers, -limit, limit)
        longest = _limit(_norms(clipped), LONG)
        scale = float(np.sqrt(np.square(_shortened(clipped, longest)).mean()))
        is_usable = 0.0 < scale < math.inf and max(limit, longest) / scale < math.inf
        if not is_usable:
            return cls(name=name, missing=missing, length=length, scale=1.0)
        # Rounding must not shorten the longest list of the table.
        longest_scaled = longest / scale * (1.0 + ROUNDING)
        return cls(name=name, missing=missing, length=length, scale=scale, reach=limit / scale, longest=longest_scaled)

    @property
    def features(self) -> tuple[str, ...]:
        """A feature per number."""
        return self._with_missing(f"{self.name} [{place}]" for place in range(self.length))

    def encode_one(self, value: Any) -> list[float]:
        """Return the scaled numbers."""
        numbers = _vector(value)
        if numbers is None or len(numbers) != self.length:
            return self._or_missing(None, self.length)
        return self._or_missing(self._scaled(numbers.reshape(1, -1))[0].tolist(), self.length)

    def _scaled(self, numbers: FloatArray) -> FloatArray:
        """Return the features of lists `(n, length)`."""
        clipped = np.minimum(np.maximum(numbers / self.scale, -self.reach), self.reach)
        return clipped if self.longest is None else _shortened(clipped, self.longest)

    def clips(self, value: Any) -> bool:
        """Return whether it is a list as long as it should be with numbers, or a norm, beyond the limits."""
        numbers = _vector(value)
        if numbers is None or len(numbers) != self.length:
            return False
        return bool((self._scaled(numbers.reshape(1, -1))[0] != numbers / self.scale).any())

    def expresses(self, value: Any) -> bool:
        """Return whether it is missing, or a list of numbers as long as it should be."""
        return text_of_any(value) is None or self._reads_one(value)

    @property
    def expected(self) -> str:
        """The length."""
        return f"a list of {counted(self.length, 'number')}"

    def _reads_one(self, value: Any) -> bool:
        numbers = _vector(value)
        return numbers is not None and len(numbers) == self.length

    def decode_one(self, features: FloatArray) -> Any:
        """Return the numbers."""
        is_missing = self.missing and features[-1]
        return None if is_missing else [self.scale * number for number in features[: self.length]]

    def encode_distinct(self, column: pl.Series) -> tuple[FloatArray, IntArray]:
        """Return the scaled numbers, one list per row, since most differ."""
        lists = _lists(column)
        if lists is None:
            return super().encode_distinct(column)
        rows, numbers = _vectors(lists, self.length)
        features = np.zeros((column.len(), len(self.features)))
        features[:, self.length :] = 1.0
        features[rows, : self.length] = self._scaled(numbers)
        features[rows, self.length :] = 0.0
        return features, np.arange(column.len())

    def reads(self, values: pl.Series) -> BoolArray:
        """Return which are as long as they should be."""
        lists = _lists(values)
        if lists is None:
            return which(values, self._reads_one)
        return np.isin(np.arange(values.len()), _vectors(lists, self.length)[0])


def _limit(sizes: FloatArray, beyond: float) -> float:
    """Return the largest size of lists `(n,)`, or where a few are far larger, `beyond` times the others' largest.

    A column's few largest lists may be mistakes, or made to be large: they must neither set the scale nor the limit.
    """
    usual = float(np.quantile(sizes, MOST_LISTS, method="nearest"))
    most = float(sizes.max())
    return min(most, beyond * usual) if usual > 0.0 else most


def _norms(lists: FloatArray) -> FloatArray:
    """Return the Euclidean norms of lists `(n, length)`, each computed from numbers of at most 1 in size."""
    # Unscaled, squares would overflow from about 1e154 on.
    largest = np.abs(lists).max(axis=1)
    unit = lists / np.where(largest > 0.0, largest, 1.0)[:, np.newaxis]
    return np.asarray(largest * np.sqrt(np.square(unit).sum(axis=1)))


def _shortened(lists: FloatArray, longest: float) -> FloatArray:
    """Return lists `(n, length)` of which those with a norm over `longest` are scaled to it."""
    norms = _norms(lists)
    is_long = norms > longest
    shortened = lists.copy()
    shortened[is_long] *= (longest / norms[is_long])[:, np.newaxis]
    return shortened


def _lists(column: pl.Series) -> pl.Series | None:
    """Return a column of lists or arrays as one of lists, None for another."""
    if column.dtype == pl.Array:
        return column.arr.to_list()
    return column if column.dtype == pl.List else None


def _by_length(lists: pl.Series) -> list[tuple[IntArray, FloatArray]]:
    """Return the rows and the numbers of the lists of each length of which some can be read."""
    lengths = lists.list.len().unique().drop_nulls().to_list()
    vectors = [_vectors(lists, length) for length in lengths if length]
    return [(rows, numbers) for rows, numbers in vectors if len(rows)]


def _vectors(lists: pl.Series, length: int) -> tuple[IntArray, FloatArray]:
    """Return which rows hold lists of `length` numbers, as `_vector` reads them, and these numbers `(n, length)`."""
    rows = np.flatnonzero((lists.list.len() == length).fill_null(False))
    numbers = numbers_of(lists.gather(rows).list.explode()).reshape(-1, length)
    readable = ~np.isnan(numbers).any(axis=1)
    return rows[readable], numbers[readable]


def _vector(value: Any) -> FloatArray | None:
    """Return a list of finite numbers `(length,)`, None where it is none."""
    if not isinstance(value, list | tuple | pl.Series | np.ndarray):
        return None
    numbers = [number_of(part) for part in value]
    return None if None in numbers else np.array(numbers, float)
