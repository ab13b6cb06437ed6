"""Encode the columns of a shop's table as features: fitted once, and the same, to the bit, wherever it is used."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from pydantic import model_validator

from zoosim.core.config import Strict, build
from zoosim.core.digests import value_digest
from zoosim.core.errors import DataError
from zoosim.core.parameters import shown
from zoosim.core.threads import map_in_threads
from zoosim.core.types import FloatArray, IntArray
from zoosim.schema.column import ColumnOptions
from zoosim.schema.columns import COLUMN_TYPES, AnyColumn, LevelColumn
from zoosim.schema.infer import infer_type
from zoosim.schema.number_block import NumberBlock
from zoosim.schema.number_columns import NumberColumn
from zoosim.schema.values import LARGEST_NUMBER, UNREADABLE, counted, present

MOST_FEATURES = 10_000
"""Features that all columns together may become."""

BLOCK = 4_096
"""Rows whose features are written out at a time, few enough for the processor's cache: 1.7 times as fast as all."""

EXAMPLES = 3
"""Values that are named of those which an encoder does not know."""


class Encoded(NamedTuple):
    """The features of a table: for each column the different ones `(m, w)`, and which of them each row has `(n,)`.

    Written out, those of 1,000,000 visitors take gigabytes.
    """

    columns: list[tuple[FloatArray, IntArray]]

    def rows(self, rows: IntArray) -> FloatArray:
        """Return the features of rows of the table `(len(rows), d)`."""
        out = np.empty((len(rows), sum(features.shape[1] for features, _ in self.columns)))
        for start in range(0, len(rows) if self.columns else 0, BLOCK):
            block = slice(start, start + BLOCK)
            parts = [features[place_of_row[rows[block]]] for features, place_of_row in self.columns]
            np.concatenate(parts, axis=1, out=out[block])
        return out


class Encoder(Strict):
    """Fitted columns of visitors, or of products, side by side.

    Args:
        columns: The columns, in the order of their features.
    """

    columns: tuple[AnyColumn, ...] = ()

    @model_validator(mode="after")
    def _is_usable(self) -> "Encoder":
        names = self.names
        repeated = [name for number, name in enumerate(names) if name in names[:number]]
        if repeated:
            raise ValueError(f"column {repeated[0]!r} comes twice, expected each once")
        if len(self.features) > MOST_FEATURES:
            raise ValueError(f"columns become {len(self.features):,} features, expected at most {MOST_FEATURES:,}")
        return self

    @cached_property
    def width(self) -> int:
        """The number of features."""
        return len(self.features)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features, such as `country is de`."""
        return tuple(feature for column in self.columns for feature in column.features)

    @property
    def fingerprint(self) -> str:
        """A hash of the fitted columns: encoders with the same one encode everything alike."""
        return value_digest(self.model_dump())

    def encode(self, frame: pl.DataFrame) -> FloatArray:
        """Return the features of the rows of a table `(n, d)`; a column that it lacks counts as missing."""
        return self.encode_distinct(frame).rows(np.arange(frame.height))

    def encode_distinct(self, frame: pl.DataFrame) -> Encoded:
        """Return the same features, but each different one of a column once."""
        nothing = pl.Series([None], dtype=pl.String).new_from_index(0, frame.height)

        def encode(column: AnyColumn) -> tuple[FloatArray, IntArray]:
            return column.encode_distinct(frame[column.name] if column.name in frame.columns else nothing)

        return Encoded(map_in_threads(encode, self.columns))

    def read(self, values: Mapping[str, Any]) -> "Reading":
        """Read the values of one visitor or product, given by column, for all that is asked of them."""
        return Reading(self, values)

    def encode_one(self, values: Mapping[str, Any]) -> FloatArray:
        """Return the features of one visitor or product `(d,)`, given by column; what is not given is missing."""
        return self.read(values).features()

    def decode_one(self, features: FloatArray) -> dict[str, Any]:
        """Return values by column that have these features `(d,)`, without those that are missing or not said."""
        values = {column.name: column.decode_one(features[place]) for column, place in self.placed}
        return {name: value for name, value in values.items() if value is not None}

    def encode_changed(self, features: FloatArray, values: Mapping[str, Any]) -> FloatArray:
        """Return features `(d,)` with those of the columns in `values` encoded anew."""
        parts = [
            column.encode_one(values[column.name]) if column.name in values else features[place]
            for column, place in self.placed
        ]
        return np.concatenate([np.zeros(0), *parts])

    def carry_over(self, encoder: "Encoder", features: FloatArray, unexpressed: Mapping[str, Any]) -> FloatArray:
        """Return the features `(d,)` of a visitor or a product that another encoder encoded.

        Args:
            encoder: The other encoder. Of a column that it has alike the features are taken as they are.
            features: Its features of the visitor, or of the product.
            unexpressed: The values that these do not say, by column.
        """
        before = {column.name: (column, place) for column, place in encoder.placed}
        parts: list[Any] = []
        for column in self.columns:
            earlier, place = before.get(column.name, (None, slice(0)))
            if earlier == column:
                parts.append(features[place])
            # The value itself where it is known: the features of the other encoder do not say all of it.
            elif column.name in unexpressed or earlier is None:
                parts.append(column.encode_one(unexpressed.get(column.name)))
            else:
                parts.append(column.encode_one(earlier.decode_one(features[place])))
        return np.concatenate([np.zeros(0), *parts])

    @cached_property
    def by_name(self) -> dict[str, AnyColumn]:
        """The columns by name."""
        return {column.name: column for column in self.columns}

    @cached_property
    def number_block(self) -> NumberBlock:
        """The columns of numbers that are encoded together."""
        numbers = [
            (column, place.start)
            for column, place in self.placed
            if isinstance(column, NumberColumn) and max(-column.low, column.high) <= LARGEST_NUMBER
        ]
        return NumberBlock([column for column, _ in numbers], [place for _, place in numbers])

    @cached_property
    def outside_block(self) -> list[tuple[AnyColumn, slice]]:
        """The columns that are always encoded one by one, and where their features stand."""
        return [(column, place) for column, place in self.placed if column.name not in self.number_block.names]

    @cached_property
    def placed(self) -> list[tuple[AnyColumn, slice]]:
        """Each column, and where its features stand."""
        return list(zip(self.columns, parts(self).values(), strict=True))

    def rare_levels(self) -> dict[str, str]:
        """Say of which columns levels were left out that too few visitors had, by column."""
        notes = {column.name: column.rarity for column in self.columns if isinstance(column, LevelColumn)}
        return {name: note for name, note in notes.items() if note}

    def drift(self, frame: pl.DataFrame) -> dict[str, str]:
        """Return what a table holds that the encoder was not fitted to, and how much of it, by column."""

        def note(column: AnyColumn) -> str:
            if column.name not in frame.columns:
                return "the column is gone; all its values count as missing"
            return _drift_of(column, frame[column.name])

        notes = zip(self.names, map_in_threads(note, self.columns), strict=True)
        return {name: words for name, words in notes if words}


class Reading:
    """The values of one visitor or product, by column, as an encoder reads them: once for all that it says of them.

    Attributes:
        encoder: The encoder.
        values: The values; what is not given is missing.
        one_by_one: The columns that are read one by one, and where their features stand: all where one of those that
            are read together is not given as a number.
    """

    def __init__(self, encoder: Encoder, values: Mapping[str, Any]) -> None:
        """Read values."""
        self.encoder = encoder
        self.values = values
        self._numbers = encoder.number_block.read(values)
        self.one_by_one = encoder.placed if self._numbers is None else encoder.outside_block

    def features(self) -> FloatArray:
        """Return the features `(d,)`."""
        if self._numbers is None:
            features: list[float] = []
            for column, _ in self.one_by_one:
                features += column.encode_one(self.values.get(column.name))
            return np.array(features)
        encoded = np.zeros(self.encoder.width)
        self.encoder.number_block.encode(self._numbers, encoded)
        for column, place in self.one_by_one:
            encoded[place] = column.encode_one(self.values.get(column.name))
        return encoded

    def unexpressed(self) -> dict[str, Any]:
        """Return those of the values, by column, that the features do not say."""
        columns = self.encoder.by_name
        block = self.encoder.number_block
        expressed: frozenset[str] = frozenset()
        if self._numbers is not None and block.are_expressed(self._numbers):
            expressed = block.names
            if len(self.values) == len(expressed):
                return {}
        return {
            name: value
            for name, value in self.values.items()
            if name not in expressed
            and value is not None
            and (name not in columns or not columns[name].expresses(value))
        }

    def clipped(self) -> list[str]:
        """Return the columns, in any order, of which the values hold numbers beyond the limits of the features."""
        names = [column.name for column, _ in self.one_by_one if column.clips(self.values.get(column.name))]
        return names if self._numbers is None else names + self.encoder.number_block.clipped(self._numbers)


def fit_encoder(
    frame: pl.DataFrame,
    types: Mapping[str, str | Mapping[str, Any] | None],
    source: str,
    *,
    visitors: IntArray | None = None,
    **options: Any,
) -> Encoder:
    """Fit an encoder to a table.

    Args:
        frame: The table.
        types: The type of each column, by name: one of `COLUMN_TYPES`, a mapping of `type` and its options, or None to
            infer it from the values.
        source: What messages call the table.
        visitors: Whose each row is, as numbers `(n,)`. Default: each row is of another visitor.
        **options: For all columns, such as `time_zone`.

    Raises:
        ConfigError: a type or an option is unknown.
        DataError: a column is missing or cannot be encoded.
    """

    def fit(name: str) -> Any:
        if name not in frame.columns:
            raise DataError(f"{source}: got no column {shown(name)}, expected one of {', '.join(frame.columns)}")
        wanted = types[name]
        own = {"type": wanted} if isinstance(wanted, str) else dict(wanted or {})
        return _fit_column(
            frame[name], build(ColumnOptions, {**options, **own}, f"{source}: column {name}"), visitors, source
        )

    return Encoder(columns=tuple(map_in_threads(fit, list(types))))


def _fit_column(column: pl.Series, options: ColumnOptions, visitors: IntArray | None, source: str) -> Any:
    """Fit the type that `options` name, or the inferred one, to a column; raises `DataError` where it cannot be."""
    if column.dtype in UNREADABLE:
        expected = "numbers, words, times or lists of them"
        raise DataError(f"{source}: column {column.name} holds values of type {column.dtype}, expected {expected}")
    kind = options.type or infer_type(column).type or "category"
    given = options.model_dump(exclude={"type"})
    fitted: Any = COLUMN_TYPES[kind].fitted(column.name, column, visitors=visitors, **given)
    if fitted.missing:
        _check_readable(fitted, column, source)
    return fitted


def _check_readable(fitted: AnyColumn, column: pl.Series, source: str) -> None:
    """Raise `DataError` for a column of whose values most cannot be read."""
    values = _present(column)
    unread = values.filter(~fitted.reads(values["value"]))
    n_present = int(values["count"].sum())
    n_unread = int(unread["count"].sum())
    if 2 * n_unread > n_present:
        got = f"{n_unread:,} of {n_present:,} values are no {fitted.type} ({_examples(unread)})"
        hint = ", or say what numbers count (epoch: s, ms or us)" if fitted.type == "time" else ""
        raise DataError(f"{source}: column {column.name}: {got}; give it another type{hint}")


def _present(column: pl.Series) -> pl.DataFrame:
    """Return the distinct values that are not missing, each `value` with its `count`."""
    counts = counted(column)
    return counts.filter(present(counts["value"]))


def _drift_of(column: AnyColumn, values: pl.Series) -> str:
    """Say how many values are new to a column, with examples; nothing where none is."""
    counts = _present(values)
    n_present = int(counts["count"].sum())
    missing = len(values) - n_present
    new = counts.filter(~column.knows(counts["value"]))
    n_new = int(new["count"].sum())
    notes = []
    if missing and not column.missing:
        notes.append(f"{missing:,} of {len(values):,} values are missing, none was")
    if n_new > column.most_unknown(n_present):
        notes.append(f"{n_new:,} of {len(values):,} values are {column.news} ({_examples(new)})")
    return "; ".join(notes)


def _examples(counts: pl.DataFrame) -> str:
    texts = sorted(map(str, counts["value"].to_list()))
    return ", ".join(texts[:EXAMPLES]) + (", ..." if len(texts) > EXAMPLES else "")


def parts(encoder: Encoder) -> dict[str, slice]:
    """Return where the features of each column stand."""
    stops = np.cumsum([len(column.features) for column in encoder.columns])
    return {
        column.name: slice(int(stop) - len(column.features), int(stop))
        for column, stop in zip(encoder.columns, stops, strict=True)
    }
