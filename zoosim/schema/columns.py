"""The types that a column of a shop's table can have, each fitted to data once: what it becomes for policies.

A fitted column encodes values one at a time (`encode_one`) and in bulk (`encode_distinct`), to the same bits.
"""

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
from pydantic import Field, field_validator

from zoosim.core.number_format import counted
from zoosim.core.parameters import shown
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.schema.column import (
    BUCKETS,
    BUCKETS_PER_LEVEL,
    MOST_LEVELS,
    TAILS,
    Buckets,
    DeviationKind,
    FittedColumn,
    Levels,
    Separator,
    Zone,
)
from zoosim.schema.number_columns import NumberColumn, VectorColumn
from zoosim.schema.values import (
    Epoch,
    distinct_values,
    epoch_of,
    level_hash,
    numbers_of,
    text_of,
    text_of_any,
    time_of,
    to_the_minute,
    truth_of,
    which,
)

MOST_LISTED = 10
"""Levels that are listed where others came."""

CHANCE = 3.0
"""Standard deviations by which the share of hashed levels may grow by chance."""

CIRCLE = [(math.sin(2.0 * math.pi * i / 1440), math.cos(2.0 * math.pi * i / 1440)) for i in range(1440)]
"""Sine and cosine for each minute of a day, computed once, since libraries differ in their last digits."""

MONDAY = datetime(2024, 1, 1)
"""The first day of a week in which hardly a time zone puts the clock forward or back."""


def _place_on_circle(sine: float, cosine: float) -> int:
    """Return the minute of a day whose place on the circle has these coordinates."""
    return round(math.atan2(sine, cosine) / (2.0 * math.pi) * 1440) % 1440


class YesNoColumn(FittedColumn):
    """Yes or no, as 1 or 0: true and false, yes and no, 1 and 0, in whatever case."""

    type: Literal["yes/no"] = "yes/no"

    @classmethod
    def fitted(cls, name: str, column: pl.Series, **options: Any) -> "YesNoColumn":
        """Note whether values are missing."""
        return cls(name=name, missing=not cls(name=name).reads(column).all())

    @property
    def features(self) -> tuple[str, ...]:
        """Features of a value: whether it is yes, and whether it is missing."""
        return self._with_missing([self.name])

    def encode_one(self, value: Any) -> list[float]:
        """Return 1 for yes."""
        truth = truth_of(value)
        return self._or_missing(None if truth is None else [float(truth)], 1)

    def expresses(self, value: Any) -> bool:
        """Return whether it is one of both, or missing."""
        return truth_of(value) is not None or text_of_any(value) is None

    @property
    def expected(self) -> str:
        """Both values."""
        return "true or false"

    def decode_one(self, features: FloatArray) -> Any:
        """Return true for 1."""
        return None if self.missing and features[-1] else bool(features[0])

    def reads(self, values: pl.Series) -> BoolArray:
        """Return which are one of both."""
        return which(values, lambda value: truth_of(value) is not None)


class LevelCounts(NamedTuple):
    """In how many `rows` each level of a column comes, and from how many `visitors`; and whether values are missing."""

    rows: Mapping[str, int]
    visitors: Mapping[str, int]
    is_missing: bool

    def common(self, most: int, fewest_visitors: int) -> Levels:
        """Return the most frequent levels of those that enough visitors had, in the order of their names."""
        common = [level for level in self.rows if self.visitors[level] >= fewest_visitors]
        by_count = sorted(common, key=lambda level: (-self.rows[level], level))
        return tuple(sorted(by_count[:most]))

    def rare(self, fewest_visitors: int) -> int:
        """Return how many levels fewer visitors had."""
        return sum(count < fewest_visitors for count in self.visitors.values())


class LevelColumn(FittedColumn):
    """A column of words, of which those in `levels` are told apart; `rare` others had too few visitors to be one.

    `rest` is the share of values that hold others, when it was fitted.
    """

    levels: Levels = ()
    rare: Annotated[int, Field(ge=0)] = 0
    rest: Annotated[float, Field(ge=0, le=1)] = 0.0

    @property
    def rarity(self) -> str:
        """A note on what was left out since too few visitors had it; empty where nothing was."""
        if not self.rare:
            return ""
        have, them = (
            ("has no feature of its own", "it") if self.rare == 1 else ("have no features of their own", "them")
        )
        levels = counted(self.rare, "level")
        return f"{levels} that too few visitors had (fewest_visitors) {have}, so that no model names {them}"

    def most_unknown(self, n: int) -> float:
        """Return how many values may hold no level where their share is about what it was; none where all did."""
        if not self.rest:
            return 0.0
        return n * (self.rest + TAILS) + CHANCE * math.sqrt(n * self.rest * (1.0 - self.rest))

    @property
    def news(self) -> str:
        """A note on values without a level; which of them are new nobody knows."""
        return f"none of its {len(self.levels)} levels, as {self.rest:.1%} were" if self.rest else "new"

    @abstractmethod
    def levels_in(self, value: Any) -> set[str] | None:
        """Return what could be levels of a value; None where it is missing."""

    def deviation_of(self, value: Any) -> DeviationKind | None:
        """Return that its level is new, where nearly all values of the fit had one with a feature of its own."""
        return DeviationKind.NEW_LEVEL if self.rest < TAILS else None

    @property
    def listed_levels(self) -> str:
        """The first levels, separated by commas."""
        return ", ".join(map(shown, self.levels[:MOST_LISTED])) + (", ..." if len(self.levels) > MOST_LISTED else "")

    def count_levels(self, column: pl.Series, visitors: IntArray | None = None) -> LevelCounts:
        """Count what could be levels.

        Args:
            column: The values.
            visitors: Whose each row is, as numbers `(n,)`. Default: each row is of another visitor.
        """
        values, value_of_row = distinct_values(column)
        levels_of_value = [self.levels_in(value) for value in values]
        rows: Counter[str] = Counter()
        for levels, count in zip(levels_of_value, np.bincount(value_of_row, minlength=len(values)), strict=True):
            rows.update(dict.fromkeys(levels or (), int(count)))
        is_missing = any(levels is None for levels in levels_of_value)
        if visitors is None:
            return LevelCounts(rows, rows, is_missing)
        names = list(rows)
        number = {level: place for place, level in enumerate(names)}
        numbers = [[number[level] for level in levels or ()] for levels in levels_of_value]
        # A row per value and level in it: those of a value stand together, from `starts` on.
        sizes = np.array([len(levels) for levels in numbers], np.int64)
        starts = np.cumsum(sizes) - sizes
        row = np.repeat(np.arange(len(value_of_row)), sizes[value_of_row])
        first_of_row = np.cumsum(sizes[value_of_row]) - sizes[value_of_row]
        place = starts[value_of_row[row]] + np.arange(len(row)) - first_of_row[row]
        level = np.array([level for levels in numbers for level in levels], np.int64)[place]
        counts = pl.DataFrame({"level": level, "visitor": visitors[row]}).group_by("level").agg(pl.all().n_unique())
        return LevelCounts(rows, {names[level]: count for level, count in counts.iter_rows()}, is_missing)


class CategoryColumn(LevelColumn):
    """One of `levels`, each a feature of its own; all others are one more feature, or two of `buckets` by their hash.

    Of 64 buckets there are 2,016 pairs, so that levels that share one bucket seldom share both (after Bloom 1970,
    https://doi.org/10.1145/362686.362692).
    """

    type: Literal["category"] = "category"
    buckets: Buckets = 0

    @classmethod
    def fitted(
        cls,
        name: str,
        column: pl.Series,
        *,
        most_levels: int = MOST_LEVELS,
        buckets: int = BUCKETS,
        fewest_visitors: int = 1,
        visitors: IntArray | None = None,
        **options: Any,
    ) -> "CategoryColumn":
        """Take the levels that come up most often, and from enough visitors, in the order of their names.

        The others are hashed; where they are few, so are the features that they share.
        """
        counts = cls(name=name).count_levels(column, visitors)
        levels = counts.common(most_levels, fewest_visitors)
        others = len(counts.rows) - len(levels)
        shared = min(buckets, BUCKETS_PER_LEVEL * others) if others > 1 else 0
        return cls.of_counts(name, counts, levels, shared, rare=counts.rare(fewest_visitors))

    @classmethod
    def of_counts(cls, name: str, counts: LevelCounts, levels: Levels, buckets: int, rare: int = 0) -> "CategoryColumn":
        """Return a column with some of the levels that were counted; the others, if any, share the `buckets`."""
        if len(levels) == len(counts.rows):
            return cls(name=name, missing=counts.is_missing, levels=levels)
        rest = 1.0 - sum(counts.rows[level] for level in levels) / sum(counts.rows.values())
        return cls(name=name, missing=counts.is_missing, levels=levels, rare=rare, buckets=buckets, rest=max(rest, 0.0))

    def levels_in(self, value: Any) -> set[str] | None:
        """Return its text."""
        text = text_of(value)
        return None if text is None else {text}

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
        # 1 to buckets - 1 places further on, round the end: never the first one again.
        second = first + 1 + step % (self.buckets - 1)
        return [n_levels + first, n_levels + second % self.buckets]

    def expresses(self, value: Any) -> bool:
        """Return whether it is one of the levels, or missing."""
        text = text_of_any(value)
        return text is None or text in self.levels

    def deviation_of(self, value: Any) -> DeviationKind | None:
        """Return whether it is a list, or a level that is new."""
        return DeviationKind.OTHER_TYPE if isinstance(value, list | tuple) else super().deviation_of(value)

    @property
    def expected(self) -> str:
        """The levels."""
        return f"one of {self.listed_levels}"

    def decode_one(self, features: FloatArray) -> Any:
        """Return the level."""
        return next((level for level, here in zip(self.levels, features, strict=False) if here), None)

    def knows(self, values: pl.Series) -> BoolArray:
        """Return which are one of the levels."""
        return which(values, lambda value: text_of(value) in self.levels)


class WordsColumn(LevelColumn):
    """A list of words: each of `levels` is a feature, 1 where the list holds it; others count as one more."""

    type: Literal["words"] = "words"
    separator: Separator = "|"

    @classmethod
    def fitted(
        cls,
        name: str,
        column: pl.Series,
        *,
        separator: str = "|",
        most_levels: int = MOST_LEVELS,
        fewest_visitors: int = 1,
        visitors: IntArray | None = None,
        **options: Any,
    ) -> "WordsColumn":
        """Take the words that come up most often, and from enough visitors, in the order of their names."""
        counts = cls(name=name, separator=separator).count_levels(column, visitors)
        levels = counts.common(most_levels, fewest_visitors)
        rare = counts.rare(fewest_visitors)
        fitted = cls(name=name, missing=counts.is_missing, levels=levels, rare=rare, separator=separator)
        if len(levels) == len(counts.rows):
            return fitted
        strange = which(column, lambda value: not fitted.expresses(value)).sum()
        present = which(column, lambda value: fitted.levels_in(value) is not None).sum()
        return fitted.model_copy(update={"rest": float(strange / present)})

    def levels_in(self, value: Any) -> set[str] | None:
        """Return its words."""
        return split_words(value, self.separator)

    @property
    def features(self) -> tuple[str, ...]:
        """A feature per word, one for all others, and one for what is missing."""
        named = [f"{self.name} has {word}" for word in self.levels]
        return self._with_missing([*named, f"{self.name} has another"])

    def encode_one(self, value: Any) -> list[float]:
        """Return 1 for each word that the list holds."""
        width = len(self.levels) + 1
        words = self.levels_in(value)
        if words is None:
            return self._or_missing(None, width)
        features = [float(level in words) for level in self.levels]
        return self._or_missing([*features, float(not words.issubset(self.levels))], width)

    def expresses(self, value: Any) -> bool:
        """Return whether its words are all among the levels."""
        return (self.levels_in(value) or set()).issubset(self.levels)

    @property
    def expected(self) -> str:
        """The words."""
        return f"words of {self.listed_levels}"

    def decode_one(self, features: FloatArray) -> Any:
        """Return the words that have a feature of their own."""
        if self.missing and features[-1]:
            return None
        return [level for level, here in zip(self.levels, features, strict=False) if here]

    def knows(self, values: pl.Series) -> BoolArray:
        """Return whose words are all among the levels."""
        return which(values, lambda value: (self.levels_in(value) or set()).issubset(self.levels))


class TimeColumn(FittedColumn):
    """A time: where on the circle of a day its minute lies, and on that of a week its day.

    A number counts `epoch` units since 1970, which are told by their size where nothing is said.
    """

    type: Literal["time"] = "time"
    time_zone: Zone = "UTC"
    epoch: Epoch | None = None

    @classmethod
    def fitted(
        cls, name: str, column: pl.Series, *, time_zone: str = "UTC", epoch: Epoch | None = None, **options: Any
    ) -> "TimeColumn":
        """Note what numbers count, and whether times are missing."""
        counts = numbers_of(column)
        unit = epoch or epoch_of(counts[~np.isnan(counts)])
        fitted = cls(name=name, time_zone=time_zone, epoch=unit)
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

    def decode_one(self, features: FloatArray) -> Any:
        """Return a time on that minute of the day and that day of the week."""
        if self.missing and features[-1]:
            return None
        minute, place = (_place_on_circle(*features[start : start + 2]) for start in (0, 2))
        day = MONDAY + timedelta(days=round(place * 7 / 1440) % 7, minutes=minute)
        return day.replace(tzinfo=ZoneInfo(self.time_zone)).isoformat()

    @property
    def expected(self) -> str:
        """A time."""
        return "a time"

    def expresses(self, value: Any) -> bool:
        """Return whether it is a time, or missing."""
        return text_of_any(value) is None or time_of(value, ZoneInfo(self.time_zone), self.epoch) is not None

    def encode_distinct(self, column: pl.Series) -> tuple[FloatArray, IntArray]:
        """Return the different features; those of all times of one minute are the same."""
        return super().encode_distinct(to_the_minute(column))

    def reads(self, values: pl.Series) -> BoolArray:
        """Return which are times."""
        zone = ZoneInfo(self.time_zone)
        return which(to_the_minute(values), lambda value: time_of(value, zone, self.epoch) is not None)


AnyColumn = Annotated[
    NumberColumn | YesNoColumn | CategoryColumn | WordsColumn | TimeColumn | VectorColumn, Field(discriminator="type")
]
COLUMN_TYPES: Mapping[str, type[FittedColumn]] = {
    "number": NumberColumn,
    "yes/no": YesNoColumn,
    "category": CategoryColumn,
    "words": WordsColumn,
    "time": TimeColumn,
    "vector": VectorColumn,
}


def split_words(value: Any, separator: str) -> set[str] | None:
    """Return the words of a value; None where it is missing.

    Args:
        value: A list of words, or a text.
        separator: What stands between the words of a text.
    """
    if isinstance(value, list | tuple | set | pl.Series | np.ndarray):
        parts = list(value)
    else:
        text = text_of(value)
        if text is None:
            return None
        parts = text.split(separator)
    return {word for word in map(text_of, parts) if word is not None}
