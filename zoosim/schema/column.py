"""The base of all types of columns of a shop's tables, and how users say which a column has."""

from abc import abstractmethod
from array import array
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import AfterValidator, Field

from zoosim.core.config import Strict
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.schema.values import Epoch, checked_zone, distinct_values

MOST_LEVELS = 50
"""Levels of a category, or words of a list, that get a feature of their own, the most frequent ones."""

BUCKETS = 64
"""Features that the other levels of a category share."""

BUCKETS_PER_LEVEL = 4
"""Features that are shared for each of the other levels, where these are few: so two of them seldom look alike."""

FEWEST_VISITORS = 20
"""Different visitors from whom a level must come to have a feature of its own, which names it in every model: what
fewer had may tell who they are. Of a service, a new column, too, and a value of another type."""

TAILS = 0.01
"""Share of values beyond the clipped range, or more than before without a level, that is nothing new."""

Finite = Annotated[float, Field(allow_inf_nan=False)]
Levels = tuple[str, ...]
Zone = Annotated[str, AfterValidator(checked_zone)]
Separator = Annotated[str, Field(min_length=1)]
Buckets = Annotated[int, Field(ge=0, le=4096)]


class DeviationKind(StrEnum):
    """Kind of a value that a schema was not fitted to."""

    UNKNOWN_COLUMN = "unknown column"
    NEW_LEVEL = "new level"
    OUT_OF_RANGE = "out of range"
    OTHER_TYPE = "other type"
    MISSING = "missing"

    # That of enumerations is Python code, and kinds are parts of keys that are looked up for each decision.
    __hash__ = str.__hash__


class ColumnOptions(Strict):
    """Options of a column's fit, as far as its type, which may be inferred, has them."""

    type: Literal["number", "yes/no", "category", "words", "time", "vector"] | None = None
    most_levels: Annotated[int, Field(ge=1, le=4096)] = MOST_LEVELS
    buckets: Annotated[Buckets, Field(ge=1)] = BUCKETS
    fewest_visitors: Annotated[int, Field(ge=1)] = 1
    separator: Separator = "|"
    time_zone: Zone = "UTC"
    epoch: Epoch | None = None
    log: bool | None = None


class FittedColumn(Strict):
    """A fitted column: its `name` in the table, and how a value becomes features.

    `missing` says whether values were missing when it was fitted: then a last feature tells when one is.
    """

    name: str
    missing: bool = False

    @classmethod
    @abstractmethod
    def fitted(cls, name: str, column: pl.Series, **options: Any) -> "FittedColumn":
        """Fit the type to the values of a column; `options` are of `ColumnOptions`, `visitors` a number per row."""

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

    def expresses(self, value: Any) -> bool:
        """Return whether the features say all that there is to a value; what is missing is said, too."""
        return True

    def deviation_of(self, value: Any) -> DeviationKind | None:
        """Return how a value that the features do not say deviates from the fit; None where such values were usual."""
        return DeviationKind.OTHER_TYPE

    @property
    @abstractmethod
    def expected(self) -> str:
        """The values of the fit in words, such as `a number from 18 to 80`."""

    def clips(self, value: Any) -> bool:
        """Return whether the features stand for a number nearer to most, as the value's own is far from them."""
        return False

    def decode_one(self, features: FloatArray) -> Any:
        """Return a value that has these features, as near as they say it; None where it is missing or not said."""
        return None

    def most_unknown(self, n: int) -> float:
        """Return how many of `n` values may be unknown without being news."""
        return 0.0

    @property
    def news(self) -> str:
        """A note on unknown values."""
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
