"""The types that a column of a shop's table can have, each fitted to data once: what it becomes for policies.

A fitted column encodes values one at a time (`encode_one`) and in bulk (`encode_distinct`), to the same bits.
"""

import math
from abc import abstractmethod
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
from pydantic import AfterValidator, Field, field_validator, model_validator

from zoosim.core.config import Strict
from zoosim.core.errors import ConfigError
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.schema.values import (
    checked_zone,
    counted,
    distinct_values,
    level_hash,
    number_of,
    numbers_of,
    text_of,
    time_of,
    to_the_minute,
    truth_of,
    which,
)

MOST_LEVELS = 50
"""Levels of a category, or words of a list, that get a feature of their own, the most frequent ones."""

BUCKETS = 64
"""Features that the other levels of a category share."""

TAILS = 0.01
"""Share of values beyond the clipped range, or more than before without a level, that is nothing new."""

CHANCE = 3.0
"""Standard deviations by which the share of hashed levels may grow by chance."""

CLIP = 0.001
"""Share of the numbers at either end that are clipped."""

SKEWED = 1.0
"""Skewness above which a column of numbers above 0 is scaled by their logarithms, if these are less skewed."""

CIRCLE = [(math.sin(2.0 * math.pi * i / 1440), math.cos(2.0 * math.pi * i / 1440)) for i in range(1440)]
"""Sine and cosine for each minute of a day, computed once, since libraries differ in their last digits."""

Finite = Annotated[float, Field(allow_inf_nan=False)]
Levels = tuple[str, ...]
Zone = Annotated[str, AfterValidator(checked_zone)]
Separator = Annotated[str, Field(min_length=1)]
Epoch = Literal["s", "ms", "us"]
Buckets = Annotated[int, Field(ge=0, le=4096)]


class Options(Strict):
    """How a column is to be fitted, as far as its type, which may be inferred, has such options."""

    type: Literal["number", "yes/no", "category", "words", "time", "vector"] | None = None
    most_levels: Annotated[int, Field(ge=1, le=4096)] = MOST_LEVELS
    buckets: Annotated[Buckets, Field(ge=1)] = BUCKETS
    separator: Separator = "|"
    time_zone: Zone = "UTC"
    epoch: Epoch | None = None
    log: bool | None = None


class Column(Strict):
    """A fitted column: its `name` in the table, and how a value becomes features.

    `missing` says whether values were missing when it was fitted: then a last feature tells when one is.
    """

    name: str
    missing: bool = False

    @classmethod
    @abstractmethod
    def fitted(cls, name: str, column: pl.Series, **options: Any) -> "Column":
        """Fit the type to the values of a column."""

    @property
    @abstractmethod
    def features(self) -> tuple[str, ...]:
        """The names of the features that a value becomes."""

    @abstractmethod
    def encode_one(self, value: Any) -> list[float]:
        """Return the features of a value; never NaN or infinite."""

    def reads(self, values: pl.Series) -> BoolArray:
        """Return which of the values, of which none is missing, can be read at all."""
        return np.ones(values.len(), bool)

    def knows(self, values: pl.Series) -> BoolArray:
        """Return which of the values, of which none is missing, are such as the column was fitted to."""
        return self.reads(values)

    def most_unknown(self, n: int) -> float:
        """Return how many of `n` values may be unknown without being news."""
        return 0.0

    @property
    def news(self) -> str:
        """What unknown values are, in words."""
        return "new"

    def encode_distinct(self, column: pl.Series) -> tuple[FloatArray, IntArray]:
        """Return the different features `(m, w)` of a column's values, and which of them each row has `(n,)`."""
        values, value_of_row = distinct_values(column)
        # Keys are bytes, so that rows that are equal but for a sign of zero stay apart.
        places: dict[bytes, int] = {}
        place_of_value = [
            places.setdefault(array("d", self.encode_one(value)).tobytes(), len(places)) for value in values
        ]
        features = np.frombuffer(b"".join(places)).reshape(-1, len(self.features))
        return features, np.array(place_of_value, np.int64)[value_of_row]

    def _with_missing(self, features: Iterable[str]) -> tuple[str, ...]:
        return (*features, f"{self.name} is missing") if self.missing else tuple(features)

    def _or_missing(self, features: list[float] | None, width: int) -> list[float]:
        """Return features with the one that tells whether the value is missing, all 0 where it is."""
        values = [0.0] * width if features is None else features
        return [*values, float(features is None)] if self.missing else values


class NumberColumn(Column):
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

    def encode_distinct(self, column: pl.Series) -> tuple[FloatArray, IntArray]:
        """Return the scaled numbers, one per row, since most differ."""
        numbers = numbers_of(column)
        is_missing = np.isnan(numbers)
        clipped = np.minimum(np.maximum(numbers, self.low), self.high)
        if self.log:
            clipped = np.log(clipped)
        scaled = (clipped - self.center) / self.scale + 0.0
        scaled[is_missing] = 0.0
        features = np.column_stack([scaled, is_missing] if self.missing else [scaled])
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


class YesNoColumn(Column):
    """Yes or no, as 1 or 0: true and false, yes and no, 1 and 0, in whatever case."""

    type: Literal["yes/no"] = "yes/no"

    @classmethod
    def fitted(cls, name: str, column: pl.Series, **options: Any) -> "YesNoColumn":
        """Note whether values are missing."""
        return cls(name=name, missing=not cls(name=name).reads(column).all())

    @property
    def features(self) -> tuple[str, ...]:
        """Whether it is yes, and whether it is missing."""
        return self._with_missing([self.name])

    def encode_one(self, value: Any) -> list[float]:
        """Return 1 for yes."""
        truth = truth_of(value)
        return self._or_missing(None if truth is None else [float(truth)], 1)

    def reads(self, values: pl.Series) -> BoolArray:
        """Return which are one of both."""
        return which(values, lambda value: truth_of(value) is not None)


class CategoryColumn(Column):
    """One of `levels`, each a feature of its own; all others are one more feature, or two of `buckets` by their hash.

    Of 64 buckets there are 2,016 pairs, so that levels that share one bucket seldom share both (after Bloom 1970,
    https://doi.org/10.1145/362686.362692). `rest` is the share of values that were hashed when it was fitted.
    """

    type: Literal["category"] = "category"
    levels: Levels = ()
    buckets: Buckets = 0
    rest: Annotated[float, Field(ge=0, le=1)] = 0.0

    @classmethod
    def fitted(
        cls, name: str, column: pl.Series, *, most_levels: int = MOST_LEVELS, buckets: int = BUCKETS, **options: Any
    ) -> "CategoryColumn":
        """Take the levels that come up most often, in the order of their names; hash the others."""
        counts: Counter[str | None] = Counter()
        for value, count in counted(column).iter_rows():
            counts[text_of(value)] += count
        is_missing = counts.pop(None, 0) > 0
        levels = most_frequent(counts, most_levels)
        if len(levels) == len(counts):
            return cls(name=name, missing=is_missing, levels=levels)
        rest = 1.0 - sum(counts[level] for level in levels) / counts.total()
        return cls(name=name, missing=is_missing, levels=levels, buckets=buckets, rest=rest)

    @field_validator("levels")
    @classmethod
    def _each_once(cls, levels: Levels) -> Levels:
        if len(set(levels)) < len(levels):
            raise ValueError("a level comes twice, expected each once")
        return levels

    @property
    def features(self) -> tuple[str, ...]:
        """A feature per level, those of what else there may be, and one for what is missing."""
        named = [f"{self.name} is {level}" for level in self.levels]
        others = [f"{self.name} (bucket {bucket})" for bucket in range(self.buckets)]
        return self._with_missing([*named, *(others or [f"{self.name} is another"])])

    def encode_one(self, value: Any) -> list[float]:
        """Return 1 for the level of the value, or for its buckets, and 0 for all others."""
        width = len(self.levels) + (self.buckets or 1)
        text = text_of(value)
        if text is None:
            return self._or_missing(None, width)
        features = [0.0] * width
        for place in self._places(text):
            features[place] = 1.0
        return self._or_missing(features, width)

    def _places(self, text: str) -> list[int]:
        n_levels = len(self.levels)
        if text in self.levels:
            return [self.levels.index(text)]
        if self.buckets < 2:
            return [n_levels]
        step, first = divmod(level_hash(text), self.buckets)
        second = first + 1 + step % (self.buckets - 1)
        return [n_levels + first, n_levels + second % self.buckets]

    def knows(self, values: pl.Series) -> BoolArray:
        """Return which are one of the levels."""
        return which(values, lambda value: text_of(value) in self.levels)

    def most_unknown(self, n: int) -> float:
        """Return how many are hashed where their share is about what it was; without hashing none."""
        if not self.buckets:
            return 0.0
        return n * (self.rest + TAILS) + CHANCE * math.sqrt(n * self.rest * (1.0 - self.rest))

    @property
    def news(self) -> str:
        """What hashed levels are; which of them are new nobody knows."""
        return f"none of its {len(self.levels)} levels, as {self.rest:.1%} were" if self.buckets else "new"


class WordsColumn(Column):
    """A list of words: each of `levels` is a feature, 1 where the list holds it; others count as one more."""

    type: Literal["words"] = "words"
    levels: Levels = ()
    separator: Separator = "|"

    @classmethod
    def fitted(
        cls, name: str, column: pl.Series, *, separator: str = "|", most_levels: int = MOST_LEVELS, **options: Any
    ) -> "WordsColumn":
        """Take the words that come up most often, in the order of their names."""
        counts: Counter[str] = Counter()
        is_missing = False
        for value, count in counted(column).iter_rows():
            words = split_words(value, separator)
            is_missing |= words is None
            for word in words or ():
                counts[word] += count
        return cls(name=name, missing=is_missing, levels=most_frequent(counts, most_levels), separator=separator)

    @property
    def features(self) -> tuple[str, ...]:
        """A feature per word, one for all others, and one for what is missing."""
        named = [f"{self.name} has {word}" for word in self.levels]
        return self._with_missing([*named, f"{self.name} has another"])

    def encode_one(self, value: Any) -> list[float]:
        """Return 1 for each word that the list holds."""
        width = len(self.levels) + 1
        words = split_words(value, self.separator)
        if words is None:
            return self._or_missing(None, width)
        features = [float(level in words) for level in self.levels]
        return self._or_missing([*features, float(not words.issubset(self.levels))], width)

    def knows(self, values: pl.Series) -> BoolArray:
        """Return whose words are all among the levels."""
        return which(values, lambda value: (split_words(value, self.separator) or set()).issubset(self.levels))


class TimeColumn(Column):
    """A time: where on the circle of a day its minute lies, and on that of a week its day.

    A number counts `epoch` units since 1970.
    """

    type: Literal["time"] = "time"
    time_zone: Zone = "UTC"
    epoch: Epoch | None = None

    @classmethod
    def fitted(
        cls, name: str, column: pl.Series, *, time_zone: str = "UTC", epoch: Epoch | None = None, **options: Any
    ) -> "TimeColumn":
        """Note whether times are missing."""
        fitted = cls(name=name, time_zone=time_zone, epoch=epoch)
        return fitted.model_copy(update={"missing": not fitted.reads(column).all()})

    @property
    def features(self) -> tuple[str, ...]:
        """Two coordinates on each circle."""
        circles = ((self.name, part, wave) for part in ("day", "week") for wave in ("sine", "cosine"))
        return self._with_missing(f"{name}, {wave} of the time of the {part}" for name, part, wave in circles)

    def encode_one(self, value: Any) -> list[float]:
        """Return sine and cosine of the time of the day and of the day of the week."""
        moment = time_of(value, ZoneInfo(self.time_zone), self.epoch)
        if moment is None:
            return self._or_missing(None, 4)
        of_day = CIRCLE[60 * moment.hour + moment.minute]
        # 205 minutes of the table are nearest to a seventh of the circle.
        of_week = CIRCLE[round(moment.weekday() * 1440 / 7)]
        return self._or_missing([*of_day, *of_week], 4)

    def encode_distinct(self, column: pl.Series) -> tuple[FloatArray, IntArray]:
        """Return the different features; those of all times of one minute are the same."""
        return super().encode_distinct(to_the_minute(column))

    def reads(self, values: pl.Series) -> BoolArray:
        """Return which are times."""
        zone = ZoneInfo(self.time_zone)
        return which(to_the_minute(values), lambda value: time_of(value, zone, self.epoch) is not None)


class VectorColumn(Column):
    """A list of `length` numbers, such as the embedding of a text, over `scale`."""

    type: Literal["vector"] = "vector"
    length: Annotated[int, Field(ge=1, le=10_000)]
    scale: Annotated[Finite, Field(gt=0)]

    @classmethod
    def fitted(cls, name: str, column: pl.Series, **options: Any) -> "VectorColumn":
        """Take the length that most lists have, and scale their numbers to a mean square of 1."""
        lists = [numbers for numbers in map(_vector, column.to_list()) if numbers]
        length = Counter(map(len, lists)).most_common(1)[0][0] if lists else 1
        usable = [numbers for numbers in lists if len(numbers) == length]
        scale = float(np.sqrt(np.square(np.array(usable)).mean())) if usable else 1.0
        sound = math.isfinite(scale) and scale > 0.0
        return cls(name=name, missing=len(usable) < column.len(), length=length, scale=scale if sound else 1.0)

    @property
    def features(self) -> tuple[str, ...]:
        """A feature per number."""
        return self._with_missing(f"{self.name} [{place}]" for place in range(self.length))

    def encode_one(self, value: Any) -> list[float]:
        """Return the scaled numbers."""
        numbers = _vector(value)
        if numbers is None or len(numbers) != self.length:
            return self._or_missing(None, self.length)
        return self._or_missing([number / self.scale for number in numbers], self.length)

    def reads(self, values: pl.Series) -> BoolArray:
        """Return which are as long as they should be."""
        return which(values, lambda value: len(_vector(value) or ()) == self.length)


AnyColumn = Annotated[
    NumberColumn | YesNoColumn | CategoryColumn | WordsColumn | TimeColumn | VectorColumn, Field(discriminator="type")
]
COLUMN_TYPES: Mapping[str, type[Column]] = {
    "number": NumberColumn,
    "yes/no": YesNoColumn,
    "category": CategoryColumn,
    "words": WordsColumn,
    "time": TimeColumn,
    "vector": VectorColumn,
}


def most_frequent(counts: Mapping[Any, int], most: int) -> Levels:
    """Return the most frequent levels, in the order of their names."""
    by_count = sorted(counts, key=lambda level: (-counts[level], level))
    return tuple(sorted(by_count[:most]))


def split_words(value: Any, separator: str) -> set[str] | None:
    """Return the words of a list, or of a text with separators; None where it is missing."""
    if isinstance(value, list | tuple | set | pl.Series | np.ndarray):
        parts = list(value)
    else:
        text = text_of(value)
        if text is None:
            return None
        parts = text.split(separator)
    return {word for word in map(text_of, parts) if word is not None}


def _vector(value: Any) -> list[float] | None:
    """Return a list of finite numbers, None where it is none."""
    if not isinstance(value, list | tuple | pl.Series | np.ndarray):
        return None
    numbers = [number_of(part) for part in value]
    known = [number for number in numbers if number is not None]
    return known if len(known) == len(numbers) else None
